"""Random lives of a pipeline in which nothing goes wrong that the platform does not survive by itself.

A life is a driver that runs batches step by step and is killed anywhere. Between lives, operators and tools
do allowed things: maintenance, backfills, rewinds, resets. The gate must allow every start.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Any

from tests.support.history_parts import CODE, NAMES, PIPELINE, SETTINGS, TOPIC, Checkpoint, Table
from tidemill.checkpoint.current import Base, BaseTable, Current
from tidemill.checkpoint.gate.facts import (
    BatchLog,
    CheckpointFacts,
    Declared,
    DriverFacts,
    SourceFacts,
    StateFacts,
    TopicFacts,
)
from tidemill.checkpoint.reading.log_files import CommitsFile, OffsetsFile
from tidemill.ledger.entry import LedgerEntry, OffsetRange, Shape
from tidemill.ledger.read import FIRST_PAGE
from tidemill.ledger.table_restore import CLOSED
from tidemill.names import QUARANTINE_OUTPUT, transaction_id


class History:
    """One pipeline from its first start on.

    Args:
        seed: Decides everything.
    """

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.stateful = self.chance.random() < 0.5
        self.tables = [Table(name) for name in NAMES[: self.chance.choice((0, 1, 1, 2, 3))]]
        self.quarantine = Table(QUARANTINE_OUTPUT)
        names = tuple(sorted(table.name for table in self.tables))
        self.shape = Shape(source="kafka", output_mode="append", shuffle_partitions=2, tables=names)
        self.kept = self.chance.choice((2, 3, 10, 100))
        self.checkpoint = Checkpoint("g0001", self._new_query())
        self.ends = dict.fromkeys(map(str, range(self.chance.randint(1, 3))), 0)
        self.oldest = dict.fromkeys(self.ends, 0)
        self.told: tuple[str, int] | None = None
        # Versions of each table after each batch: what a rewind can go back to.
        self.versions: dict[int, dict[str, int]] = {}

    def starts(self, lives: int) -> Iterator[CheckpointFacts]:
        """Yield the gate's facts at each start."""
        for _ in range(lives):
            yield self.facts()
            for step, _ in zip(self._life(), range(self.chance.randint(0, 30)), strict=False):
                step()
            if self.chance.random() < 0.5:
                self.chance.choice(
                    (self._maintain, self._maintain, self._backfill, self._rewind, self._reset)
                )()
        yield self.facts()

    def facts(self) -> CheckpointFacts:
        """Return the gate's facts now."""
        found = self.checkpoint
        began = found.planned is not None
        return CheckpointFacts(
            PIPELINE,
            found.generation,
            Declared(self.shape, frozenset({TOPIC})),
            found.base,
            query_id=found.query_id if began or found.base is not None else None,
            offsets=BatchLog(tuple(sorted(found.offsets)), (), self._orphan_twins()),
            commits=BatchLog(tuple(sorted(found.commits))),
            planned_batches={n: self._offsets_file(n) for n in sorted(found.offsets)[-3:]},
            newest_commit=None if found.committed is None else CommitsFile(found.committed, 2),
            state=StateFacts((0,), 0) if self.stateful and found.newest_state else StateFacts(),
            source=self._source(),
            tables={table.name: table.facts(found.generation, found.base) for table in self.tables},
            asides={QUARANTINE_OUTPUT: self.quarantine.facts(found.generation, found.base)},
            last_driver=None if self.told is None else DriverFacts("run-1", "running", *self.told, 1.0),
        )

    def _life(self) -> Iterator[Any]:
        """Yield the steps of endless batches as callables; to stop calling them is to kill the driver."""
        while True:
            found = self.checkpoint
            if found.planned is None or found.planned == found.committed:
                yield self._plan
                yield self._purge
            planned = found.planned
            assert planned is not None
            if self.stateful:
                yield self._write_state
            for table in self.tables:
                yield lambda table=table: self._write(table)
            if self.chance.random() < 0.3:
                yield lambda: self._write(self.quarantine)
            yield self._tell
            yield self._commit

    def _plan(self) -> None:
        found = self.checkpoint
        if found.initial is None:
            found.initial = dict(self.oldest)
        start = found.initial if found.planned is None else found.offsets[found.planned]
        if self.chance.random() < 0.05:
            # A partition is added; it is read from its beginning.
            self.ends[str(len(self.ends))] = 0
            self.oldest[str(len(self.oldest))] = 0
        for partition in self.ends:
            # Some batches are empty: a watermark that moved, or a trigger after a restart.
            self.ends[partition] += self.chance.choice((0, 0, 3, 40))
        batch_id = 0 if found.planned is None else found.planned + 1
        found.offsets[batch_id] = {p: max(start.get(p, 0), end) for p, end in self.ends.items()}

    def _purge(self) -> None:
        """Remove old batches, or only some of them, as if the driver was killed."""
        found = self.checkpoint
        assert found.planned is not None
        spared = self.chance.choice((0.0, 0.0, 0.5))
        old = [n for n in found.offsets if n < found.planned - self.kept]
        for number in old:
            if self.chance.random() >= spared:
                del found.offsets[number]
                found.commits.discard(number)

    def _write_state(self) -> None:
        assert self.checkpoint.planned is not None
        self.checkpoint.newest_state = self.checkpoint.planned + 1

    def _write(self, table: Table) -> None:
        """Commit the newest batch unless it is committed; the entry is that of the files."""
        found = self.checkpoint
        batch_id = found.planned
        assert batch_id is not None
        app_id = transaction_id(PIPELINE, found.generation, table.name)
        if table.transactions.get(app_id, -1) >= batch_id:
            return
        table.commit("WRITE", self._entry(table, batch_id))
        table.transactions[app_id] = batch_id
        self.versions.setdefault(batch_id, {})[table.name] = table.version

    def _entry(self, table: Table, batch_id: int) -> LedgerEntry:
        found = self.checkpoint
        ids = {TOPIC: "id-1"} if self.chance.random() < 0.7 else None
        read = OffsetRange.model_construct(start=None, end={TOPIC: found.offsets[batch_id]}, topic_ids=ids)
        return LedgerEntry.model_construct(
            pipeline=PIPELINE,
            output=table.name,
            mode="stream",
            run_id="run-1",
            generation=found.generation,
            query_id=found.query_id,
            epoch=1,
            batch_id=batch_id,
            sources={"source": read},
            code=CODE,
            shape=self.shape,
        )

    def _tell(self) -> None:
        assert self.checkpoint.planned is not None
        self.told = (self.checkpoint.generation, self.checkpoint.planned)

    def _commit(self) -> None:
        found = self.checkpoint
        assert found.planned is not None
        found.commits.add(found.planned)
        for table in (*self.tables, self.quarantine):
            self.versions.setdefault(found.planned, {})[table.name] = table.version

    def _maintain(self) -> None:
        """OPTIMIZE, another pipeline's writes, and a RESTORE that takes back only such."""
        for table in self.tables:
            before = table.version
            for _ in range(self.chance.choice((1, 2, FIRST_PAGE + 1))):
                table.commit("OPTIMIZE")
            if self.chance.random() < 0.3:
                table.commit("RESTORE", restored_to=before)

    def _backfill(self) -> None:
        if self.checkpoint.committed is None:
            return
        for table in self.tables:
            entry = self._entry(table, self.checkpoint.committed)
            entry = entry.model_copy(update={"mode": "backfill", "generation": None, "batch_id": None})
            table.commit("WRITE", entry)

    def _rewind(self) -> None:
        """Rewind to a finished batch whose offsets exist: restore tables, begin a generation and a query."""
        parent = self.checkpoint
        known = [n for n in parent.commits if n in self.versions and n in parent.offsets]
        known = [n for n in known if n == 0 or n - 1 in parent.offsets]
        if not known:
            return
        target = self.chance.choice(sorted(known))
        generation, query = self._next_generation(), self._new_query()
        tables = {}
        for table in (*self.tables, self.quarantine):
            if table.identity is None:
                continue
            to = self.versions[target].get(table.name, 0)
            tables[table.name] = BaseTable(id=table.identity, version=to)
            self._begin(table, generation, query, target, to)
        record = Current(pipeline=PIPELINE, generation=parent.generation, why="", base=parent.base)
        lineage = record.side.up_to(target)
        self.checkpoint = Checkpoint(
            generation,
            query,
            Base(generation=parent.generation, batch_id=target, lineage=lineage, tables=tables),
            {number: ends for number, ends in parent.offsets.items() if number <= target},
            {number for number in parent.commits if number <= target},
            parent.initial,
            target + 1 if self.stateful else 0,
        )
        self.versions = {n: v for n, v in self.versions.items() if n <= target}

    def _reset(self) -> None:
        """Reset to the oldest records, without batches and state; the tables stay as they are."""
        parent = self.checkpoint
        if parent.planned is None:
            return
        generation, query = self._next_generation(), self._new_query()
        tables: dict[str, BaseTable | None] = {}
        for table in (*self.tables, self.quarantine):
            known = table.identity
            tables[table.name] = None if known is None else BaseTable(id=known, version=table.version)
            if known is not None:
                self._begin(table, generation, query, None, table.version)
        base = Base(generation=parent.generation, tables=tables)
        self.checkpoint = Checkpoint(generation, query, base, initial=dict(self.oldest))
        self.versions = {}

    def _begin(self, table: Table, generation: str, query: str, batch_id: int | None, to: int) -> None:
        """Commit an operation's restore: rewind the table, close the old generation, begin the new one."""
        last = max(self.checkpoint.offsets, default=0) if batch_id is None else batch_id
        begun = {"mode": "base", "generation": generation, "query_id": query, "batch_id": batch_id}
        entry = self._entry(table, last).model_copy(update=begun)
        if to == table.version:
            table.commit("WRITE", entry)
        else:
            table.commit("RESTORE", entry, restored_to=to)
        table.transactions[transaction_id(PIPELINE, self.checkpoint.generation, table.name)] = CLOSED
        if batch_id is not None:
            table.transactions[transaction_id(PIPELINE, generation, table.name)] = batch_id

    def _next_generation(self) -> str:
        return f"g{int(self.checkpoint.generation[1:]) + 1:04d}"

    def _new_query(self) -> str:
        return f"query-{self.chance.getrandbits(64):x}"

    def _offsets_file(self, batch_id: int) -> OffsetsFile:
        return OffsetsFile(batch_id, 1, {"0": {TOPIC: self.checkpoint.offsets[batch_id]}}, conf=SETTINGS)

    def _orphan_twins(self) -> tuple[int, ...]:
        """Return orphaned twins, which a purge leaves if it is killed between a file and its twin."""
        first = min(self.checkpoint.offsets, default=0)
        return (first - 1,) if first > 0 and self.chance.random() < 0.1 else ()

    def _source(self) -> SourceFacts:
        found = self.checkpoint
        initial = None if found.initial is None or found.committed is not None else {TOPIC: found.initial}
        return SourceFacts(found.initial is not None, initial, self._topics())

    def _topics(self) -> TopicFacts | None:
        """Return the broker's facts, or None, as if it was not asked."""
        if self.chance.random() < 0.3:
            return None
        found = self.checkpoint
        start = found.initial if found.committed is None else found.offsets[found.committed]
        begun: Mapping[str, int] = start or {}
        # Retention may have deleted everything that was read.
        oldest = {p: begun.get(p, 0) if self.chance.random() < 0.3 else 0 for p in self.ends}
        ends = {p: end + self.chance.choice((0, 5)) for p, end in self.ends.items()}
        return TopicFacts({TOPIC: oldest}, {TOPIC: ends}, {TOPIC: "id-1"})
