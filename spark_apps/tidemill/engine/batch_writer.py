"""The writer of one micro-batch: first the records that are set aside, then every output, each once."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from pyspark import StorageLevel
from pyspark.sql import DataFrame

from tidemill.checkpoint.poison_records import PoisonRecord, poison_in
from tidemill.checkpoint.stream_watermarks import Watermarks
from tidemill.engine.discovery import Discovery
from tidemill.engine.expectations import CheckedRows, TableExpectations
from tidemill.engine.half_written import check_same_code, check_same_joined, check_same_set_aside
from tidemill.engine.joined_read import JoinedRead
from tidemill.engine.late_split import LateSplit, check_none_dropped
from tidemill.engine.outputs import Output
from tidemill.engine.records_aside import RecordsAside
from tidemill.engine.sink_times import SinkTimes
from tidemill.engine.state_operators import StateOperators, late_rows
from tidemill.engine.stream_watermarks import StreamWatermarks
from tidemill.ledger.entry import ExpectationCounts, LedgerEntry
from tidemill.names import ASIDE_OUTPUTS, LATE_OUTPUT, QUARANTINE_OUTPUT
from tidemill.payload.untimed_rows import UntimedRows
from tidemill.sinks.batch_commit import BatchCommit, Staged, Written
from tidemill.sinks.memory_sink import MemoryTable
from tidemill.storage.parquet_part import PartFile

# Maximum length of the offsets in an error, in characters.
SHOWN_OFFSETS = 300


@dataclass(frozen=True)
class BatchResult:
    """Rows that one batch wrote, by output, and the number of records that it rejected or dropped.

    Dropped are `late` rows and, where windows drop them, rows without an event time (`no_event_time`).
    `expectations` has the counts of each written table with expectations. `times` has the duration at each
    output. `watermarks` has the watermark of each stream after the batch, if there are several streams.
    """

    batch_id: int | None
    written: dict[str, Written]
    quarantined: int
    late: int = 0
    expectations: Mapping[str, ExpectationCounts] = field(default_factory=dict)
    times: SinkTimes = field(default_factory=SinkTimes)
    no_event_time: int = 0
    watermarks: Watermarks = field(default_factory=dict)


@dataclass(frozen=True)
class _Read:
    """Result of reading a batch, by output: staged commits, results of expectations, and times."""

    staged: dict[str, Staged]
    checked: dict[str, CheckedRows]
    times: SinkTimes

    @property
    def quarantined(self) -> list[PartFile]:
        """Return the data files of the quarantine with rows that violate expectations."""
        return [part for checked in self.checked.values() for part in checked.quarantined]

    @property
    def set_aside(self) -> dict[str, str] | None:
        """Return a digest of the rows that violate expectations, by output; None without expectations."""
        return {name: checked.digest for name, checked in self.checked.items()} or None


class BatchWriter:
    """Writer for the batches of one query.

    Args:
        outputs: Tables are written first, then the others, each in order.
        asides: Tables of records that are set aside: late rows, and the quarantine, which also takes rows
            that violate expectations.
        state: Finds the stateful operators.
        late_split: Separates late rows; None where Spark drops them.
    """

    def __init__(
        self,
        outputs: Sequence[Output],
        asides: Sequence[RecordsAside],
        state: StateOperators,
        late_split: LateSplit | None = None,
    ) -> None:
        # Tables first, because they record the inputs with which a batch began, for a later driver. Topics
        # and files cannot record that.
        self._outputs = sorted(outputs, key=lambda output: output.log is None)
        self._asides = asides
        self._state = state
        self._late_split = late_split
        # Finds the contents of joined tables and folders; None without joins.
        self.joined: JoinedRead | None = None
        # Columns of streams that discover them; None if all columns are declared.
        self.discovery: Discovery | None = None
        # Records that batches skip, because the transform fails on them.
        self.poison: Sequence[PoisonRecord] = ()
        # Counts the rows without an event time; None if no window drops them.
        self.untimed: UntimedRows | None = None
        # Carries the watermark of each stream over restarts; None if there is at most one watermark.
        self.watermarks: StreamWatermarks | None = None
        # Spark repeats only the first batch of a query.
        self._may_be_repeated = True

    @property
    def memory_tables(self) -> dict[str, MemoryTable]:
        """Return the tables in memory, by output."""
        return {output.name: output.memory for output in self._outputs if output.memory is not None}

    def write(self, frame: DataFrame, entry: LedgerEntry) -> BatchResult:
        """Write one batch.

        1. Find the outputs that already hold the batch. A driver that must not write ends here. So does a
           driver whose listed joined files are outdated; it starts again to list them.
        2. Read all rows once: into files of the arrow writer, otherwise into the cache. The read produces
           rejected records, late rows and the state of stateful operators. After it, new columns of files are
           known and end the query before any commit, and so does a violated expectation that must hold. The
           watermarks after the batch are then stored, before `commits/N` marks the batch as finished.
        3. Commit the rejected records and the late rows. Because they are first, a table that holds a batch
           proves that none of them is missing.
        4. Commit each output, in order. After a crash between two commits the batch is repeated. Outputs that
           hold the batch stay unchanged. The rest is written only with the same code, the same contents of
           joined tables and folders, and the same rows in the quarantine.
        """
        # 1.
        if self.watermarks is not None:
            self.watermarks.restore(frame, entry)
        if self.discovery is not None:
            entry = entry.model_copy(update={"source_schemas": self.discovery.identities})
        entry = entry.model_copy(update={"poison_records": poison_in(self.poison, entry)})
        held = self._look(entry)
        left = [output for output in self._outputs if output.name not in held]
        dropped = self._state.of(frame)
        unwritten = [*(output.name for output in left), *(["state"] if dropped else [])]
        check_same_code(entry, held, unwritten)
        entry = self._with_joined(frame, entry, held, unwritten)
        written = {name: Written(False) for name in held if name not in ASIDE_OUTPUTS}
        if not left and not dropped:
            return BatchResult(entry.batch_id, written, 0, 0)
        if self._late_split is not None:
            self._late_split.begin(frame, len(dropped))
        apart = len(dropped) > 1 and self._state.share_tasks(frame)
        # 2.
        with self._read(frame, entry, left, bool(dropped), apart=apart) as read:
            if self.discovery is not None:
                self.discovery.check(entry)
            late = late_rows(dropped)
            watermarks = {} if self.watermarks is None else self.watermarks.keep(frame, entry)
            if self._late_split is not None:
                check_none_dropped(entry, late)
            entry = entry.model_copy(update={"set_aside": read.set_aside})
            check_same_set_aside(entry, held, unwritten)
            # 3.
            more = {QUARANTINE_OUTPUT: read.quarantined}
            aside = {one.output: one.commit(entry, more.get(one.output, ())) for one in self._asides}
            rejected = aside.get(QUARANTINE_OUTPUT, Written(False, 0))
            late += aside.get(LATE_OUTPUT, Written(False, 0)).rows or 0
            # 4.
            untimed = None if self.untimed is None else self.untimed.rows
            counts = {"quarantined_rows": rejected.rows, "late_rows": late, "no_event_time_rows": untimed}
            complete = entry.model_copy(update=counts)
            for name, commit in read.staged.items():
                own = _with_counts(complete, read.checked.get(name))
                with read.times.at(name):
                    written[name] = commit(BatchCommit.of(own, name))
        is_new = any(output.committed for output in written.values())
        quarantined = (rejected.rows or 0) if rejected.committed else 0
        return BatchResult(
            entry.batch_id,
            written,
            quarantined,
            late if is_new else 0,
            {name: read.checked[name].counts for name in read.staged if name in read.checked},
            read.times,
            (untimed or 0) if is_new else 0,
            watermarks,
        )

    def _with_joined(
        self, frame: DataFrame, entry: LedgerEntry, held: Mapping[str, LedgerEntry], unwritten: Sequence[str]
    ) -> LedgerEntry:
        """Return the entry with the joined contents of the batch, if the batch may use them."""
        if self.joined is None:
            return entry
        joined = self.joined.of(frame)
        found = entry.with_joined(joined)
        check_same_joined(found, held, unwritten)
        if not held:
            self.joined.check_newest(joined, entry.batch_id)
        return found

    def _look(self, entry: LedgerEntry) -> dict[str, LedgerEntry]:
        """Return the committed entries of the batch, by output."""
        found = {
            o.name: o.log.look(BatchCommit.of(entry, o.name)) for o in self._outputs if o.log is not None
        }
        held = {name: commit.entry for name, commit in found.items() if commit and commit.entry}
        if self._may_be_repeated:
            looked = ((aside.output, aside.look(entry)) for aside in self._asides)
            held |= {name: commit for name, commit in looked if commit is not None}
        self._may_be_repeated = False
        return held

    @contextmanager
    def _read(
        self,
        frame: DataFrame,
        entry: LedgerEntry,
        left: Sequence[Output],
        stateful: bool,
        *,
        apart: bool,
    ) -> Iterator[_Read]:
        """Run step 2.

        If `apart` is true, a separate task computes each partition, before a writer puts several into one
        task. In one task Spark 4.2 confuses the state of an aggregation with that of the next operator, and
        fails.
        """
        for aside in self._asides:
            aside.forget()
        if self.untimed is not None:
            self.untimed.forget()
        if self.discovery is not None:
            self.discovery.forget()
        needed = stateful or any(aside.may_come for aside in self._asides)
        extra = needed and not any(o.reads_when_staging for o in left)
        expected, times = self._expected(left), SinkTimes()
        # State must be computed exactly once, and reading twice costs twice.
        shared = apart or bool(expected) or sum(max(1, output.passes) for output in left) + extra > 1
        rows = frame.persist(StorageLevel.MEMORY_AND_DISK) if shared else frame
        with ExitStack() as cached:
            if shared:
                cached.callback(rows.unpersist)
            if apart:
                _compute(rows)
            elif not extra and not expected:
                # Outputs that read while they stage come before outputs that read at their commit.
                times.reader = max(left, key=lambda output: output.reads_when_staging).name
            checked = {
                name: self._check(expectations, self._shaped(name, rows, cached), entry)
                for name, expectations in expected.items()
            }
            staged: dict[str, Staged] = {}
            for output in left:
                own = checked.get(output.name)
                with times.at(output.name):
                    staged[output.name] = output.stage(output.rows.of(rows) if own is None else own.rows)
            if extra and not apart:
                _compute(rows)
            yield _Read(staged, checked, times)

    def _expected(self, left: Sequence[Output]) -> dict[str, TableExpectations]:
        """Return the expectations, by output.

        If a batch is repeated, outputs that already hold it are included, because the entries of all outputs
        count the batch's rows in the quarantine.
        """
        outputs = self._outputs if left else []
        return {o.name: o.rows.expectations for o in outputs if o.rows.expectations is not None}

    def _shaped(self, name: str, rows: DataFrame, cached: ExitStack) -> DataFrame:
        taken = next(output.rows for output in self._outputs if output.name == name)
        shaped = taken.of(rows)
        if taken.transform is None:
            return shaped
        # The transform may return different rows each time, e.g. the first of several equal rows. The cache
        # makes sure that the counted rows are the written rows.
        shaped = shaped.persist(StorageLevel.MEMORY_AND_DISK)
        cached.callback(shaped.unpersist)
        return shaped

    def _check(self, expectations: TableExpectations, rows: DataFrame, entry: LedgerEntry) -> CheckedRows:
        ends = json.dumps(entry.ends, default=str)[:SHOWN_OFFSETS]
        facts = {"batch_id": entry.batch_id, "read_to": ends}
        quarantine = next(aside.table for aside in self._asides if aside.output == QUARANTINE_OUTPUT)
        return expectations.check(rows, quarantine, facts, entry.batch_id)


def _with_counts(entry: LedgerEntry, checked: CheckedRows | None) -> LedgerEntry:
    return entry if checked is None else entry.model_copy(update={"expectations": checked.counts})


def _compute(rows: DataFrame) -> None:
    rows.write.format("noop").mode("overwrite").save()
