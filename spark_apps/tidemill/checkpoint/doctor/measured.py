"""The measurements of a pipeline's newest batches, with its declaration. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from statistics import median

from tidemill.checkpoint.doctor.measured_table import MeasuredTable
from tidemill.spec.project import Pipeline
from tidemill.spec.units import format_duration

# Minimum number of batches with records for a typical batch. With two, one may be the slow first batch of a
# driver.
LEAST_BATCHES = 3

# Time that a batch may take without a trigger interval: with `0 seconds`, and in an incremental run.
UNHURRIED = timedelta(seconds=10)
UNHURRIED_RUN = timedelta(minutes=1)

# A partition is skewed if it has half of the records and several times the average of the others. With two
# partitions, a share of 60% is normal.
SKEWED_SHARE = 0.5
SKEWED_TIMES = 4

# Minimum number of records for findings about partitions or a backlog. A few keys are always uneven, and a
# few records always wait.
LEAST_RECORDS = 1000


@dataclass(frozen=True)
class Skew:
    """The partition that has most of the records of its topic.

    Args:
        what: `rows` for read records, `behind` for waiting records.
    """

    topic: str
    partition: str
    partitions: int
    what: str
    records: int
    of_all: int


@dataclass(frozen=True)
class MeasuredBatch:
    """One batch with records.

    Args:
        milliseconds: Time from its trigger to its commit.
        work_milliseconds: Part of that time for reading, transforming and writing; the rest is planning and
            logs.
        behind: Lag in records of the partition with the largest lag; None if the source does not report it.
        dropped: Rows that were too late for the watermark.
        sinks: Milliseconds at each sink.
        reader: The sink that read the rows first, so that its time includes reading and the transform.
        is_first: True for the first batch of its driver.
    """

    rows: int
    milliseconds: int
    work_milliseconds: int = 0
    behind: int | None = None
    dropped: int = 0
    sinks: Mapping[str, int] = field(default_factory=dict)
    reader: str | None = None
    is_first: bool = False


@dataclass(frozen=True)
class MeasuredState:
    """The state of all stateful operators after the newest batch.

    Args:
        rows: Number of rows.
        bytes: Memory usage.
        commit_milliseconds: Time to write its changes, summed over all partitions.
    """

    rows: int = 0
    bytes: int = 0
    commit_milliseconds: int = 0


@dataclass(frozen=True)
class SlowSink:
    """The sink that takes the most time of a batch.

    Args:
        share: Share of a typical batch's time.
        milliseconds: Time in a typical batch.
        reads: True if it reads the rows, so that its time includes reading and the transform.
    """

    name: str
    share: float
    milliseconds: int
    reads: bool


@dataclass(frozen=True)
class MeasuredTopic:
    """One topic over the newest batches, by partition.

    Args:
        rows: Records that were read.
        behind: Records that wait.
    """

    name: str
    rows: Mapping[str, int]
    behind: Mapping[str, int] = field(default_factory=dict)

    @property
    def skew(self) -> Skew | None:
        """Return the partition that has most of the records, if there is one."""
        for what, counts in (("behind", self.behind), ("rows", self.rows)):
            total, most = sum(counts.values()), max(counts.values(), default=0)
            others = len(counts) - 1
            is_most = total >= LEAST_RECORDS and most >= SKEWED_SHARE * total
            if others and is_most and most * others >= SKEWED_TIMES * (total - most):
                partition = max(counts, key=lambda name: counts[name])
                return Skew(self.name, partition, len(counts), what, most, total)
        return None


@dataclass(frozen=True)
class Measured:
    """The measurements, and the declaration that they are compared with.

    Args:
        pipeline: Declaration and environment.
        batches: Newest batches with records, oldest first.
        state: State; None without a stateful operator.
        topics: Topics of Kafka sources.
        tables: Tables with many files.
        at: Time of the driver's last report.
    """

    pipeline: Pipeline
    batches: Sequence[MeasuredBatch] = ()
    state: MeasuredState | None = None
    topics: Sequence[MeasuredTopic] = ()
    tables: Sequence[MeasuredTable] = ()
    at: datetime | None = None

    @property
    def is_enough(self) -> bool:
        """Return True if there are enough batches for a typical one."""
        return len(self.batches) >= LEAST_BATCHES

    @property
    def milliseconds(self) -> int:
        """Return the duration of a typical batch."""
        return _median(batch.milliseconds for batch in self.batches)

    @property
    def work_milliseconds(self) -> int:
        """Return the part of a typical batch for reading, transforming and writing."""
        return _median(batch.work_milliseconds for batch in self.batches)

    @property
    def rows(self) -> int:
        """Return the rows of a typical batch."""
        return _median(batch.rows for batch in self.batches)

    @property
    def has_batches(self) -> bool:
        """Return True if a batch's time depends on its rows; in real-time mode it is as declared."""
        run = self.pipeline.spec.run
        return not run.is_without_batches(run.mode)

    @property
    def is_stream(self) -> bool:
        """Return True if the pipeline is declared as a stream."""
        return self.pipeline.spec.run.mode == "stream"

    @property
    def trigger(self) -> int:
        """Return the milliseconds between two batches of a stream; 0 if the declaration has no interval."""
        return _milliseconds(self.pipeline.spec.run.trigger) if self.is_stream else 0

    @property
    def budget(self) -> int:
        """Return the milliseconds that a batch may take before it counts as slow."""
        return self.trigger or _milliseconds(UNHURRIED if self.is_stream else UNHURRIED_RUN)

    @property
    def is_pressed(self) -> bool:
        """Return True if a typical batch takes as long as its budget or longer."""
        return self.is_enough and self.milliseconds >= self.budget

    @property
    def backlog(self) -> tuple[int, int] | None:
        """Return the lag after the oldest and the newest batch; None if it is small or unknown."""
        return backlog_of(self.batches)

    @property
    def falls_behind(self) -> bool:
        """Return True if the lag grows: after each later batch it is larger than after any earlier one."""
        return falls_behind(self.batches)

    @property
    def limit(self) -> int | None:
        """Return the maximum number of records in a batch; None if a source has no limit."""
        limits = [_limit(stream) for stream in self.pipeline.streams.values()]
        return sum(limit for limit in limits if limit) if all(limits) else None

    @property
    def is_at_limit(self) -> bool:
        """Return True if the newest batches were as large as allowed."""
        return self.limit is not None and all(batch.rows >= 0.95 * self.limit for batch in self.batches)

    @property
    def cores(self) -> int:
        """Return the number of tasks that can run at the same time."""
        size = self.pipeline.size
        return size.driver.cores if size.executors is None else size.executors.max * size.executors.cores

    @property
    def memory(self) -> int:
        """Return the heap size of all processes that run tasks, in bytes."""
        size = self.pipeline.size
        return size.driver.memory if size.executors is None else size.executors.max * size.executors.memory

    @property
    def is_in_memory(self) -> bool:
        """Return True if the heap holds the state."""
        return self.pipeline.spec.run.state_store == "memory"

    @property
    def splits_partitions(self) -> bool:
        """Return True if several tasks may read one partition of a topic."""
        sources = (stream.spec.source for stream in self.pipeline.streams.values())
        topics = (source.kafka or source.event_hub for source in sources)
        options = {option.lower() for topic in topics if topic is not None for option in topic.options}
        return bool(options & {"minpartitions", "maxrecordsperpartition"})

    @property
    def slowest_sink(self) -> SlowSink | None:
        """Return the sink that took most of the time.

        A table that reads the rows is left out, because its time includes the reading.
        """
        timed = [batch for batch in self.batches if batch.sinks]
        readers = {batch.reader for batch in timed}
        read_here = readers & {sink.table for sink in self.pipeline.spec.delta_sinks}
        names = {name for batch in timed for name in batch.sinks} - read_here
        shares = {
            name: median(batch.sinks.get(name, 0) / max(batch.milliseconds, 1) for batch in timed)
            for name in sorted(names)
        }
        if not shares:
            return None
        slowest = max(shares, key=lambda name: shares[name])
        spent = _median(batch.sinks.get(slowest, 0) for batch in timed)
        return SlowSink(slowest, shares[slowest], spent, slowest in readers)


