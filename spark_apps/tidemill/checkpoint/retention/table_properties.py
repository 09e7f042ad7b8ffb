"""Read how long a Delta table keeps its log and its removed files, and check that it is long enough."""

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
    """The retention of a table.

    Args:
        path: Path of the table.
        log: Age up to which old versions can be read.
        deleted_files: Age at which a VACUUM may delete removed files.
        transactions: Property that lets transaction versions expire; None if unset, as it must be.
    """

    path: str
    log: timedelta = DELTA_LOG_RETENTION
    deleted_files: timedelta = DELTA_DELETED_FILE_RETENTION
    transactions: str | None = None

    @property
    def transactions_for(self) -> timedelta | None:
        """Return the age at which transaction versions expire; None if they do not."""
        return None if self.transactions is None else _interval(self.transactions) or timedelta()


def read_table_retention(path: str) -> TableRetention | None:
    """Return the retention of a table; None if the table does not exist."""
    table = open_table(path)
    return None if table is None else table_retention(path, table.metadata().configuration)


def table_retention(path: str, properties: Mapping[str, str]) -> TableRetention:
    """Return the retention from a table's properties; an unreadable value counts as Delta's default."""
    return TableRetention(
        path,
        _interval(properties.get(LOG)) or DELTA_LOG_RETENTION,
        _interval(properties.get(DELETED_FILES)) or DELTA_DELETED_FILE_RETENTION,
        properties.get(TRANSACTIONS),
    )


def table_findings(pipeline: str, table: TableRetention, kept: Retention) -> list[Finding]:
    """Return TIDE-CKPT-061 if a RESTORE could not follow a rewind, and -063 if transactions expire."""
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
    """Parse `interval 1 week 2 days`, as Delta writes it; return None for other text."""
    words = re.findall(r"[0-9.]+\s+[a-z]+", (text or "").lower())
    try:
        return sum((parse_duration(word) for word in words), timedelta()) or None
    except ValueError:
        return None


def _hours(duration: timedelta) -> int:
    return -(-duration // timedelta(hours=1))
