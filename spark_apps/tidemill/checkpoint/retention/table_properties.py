"""How long a Delta table keeps its log and its removed files, and whether that is long enough."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from tidemill.checkpoint.findings import Finding
from tidemill.checkpoint.retention.rule import DELTA_DELETED_FILE_RETENTION, DELTA_LOG_RETENTION, Retention
from tidemill.ledger.read import open_table
from tidemill.names import sql_table
from tidemill.spec.units import format_duration, parse_duration

LOG = "delta.logRetentionDuration"
DELETED_FILES = "delta.deletedFileRetentionDuration"
TRANSACTIONS = "delta.setTransactionRetentionDuration"


@dataclass(frozen=True)
class TableRetention:
    """What a table keeps.

    Args:
        path: Of the table.
        log: Age up to which versions can be read again.
        deleted_files: Age up to which files that were removed are still there, for a VACUUM.
        transactions: Property that lets transaction versions expire; None if unset, as it must be.
    """

    path: str
    log: timedelta = DELTA_LOG_RETENTION
    deleted_files: timedelta = DELTA_DELETED_FILE_RETENTION
    transactions: str | None = None

    @property
    def transactions_for(self) -> timedelta | None:
        """Age at which transaction versions expire; None if they do not."""
        return None if self.transactions is None else _interval(self.transactions) or timedelta()


def read_table_retention(path: str) -> TableRetention | None:
    """What a table keeps; None if there is no table."""
    table = open_table(path)
    return None if table is None else table_retention(path, table.metadata().configuration)


def table_retention(path: str, properties: Mapping[str, str]) -> TableRetention:
    """What a table with these properties keeps; one that cannot be read counts as Delta's default."""
    return TableRetention(
        path,
        _interval(properties.get(LOG)) or DELTA_LOG_RETENTION,
        _interval(properties.get(DELETED_FILES)) or DELTA_DELETED_FILE_RETENTION,
        properties.get(TRANSACTIONS),
    )


def table_findings(pipeline: str, table: TableRetention, kept: Retention) -> list[Finding]:
    """TIDE-CKPT-061, if a RESTORE could not follow a rewind; TIDE-CKPT-063, if transactions expire."""
    findings = []
    short = {
        name: value
        for name, value in ((LOG, table.log), (DELETED_FILES, table.deleted_files))
        if value < min(kept.asked, kept.rewindable)
    }
    if short:
        wanted = {LOG: kept.log_retention, DELETED_FILES: kept.deleted_file_retention}
        setting = ", ".join(f"'{name}' = 'interval {_hours(wanted[name])} hours'" for name in short)
        findings.append(
            Finding(
                "TIDE-CKPT-061",
                "warning",
                pipeline,
                "The table forgets sooner than the checkpoint: it could not be brought back as far.",
                {
                    "table": table.path,
                    "rewindable": format_duration(kept.rewindable),
                    **{name: format_duration(value) for name, value in short.items()},
                },
                f"ALTER TABLE {sql_table(table.path)} SET TBLPROPERTIES ({setting})",
                "retention-policy",
            )
        )
    if table.transactions is not None:
        findings.append(
            Finding(
                "TIDE-CKPT-063",
                "error",
                pipeline,
                "The table lets transaction versions expire: after a longer stop, a repeated batch is "
                "written twice.",
                {"table": table.path, TRANSACTIONS: table.transactions},
                f"ALTER TABLE {sql_table(table.path)} UNSET TBLPROPERTIES ('{TRANSACTIONS}')",
                "retention-policy",
            )
        )
    return findings


def _interval(text: str | None) -> timedelta | None:
    """`interval 1 week 2 days`, as Delta writes it; None if it is something else."""
    words = re.findall(r"[0-9.]+\s+[a-z]+", (text or "").lower())
    try:
        return sum((parse_duration(word) for word in words), timedelta()) or None
    except ValueError:
        return None


def _hours(duration: timedelta) -> int:
    return -(-duration // timedelta(hours=1))
