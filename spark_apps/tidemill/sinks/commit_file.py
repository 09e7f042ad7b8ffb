"""The file of one commit in a Delta log, written and read by name without listing the log.

Listing takes longer with every commit, and delta-rs lists twice per commit. A commit that adds a batch needs
no listing: `NNN.json` with the next number is created unless it exists, and on every store only one writer
succeeds. The format is Delta's (Delta transaction log protocol, "Actions").
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote

from tidemill.ledger.read import Commit, parse_commit_info
from tidemill.sinks.batch_commit import BatchCommit
from tidemill.storage.parquet_part import PartFile

if TYPE_CHECKING:
    from deltalake import DeltaTable

# Features that require nothing from a commit which only adds files, beyond the rules that `row_rules`
# refuses.
PLAIN_FEATURES = frozenset(
    {
        "appendOnly",
        "changeDataFeed",
        "checkConstraints",
        "generatedColumns",
        "identityColumns",
        "invariants",
        "timestampNtz",
    }
)

# Writers up to this version have only these features, and column mapping (`row_rules`).
LEGACY_WRITER = 6

# Actions that leave the table's columns and properties unchanged.
_OF_ROWS = frozenset({"commitInfo", "add", "remove", "cdc", "txn"})


def commit_path(table: str, version: int) -> str:
    """Return the path of a version's commit."""
    return f"{table}/_delta_log/{version:020}.json"


def is_plain(table: DeltaTable) -> bool:
    """Return True if a commit that adds files needs only their list; otherwise delta-rs must commit."""
    protocol = table.protocol()
    if protocol.min_writer_version <= LEGACY_WRITER:
        return True
    return PLAIN_FEATURES.issuperset([*(protocol.writer_features or ()), *(protocol.reader_features or ())])


def adding_files(parts: Sequence[PartFile], commit: BatchCommit, now: int) -> bytes:
    """Return the content of a commit that adds files.

    Args:
        parts: The files.
        commit: Its transaction and ledger entry.
        now: Milliseconds since 1970.
    """
    info = {
        "timestamp": now,
        "operation": "WRITE",
        "operationParameters": {"mode": "Append", "partitionBy": "[]"},
        "isBlindAppend": True,
        "engineInfo": "tidemill",
        "userMetadata": commit.entry.to_text(),
    }
    # A table that forgets old transactions would forget one without a time at once.
    transaction = {"appId": commit.app_id, "version": commit.batch_id, "lastUpdated": now}
    actions = [{"commitInfo": info}, *({"add": _added(part, now)} for part in parts), {"txn": transaction}]
    # Not escaped, because deltalake 1.6 decodes escaped characters beyond U+1FFFF incorrectly, even in
    # bounds.
    return "".join(json.dumps(action, ensure_ascii=False) + "\n" for action in actions).encode()


def _added(part: PartFile, now: int) -> dict[str, Any]:
    return {
        "path": quote(part.name, safe="/="),
        "partitionValues": {},
        "size": part.size,
        "modificationTime": now,
        "dataChange": True,
        "stats": part.statistics,
    }


@dataclass(frozen=True)
class CommitFile:
    """The part of a commit that a writer needs.

    Args:
        commit: The commit, as in the history.
        transactions: Versions by app id.
    """

    commit: Commit
    transactions: Mapping[str, int]

    @classmethod
    def read(cls, version: int, content: bytes) -> Self | None:
        """Parse a commit; return None if it may have changed more than rows, or has no `commitInfo`."""
        try:
            actions = [json.loads(line) for line in content.splitlines() if line.strip()]
            kinds = {kind for action in actions for kind in action}
            if not kinds <= _OF_ROWS:
                return None
            info = next(action["commitInfo"] for action in actions if "commitInfo" in action)
            found = (action["txn"] for action in actions if "txn" in action)
            return cls(parse_commit_info(version, info), {txn["appId"]: int(txn["version"]) for txn in found})
        except (ValueError, KeyError, TypeError, AttributeError, StopIteration):
            # delta-rs explains a damaged commit.
            return None
