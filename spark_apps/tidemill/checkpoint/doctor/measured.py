"""The measured values of a pipeline's newest batches, beside its declaration. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from statistics import median

from tidemill.checkpoint.doctor.measured_table import MeasuredTable
from tidemill.spec.project import Pipeline
from tidemill.spec.units import format_duration

# Batches with records from which a typical one is told: of two, one may be the slow first of a driver.
LEAST_BATCHES = 3

# What a batch may take where the trigger promises nothing: of `0 seconds`, and of an incremental run.
UNHURRIED = timedelta(seconds=10)
UNHURRIED_RUN = timedelta(minutes=1)

# A partition has most of the records with half of them, and several times what the others have on average:
# of two partitions, one may well have 60%.
SKEWED_SHARE = 0.5
SKEWED_TIMES = 4

# Records below which nothing is told of partitions or a backlog: a few keys are always uneven, and a few
# records always on their way.
LEAST_RECORDS = 1000


@dataclass(frozen=True)
class Skew:
    """The partition that has most of the records of its topic.

    Args:
        what: Whether they were read, or wait.
    """

    topic: str
    partition: str
    partitions: int
    what: str
    records: int
    of_all: int


@dataclass(frozen=True)
class MeasuredBatch:
    """One batch that had records.

    Args:
        milliseconds: From its trigger to its commit.
        work_milliseconds: Of these, reading, transforming and writing; the rest is planning and logs.
        behind: Records behind the newest of the partition that is most behind; None where the source does
            not tell.
        dropped: Rows that came too late for the watermark.
        sinks: Milliseconds at each sink.
        reader: The sink that read the rows first, so that reading and transform are in its time, too.
        is_first: Whether its driver had just started.
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
        rows: Rows in it.
        bytes: Memory that it takes.
        commit_milliseconds: What writing its changes took, of all partitions together.
    """

    rows: int = 0
    bytes: int = 0
    commit_milliseconds: int = 0


@dataclass(frozen=True)
class SlowSink:
    """The sink at which batches are longest.

    Args:
        share: Of a typical batch's time.
        milliseconds: In a typical batch.
        reads: Whether it reads the rows, so that reading and transform are in its time, too.
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
        """The partition that has most of the records, if there is one."""
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
    """The measured values beside the declaration that they are judged by.

    Args:
        pipeline: Declaration and environment.
        batches: Newest batches that had records, oldest first.
        state: None without a stateful operator.
        topics: Of Kafka's sources.
        tables: Those of many files.
        at: When its driver last said something.
    """

    pipeline: Pipeline
    batches: Sequence[MeasuredBatch] = ()
    state: MeasuredState | None = None
    topics: Sequence[MeasuredTopic] = ()
    tables: Sequence[MeasuredTable] = ()
    at: datetime | None = None

    @property
    def is_enough(self) -> bool:
        """Whether there were batches enough to tell a typical one."""
        return len(self.batches) >= LEAST_BATCHES

    @property
    def milliseconds(self) -> int:
        """Of a typical batch."""
        return _median(batch.milliseconds for batch in self.batches)

    @property
    def work_milliseconds(self) -> int:
        """Of these, what reading, transforming and writing take."""
        return _median(batch.work_milliseconds for batch in self.batches)

    @property
    def rows(self) -> int:
        """Of a typical batch."""
        return _median(batch.rows for batch in self.batches)

    @property
    def has_batches(self) -> bool:
        """Whether a batch tells what its rows take: one of real-time mode takes as long as declared."""
        run = self.pipeline.spec.run
        return not run.is_without_batches(run.mode)

    @property
    def is_stream(self) -> bool:
        """Whether it is declared to run all the time."""
        return self.pipeline.spec.run.mode == "stream"

    @property
    def trigger(self) -> int:
        """Milliseconds between two batches of a stream; 0 where the declaration promises none."""
        return _milliseconds(self.pipeline.spec.run.trigger) if self.is_stream else 0

    @property
    def budget(self) -> int:
        """Milliseconds that a batch may take before it is worth a word that it takes long."""
        return self.trigger or _milliseconds(UNHURRIED if self.is_stream else UNHURRIED_RUN)

    @property
    def is_pressed(self) -> bool:
        """Whether a typical batch takes all the time that it may take."""
        return self.is_enough and self.milliseconds >= self.budget

    @property
    def backlog(self) -> tuple[int, int] | None:
        """Records that waited after the oldest and the newest batch; None if few wait, or nobody tells."""
        return backlog_of(self.batches)

    @property
    def falls_behind(self) -> bool:
        """Whether more and more records wait: after each later batch more than after any earlier one."""
        return falls_behind(self.batches)

    @property
    def limit(self) -> int | None:
        """Most records of a batch; None if a source has no such limit."""
        limits = [_limit(stream) for stream in self.pipeline.streams.values()]
        return sum(limit for limit in limits if limit) if all(limits) else None

    @property
    def is_at_limit(self) -> bool:
        """Whether the newest batches were as large as they may be."""
        return self.limit is not None and all(batch.rows >= 0.95 * self.limit for batch in self.batches)

    @property
    def cores(self) -> int:
        """Tasks that can run at the same time."""
        size = self.pipeline.size
        return size.driver.cores if size.executors is None else size.executors.max * size.executors.cores

    @property
    def memory(self) -> int:
        """Bytes of the heaps of all processes that work."""
        size = self.pipeline.size
        return size.driver.memory if size.executors is None else size.executors.max * size.executors.memory

    @property
    def is_in_memory(self) -> bool:
        """Whether the heap holds its state."""
        return self.pipeline.spec.run.state_store == "memory"

    @property
    def splits_partitions(self) -> bool:
        """Whether several tasks may read one partition of a topic."""
        sources = (stream.spec.source for stream in self.pipeline.streams.values())
        topics = (source.kafka or source.event_hub for source in sources)
        options = {option.lower() for topic in topics if topic is not None for option in topic.options}
        return bool(options & {"minpartitions", "maxrecordsperpartition"})

    @property
    def slowest_sink(self) -> SlowSink | None:
        """The sink that took most of the time, of all whose time can be told.

        A table that reads the rows is none of them: its time is that of its reading.
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
    """Records that waited after the oldest and the newest batch; None if few wait, or nobody tells."""
    told, is_enough = _waiting(batches), len(batches) >= LEAST_BATCHES
    return (told[0], told[-1]) if is_enough and told and told[-1] >= LEAST_RECORDS else None


def falls_behind(batches: Sequence[MeasuredBatch]) -> bool:
    """Whether more and more records wait: after each later batch more than after any earlier one."""
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
    """A duration as it stands in conf, in whole seconds from one second on."""
    whole = milliseconds if milliseconds < 1000 else 1000 * round(milliseconds / 1000)
    return format_duration(timedelta(milliseconds=round(whole)))
