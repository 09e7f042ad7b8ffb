"""Stored parts of a pipeline's random history: the log of each table, and the files of one generation."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from datetime import UTC, datetime

from tests.support.delta_logs import TABLE_ID
from tidemill.checkpoint.current import Base, Current
from tidemill.checkpoint.gate.facts import TableFacts
from tidemill.checkpoint.gate.tables import OpenTable, Reader, table_facts
from tidemill.ledger.entry import Code, LedgerEntry
from tidemill.ledger.read import Commit
from tidemill.names import QUARANTINE_OUTPUT, transaction_id

PIPELINE = "orders"
TOPIC = "orders"
MOMENT = datetime(2026, 1, 1, tzinfo=UTC)
NAMES = ("bronze/orders", "silver/orders", "gold/orders")
SETTINGS = {"spark.sql.shuffle.partitions": "2"}
SCHEMA = "{}"
CODE = Code(tidemill="0", digest=hashlib.sha256(SCHEMA.encode()).hexdigest()[:16], spec="s")


@dataclass
class Table:
    """One table's log; version 0 makes it."""

    name: str
    newest_first: list[Commit] = field(default_factory=list)
    transactions: dict[str, int] = field(default_factory=dict)

    @property
    def version(self) -> int:
        return self.newest_first[0].version if self.newest_first else -1

    @property
    def identity(self) -> str | None:
        return TABLE_ID if self.newest_first else None

    def commit(
        self, operation: str, entry: LedgerEntry | None = None, restored_to: int | None = None
    ) -> None:
        if not self.newest_first:
            self.newest_first.append(Commit(0, MOMENT, "CREATE TABLE", None, None))
        rows = 0 if entry is not None and entry.mode == "base" else None
        self.newest_first.insert(0, Commit(self.version + 1, MOMENT, operation, rows, entry, restored_to))

    def facts(self, generation: str, base: Base | None) -> TableFacts:
        """Return the facts that the gate reads."""
        record = Current(pipeline=PIPELINE, generation=generation, why="a test", base=base)
        app_id = transaction_id(PIPELINE, generation, self.name)
        begun = None if base is None else base.tables.get(self.name)
        began_at = -1 if begun is None else begun.version
        reader = Reader(generation, record.side, self.name, began_at, self.name != QUARANTINE_OUTPUT)
        opened = OpenTable(self.identity, self.transactions.get(app_id))
        return table_facts(self.newest_first, opened, reader)


@dataclass
class Checkpoint:
    """One generation's files."""

    generation: str
    query_id: str
    base: Base | None = None
    offsets: dict[int, dict[str, int]] = field(default_factory=dict)
    commits: set[int] = field(default_factory=set)
    initial: dict[str, int] | None = None
    newest_state: int = 0

    @property
    def planned(self) -> int | None:
        return max(self.offsets, default=None)

    @property
    def committed(self) -> int | None:
        return max(self.commits, default=None)
