"""What the random life of a pipeline keeps: the log of each table, and the files of one generation."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime

from tidemill.checkpoint.current import Base
from tidemill.checkpoint.gate.facts import TableFacts
from tidemill.checkpoint.gate.gather import LEDGER_LOOK_BACK
from tidemill.checkpoint.gate.tables import Reader, table_facts, was_restored
from tidemill.ledger.entry import LedgerEntry
from tidemill.ledger.read import Commit
from tidemill.names import QUARANTINE_OUTPUT, transaction_id

PIPELINE = "orders"
TOPIC = "orders"
MOMENT = datetime(2026, 1, 1, tzinfo=UTC)
NAMES = ("bronze/orders", "silver/orders", "gold/orders")
SETTINGS = {"spark.sql.shuffle.partitions": "2"}


@dataclass
class Table:
    """One table's log."""

    name: str
    newest_first: list[Commit] = field(default_factory=list)
    transactions: dict[str, int] = field(default_factory=dict)

    @property
    def version(self) -> int:
        return self.newest_first[0].version if self.newest_first else 0

    def commit(
        self, operation: str, entry: LedgerEntry | None = None, restored_to: int | None = None
    ) -> None:
        commit = Commit(self.version + 1, MOMENT, operation, None, entry, restored_to)
        self.newest_first.insert(0, commit)

    def facts(self, generation: str, base: Base | None) -> TableFacts:
        """As the gate reads them: the newest commits, or all after a RESTORE."""
        recent = self.newest_first[:LEDGER_LOOK_BACK]
        commits = self.newest_first if was_restored(recent) else recent
        app_id = transaction_id(PIPELINE, generation, self.name)
        reader = Reader(PIPELINE, generation, self.name, base, self.name != QUARANTINE_OUTPUT)
        return table_facts(commits, self.transactions.get(app_id), reader)


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
