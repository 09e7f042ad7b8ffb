"""Advice on the capacity of batches: partitions for the cores, and memory for the state. Pure."""

from __future__ import annotations

from collections.abc import Callable

from tidemill.checkpoint.doctor.advice_rule import MOST, Facts, Rule
from tidemill.checkpoint.doctor.measured import Measured, words_of
from tidemill.spec.units import format_size

# Maximum useful number of state partitions per core; more only add files and tasks.
PARTITIONS_PER_CORE = 2

# Share of the memory that counts as much of it.
MUCH_MEMORY = 0.5


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


CAPACITY_RULES = (
    Rule(
        "TIDE-TUNE-005",
        "Batches take their whole time budget, and the state has fewer partitions than there are cores.",
        _few_partitions,
        _repartition(lambda m: m.cores),
    ),
    Rule(
        "TIDE-TUNE-006",
        "Batches take their whole time budget, and much of it is for the state of many small partitions.",
        _many_partitions,
        _repartition(lambda m: PARTITIONS_PER_CORE * m.cores),
    ),
    Rule(
        "TIDE-TUNE-007",
        "Batches take their whole time budget, and the topics have fewer partitions than there are cores.",
        _few_topic_partitions,
        lambda m: f"`options: {{minPartitions: {m.cores}}}` of the source, or more partitions of the topic",
    ),
    Rule(
        "TIDE-TUNE-008",
        "The state takes much of the memory.",
        _large_state,
        _less_state,
    ),
)