def backlog_of(batches: Sequence[MeasuredBatch]) -> tuple[int, int] | None:
    """Return the lag after the oldest and the newest batch; None if it is small or unknown."""
    told, is_enough = _waiting(batches), len(batches) >= LEAST_BATCHES
    return (told[0], told[-1]) if is_enough and told and told[-1] >= LEAST_RECORDS else None


def falls_behind(batches: Sequence[MeasuredBatch]) -> bool:
    """Return True if the lag grows: after each later batch it is larger than after any earlier one."""
    told = _waiting(batches)
    earlier, later = told[: len(told) // 2], told[len(told) // 2 :]
    return backlog_of(batches) is not None and max(earlier, default=0) < min(later)


def _waiting(batches: Sequence[MeasuredBatch]) -> list[int]:
    return [batch.behind for batch in batches if batch.behind is not None]


def _limit(stream: Pipeline) -> int | None:
    source = stream.spec.source
    kafka = source.kafka or source.event_hub
    return None if kafka is None else kafka.max_offsets_per_batch


def _median(values: Iterable[int]) -> int:
    found = list(values)
    return round(median(found)) if found else 0


def _milliseconds(duration: timedelta) -> int:
    return round(duration / timedelta(milliseconds=1))


def words_of(milliseconds: float) -> str:
    """Format a duration as in conf; from one second on, in whole seconds."""
    whole = milliseconds if milliseconds < 1000 else 1000 * round(milliseconds / 1000)
    return format_duration(timedelta(milliseconds=round(whole)))
