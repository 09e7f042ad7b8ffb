"""Advice: what the measured values of the newest batches say against the declaration. Pure.

Each rule names the key to change and, where that can be told, its new value. None is an error: the stream
works, but slower than it must, or later than it promises.

id              what
TIDE-TUNE-001   a batch takes longer than its trigger
TIDE-TUNE-002   the limit of a batch holds the stream back
TIDE-TUNE-003   it cannot keep up
TIDE-TUNE-004   without a limit, one batch has taken very long
TIDE-TUNE-005   fewer state partitions than cores
TIDE-TUNE-006   more state partitions than are good for it
TIDE-TUNE-007   fewer topic partitions than cores
TIDE-TUNE-008   the state takes much of the memory
TIDE-TUNE-009   planning and logs take most of a batch
TIDE-TUNE-010   rows come too late for the watermark
TIDE-TUNE-011   one sink takes most of a batch
TIDE-TUNE-012   one partition of a topic has most of the records
TIDE-TUNE-013   a table has many small files
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta

from tidemill.airflow_names import TABLE_MAINTENANCE_DAG_ID
from tidemill.checkpoint.doctor.measured import Measured, words_of
from tidemill.checkpoint.doctor.measured_table import MANY_SMALL_FILES, MeasuredTable
from tidemill.checkpoint.findings import Finding, Severity
from tidemill.spec.readable import readable_size
from tidemill.spec.units import format_duration, format_size

# Batches of this many triggers are late by more than a busy moment.
LATE_TRIGGERS = 2

# Share of the trigger up to which a full batch leaves time for a larger one, and that a larger one may fill.
SOON_DONE = 0.5
WELL_USED = 0.7

# One batch that took so many triggers, and this long, took all that had piled up; with a limit it is many.
HUGE_TRIGGERS = 10
HUGE_MILLISECONDS = 60_000

# State partitions beyond so many for each core only add files and tasks.
PARTITIONS_PER_CORE = 2

# Shares of a batch, or of the memory, that are most or much of it.
MOST = 0.6
MUCH_MEMORY = 0.5

# Share of dropped rows from which a watermark is too short for its data.
DROPPED_SHARE = 0.01

TUNING = "tuning"

Facts = Mapping[str, object]


@dataclass(frozen=True)
class Rule:
    """One line of the table.

    Args:
        finding_id: Its id.
        problem: One sentence.
        facts: The measured values that speak against the declaration; None if they do not.
        fix: What to change.
        is_urgent: Whether it is worth a warning; else it is a note.
        runbook: The page.
    """

    finding_id: str
    problem: str
    facts: Callable[[Measured], Facts | None]
    fix: Callable[[Measured], str]
    is_urgent: Callable[[Measured], bool] = lambda _: True
    runbook: str = TUNING


def advice(measured: Measured) -> list[Finding]:
    """What the measured values say against the declaration, in the order of the table."""
    return list(_found(measured))


def _found(measured: Measured) -> Iterator[Finding]:
    for rule in RULES:
        facts = rule.facts(measured)
        if facts is not None:
            severity: Severity = "warning" if rule.is_urgent(measured) else "note"
            # What was measured before the last change of conf says nothing of it.
            told = {**facts, "measured_at": measured.at}
            name, fix = measured.pipeline.name, rule.fix(measured)
            yield Finding(rule.finding_id, severity, name, rule.problem, told, fix, rule.runbook)


def _late(m: Measured) -> Facts | None:
    if m.falls_behind or not m.trigger or not m.is_enough or m.milliseconds < LATE_TRIGGERS * m.trigger:
        return None
    return {
        "batch": words_of(m.milliseconds),
        "trigger": words_of(m.trigger),
        "times": round(m.milliseconds / m.trigger, 1),
        "rows": m.rows,
    }


def _held_back(m: Measured) -> Facts | None:
    if m.backlog is None or not m.is_at_limit or m.milliseconds > SOON_DONE * m.budget:
        return None
    return {
        "limit": m.limit,
        "batch": words_of(m.milliseconds),
        "trigger": words_of(m.trigger),
        "behind": _backlog(m),
    }


def _larger_limit(m: Measured) -> str:
    # As many as fill most of the trigger, two digits of it.
    fitting = (m.limit or 0) * WELL_USED * m.budget / max(m.milliseconds, 1)
    return f"raise `max_offsets_per_batch` of its sources, to {_round(fitting)} together"


def _overloaded(m: Measured) -> Facts | None:
    if not m.falls_behind or _held_back(m) is not None:
        return None
    return {
        "batch": words_of(m.milliseconds),
        "rows": m.rows,
        "rows_per_second": _rate(m.rows, m.milliseconds),
        "behind": _backlog(m),
        "cores": m.cores,
    }


def _huge(m: Measured) -> Facts | None:
    source = [stream.spec.source for stream in m.pipeline.streams.values()]
    if m.limit is not None or not all(one.is_kafka for one in source) or not m.trigger:
        return None
    longest = max(m.batches, key=lambda batch: batch.milliseconds, default=None)
    if longest is None or longest.milliseconds < max(HUGE_TRIGGERS * m.trigger, HUGE_MILLISECONDS):
        return None
    return {
        "batch": words_of(longest.milliseconds),
        "rows": longest.rows,
        "trigger": words_of(m.trigger),
        "limit": "none",
    }


def _first_limit(m: Measured) -> str:
    longest = max(m.batches, key=lambda batch: batch.milliseconds)
    fitting = longest.rows * m.trigger / longest.milliseconds
    return (
        f"declare `max_offsets_per_batch` of its sources, about {_round(fitting)} together: what has piled "
        "up is many batches then, and a crash repeats only one of them"
    )


def _few_partitions(m: Measured) -> Facts | None:
    partitions = m.pipeline.spec.run.shuffle_partitions
    if m.state is None or not m.is_pressed or partitions >= m.cores:
        return None
    return {"shuffle_partitions": partitions, "cores": m.cores, "batch": words_of(m.milliseconds)}


def _many_partitions(m: Measured) -> Facts | None:
    partitions = m.pipeline.spec.run.shuffle_partitions
    if m.state is None or not m.is_pressed or partitions <= PARTITIONS_PER_CORE * m.cores:
        return None
    committing = m.state.commit_milliseconds / m.cores
    if committing < (1 - MOST) * m.milliseconds:
        return None
    return {
        "shuffle_partitions": partitions,
        "cores": m.cores,
        "batch": words_of(m.milliseconds),
        "of_it_writing_state": words_of(committing),
    }


def _repartition(count: Callable[[Measured], int]) -> Callable[[Measured], str]:
    def fix(m: Measured) -> str:
        key = f"`run.shuffle_partitions: {count(m)}`"
        if m.is_in_memory:
            return f"{key}, in a new checkpoint: state in memory cannot be repartitioned"
        return f"{key}, by tidemill checkpoint repartition {m.pipeline.name} {count(m)}"

    return fix


def _few_topic_partitions(m: Measured) -> Facts | None:
    partitions = sum(len(topic.rows) for topic in m.topics)
    if not m.is_pressed or not 0 < partitions < m.cores or m.splits_partitions:
        return None
    return {"partitions": partitions, "cores": m.cores, "batch": words_of(m.milliseconds)}


def _large_state(m: Measured) -> Facts | None:
    if m.state is None or m.state.bytes < MUCH_MEMORY * m.memory:
        return None
    return {
        "state_bytes": m.state.bytes,
        "state_rows": m.state.rows,
        "memory": format_size(m.memory),
        "size": m.pipeline.spec.run.size,
    }


def _less_state(m: Measured) -> str:
    if m.is_in_memory:
        return "`run.state_store: rocksdb`, in a new checkpoint, keeps it on disk"
    return (
        f"choose a larger `run.size` than {m.pipeline.spec.run.size}, or keep less: a shorter watermark, "
        "keys that end"
    )


def _overhead(m: Measured) -> Facts | None:
    beside = [batch.milliseconds - batch.work_milliseconds for batch in m.batches]
    share = sum(beside) / max(sum(batch.milliseconds for batch in m.batches), 1)
    if not m.is_stream or not m.is_pressed or share < MOST:
        return None
    return {"batch": words_of(m.milliseconds), "beside_its_work": f"{share:.0%}", "rows": m.rows}


def _longer_trigger(m: Measured) -> str:
    # Half as much again, in whole seconds: a batch of more rows takes somewhat longer.
    seconds = math.ceil(1.5 * m.milliseconds / 1000)
    return f"raise `run.trigger`, to {format_duration(timedelta(seconds=seconds))}"


def _dropped(m: Measured) -> Facts | None:
    dropped, rows = sum(batch.dropped for batch in m.batches), sum(batch.rows for batch in m.batches)
    if not m.is_enough or dropped < DROPPED_SHARE * rows:
        return None
    return {"dropped_rows": dropped, "rows": rows, "batches": len(m.batches)}


def _slow_sink(m: Measured) -> Facts | None:
    sink = m.slowest_sink
    if not m.is_pressed or sink is None or sink.share < MOST:
        return None
    return {
        "sink": sink.name,
        "of_a_batch": f"{sink.share:.0%}",
        "sink_time": words_of(sink.milliseconds),
        "batch": words_of(m.milliseconds),
        "with_reading": "yes" if sink.reads else "no",
    }


def _skewed(m: Measured) -> Facts | None:
    skew = next((topic.skew for topic in m.topics if topic.skew is not None), None)
    if skew is None or (m.splits_partitions and not _is_skew_felt(m)):
        return None
    return {
        "topic": skew.topic,
        "partition": skew.partition,
        "partitions": skew.partitions,
        f"{skew.what}_of_it": skew.records,
        f"{skew.what}_of_all": skew.of_all,
    }


def _is_skew_felt(m: Measured) -> bool:
    return m.is_pressed or m.falls_behind


def _even_out(m: Measured) -> str:
    split = (
        ""
        if m.splits_partitions
        else f"`options: {{minPartitions: {2 * m.cores}}}` of the source lets several "
        "tasks read one partition; "
    )
    return f"{split}the lasting cure is the producer's: a key with more values, or none"


def _small_files(m: Measured) -> Facts | None:
    table = _most_small(m)
    if table is None or table.small < MANY_SMALL_FILES:
        return None
    return {
        "table": table.name,
        "files": table.files,
        "small_files": table.small,
        "mean_size": readable_size(table.small_bytes // table.small),
    }


def _most_small(m: Measured) -> MeasuredTable | None:
    return max(m.tables, key=lambda table: table.small, default=None)


def _put_together(m: Measured) -> str:
    table = _most_small(m)
    assert table is not None  # noqa: S101  # it was found
    longer = f"a longer `run.trigger` than {words_of(m.trigger)} makes fewer and larger ones"
    fewer = f"; {longer}" if m.trigger else ""
    if table.left:
        return f"OPTIMIZE it by Spark (maintenance {table.left}){fewer}"
    return (
        f"tidemill table maintain {table.name} --apply, or each day the DAG {TABLE_MAINTENANCE_DAG_ID}{fewer}"
    )


def _backlog(m: Measured) -> str:
    first, last = m.backlog or (0, 0)
    return f"{first} -> {last}"


def _rate(rows: int, milliseconds: int) -> int:
    return round(1000 * rows / max(milliseconds, 1))


def _round(count: float) -> int:
    """Two digits of a number, for a person to write down."""
    digits = max(len(str(int(count))) - 2, 0)
    unit = int(10**digits)
    return max(int(count) // unit * unit, 1)


RULES = (
    Rule(
        "TIDE-TUNE-001",
        "A batch takes longer than its trigger, so that results come later than declared.",
        _late,
        lambda m: (
            f"{_longer_trigger(m)}, or choose a larger `run.size` than {m.pipeline.spec.run.size}; a "
            "finding about a sink, a partition or the state comes first"
        ),
    ),
    Rule(
        "TIDE-TUNE-002",
        "Records wait although there is time: batches are as large as they may be, and soon done.",
        _held_back,
        _larger_limit,
        lambda m: m.falls_behind,
    ),
    Rule(
        "TIDE-TUNE-003",
        "It cannot keep up: more records come than its batches can take.",
        _overloaded,
        lambda m: f"choose a larger `run.size` than {m.pipeline.spec.run.size}; mind the source's retention",
    ),
    Rule(
        "TIDE-TUNE-004",
        "Without a limit one batch has taken all that had piled up, and very long.",
        _huge,
        _first_limit,
        lambda _: False,
    ),
    Rule(
        "TIDE-TUNE-005",
        "Batches take all their time, and the state has fewer partitions than there are cores.",
        _few_partitions,
        _repartition(lambda m: m.cores),
    ),
    Rule(
        "TIDE-TUNE-006",
        "Batches take all their time, much of it for writing the state of many small partitions.",
        _many_partitions,
        _repartition(lambda m: PARTITIONS_PER_CORE * m.cores),
    ),
    Rule(
        "TIDE-TUNE-007",
        "Batches take all their time, and the topics have fewer partitions than there are cores.",
        _few_topic_partitions,
        lambda m: f"`options: {{minPartitions: {m.cores}}}` of the source, or more partitions of the topic",
    ),
    Rule(
        "TIDE-TUNE-008",
        "The state takes much of the memory.",
        _large_state,
        _less_state,
    ),
    Rule(
        "TIDE-TUNE-009",
        "Batches take all their time, and most of it goes into planning and the checkpoint's logs.",
        _overhead,
        lambda m: f"{_longer_trigger(m)}: fewer and larger batches; see that the storage answers fast",
    ),
    Rule(
        "TIDE-TUNE-010",
        "Rows come too late for the watermark and are dropped.",
        _dropped,
        lambda _: "raise `event_time.watermark`, or keep them aside with `event_time.late: table`",
    ),
    Rule(
        "TIDE-TUNE-011",
        "Batches take all their time, and most of it goes into one sink.",
        _slow_sink,
        lambda _: (
            "make the sink take more rows at once, or give it a pipeline of its own that reads the table"
        ),
        runbook="slow-sink",
    ),
    Rule(
        "TIDE-TUNE-012",
        "One partition of a topic has most of the records; a batch takes as long as its largest partition.",
        _skewed,
        _even_out,
        _is_skew_felt,
        "skewed-source",
    ),
    Rule(
        "TIDE-TUNE-013",
        "A table has many small files, each of which whoever reads it must open.",
        _small_files,
        _put_together,
        lambda _: False,
    ),
)
