"""Delta tables of which there is only the log, written by hand: histories cost no engine and no data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidemill.ledger.entry import LedgerEntry

_SCHEMA = json.dumps(
    {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]}
)
TABLE_ID = "5fba94ed-9794-4965-ba6e-6ee3c0d22af9"
_TABLE = (
    {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
    {
        "metaData": {
            "id": TABLE_ID,
            "format": {"provider": "parquet", "options": {}},
            "schemaString": _SCHEMA,
            "partitionColumns": [],
            "configuration": {},
            "createdTime": 1_700_000_000_000,
        }
    },
)


@dataclass(frozen=True)
class LogCommit:
    """One commit to write.

    Args:
        operation: Delta's name of it.
        entry: Ledger entry in its `userMetadata`.
        transaction: App id and version.
        restored_to: Version to which a RESTORE goes back.
        actions: Further lines.
    """

    operation: str = "WRITE"
    entry: LedgerEntry | None = None
    transaction: tuple[str, int] | None = None
    restored_to: int | None = None
    actions: tuple[Mapping[str, Any], ...] = ()


def write_log(path: str | Path, commits: list[LogCommit]) -> None:
    """Write the log of a table that version 0 creates and whose version N is the Nth commit."""
    log = Path(path) / "_delta_log"
    log.mkdir(parents=True)
    _write(log, 0, [_info(0, LogCommit("CREATE TABLE")), *_TABLE])
    for version, commit in enumerate(commits, start=1):
        lines = [_info(version, commit), *commit.actions]
        if commit.transaction is not None:
            app_id, batch_id = commit.transaction
            lines.append({"txn": {"appId": app_id, "version": batch_id, "lastUpdated": 1_700_000_000_000}})
        _write(log, version, lines)


def _info(version: int, commit: LogCommit) -> Mapping[str, Any]:
    info: dict[str, Any] = {
        "timestamp": 1_700_000_000_000 + 1000 * version,
        "operation": commit.operation,
        "operationParameters": {} if commit.restored_to is None else {"version": commit.restored_to},
    }
    if commit.entry is not None:
        info["userMetadata"] = commit.entry.to_text()
    return {"commitInfo": info}


def _write(log: Path, version: int, lines: list[Mapping[str, Any]]) -> None:
    text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
    (log / f"{version:020}.json").write_text(text)
