"""Which Kafka offsets a backfill reads: what the broker still has, up to where the live stream goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from tidemill.backfill.bounds import Bounds
from tidemill.errors import UsageError
from tidemill.ledger.entry import LedgerEntry
from tidemill.sources.kafka_clients import kafka_client
from tidemill.sources.offsets import KafkaOffsets, Positions
from tidemill.spec.project import Pipeline

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class TopicFacts:
    """What the broker says of each partition that the pipeline reads.

    Args:
        oldest: Offset of the oldest record that it still has.
        ends: First offset after the newest record.
        from_start: Offset of the first record that came at or after the start of the range.
    """

    oldest: Positions
    ends: Positions
    from_start: Positions


def look_up(pipeline: Pipeline, bounds: Bounds) -> TopicFacts:
    """Ask the broker.

    Raises:
        UnavailableError: If it does not answer, or a topic is missing.
    """
    with KafkaOffsets(kafka_client(pipeline)) as offsets:
        topics = offsets.matching(pipeline.spec.source.topics_or_pattern)
        return TopicFacts(
            _read_by(pipeline, offsets.beginnings(topics)),
            _read_by(pipeline, offsets.ends(topics)),
            _read_by(pipeline, offsets.at_time(topics, bounds.start or _EPOCH)),
        )


def choose_offsets(
    pipeline: Pipeline, bounds: Bounds, live: LedgerEntry | None, found: TopicFacts
) -> tuple[Positions, Positions]:
    """First and end offset of every partition that the pipeline reads; Spark wants all of them named.

    A range of time is read from the oldest record to the seam: event time says nothing about where a
    record lies in the topic. A range of offsets is read as given; a partition that it leaves out, not at all.

    Raises:
        UsageError: TIDE-BACK-006, -008 or -009, if the topic does not hold the range, or no longer.
    """
    oldest, reached = found.oldest, _seam(live, found.oldest) or found.ends
    if bounds.start_offsets is not None and bounds.end_offsets is not None:
        _check_named(pipeline, bounds, oldest, reached)
        start = _each(oldest, lambda t, p: _of(bounds.start_offsets, t, p, oldest[t][p]))
        return start, _each(start, lambda t, p: _of(bounds.end_offsets, t, p, start[t][p]))
    if pipeline.spec.transform is not None:
        _check_retention(pipeline, found)
    return oldest, reached


def offsets_condition(start: Positions, end: Positions) -> str:
    """SQL condition of the rows that were made of these records, by their lineage columns."""
    parts = [
        f"(kafka_topic = '{topic}' AND kafka_partition = {partition} "
        f"AND kafka_offset >= {first} AND kafka_offset < {end[topic][partition]})"
        for topic, partition, first in _flat(start)
        if first < end[topic][partition]
    ]
    return " OR ".join(parts) or "false"


def _read_by(pipeline: Pipeline, positions: Positions) -> Positions:
    """Without partitions that the pipeline does not read."""
    kafka = pipeline.spec.source.kafka
    if kafka is None or kafka.assign is None:
        return positions
    return {
        topic: {str(number): positions[topic][str(number)] for number in numbers}
        for topic, numbers in kafka.assign.items()
    }


def _seam(live: LedgerEntry | None, oldest: Positions) -> Positions | None:
    """Where the live stream goes on; at the oldest record of a partition that it has not seen yet."""
    end = None if live is None else next((r.end for r in live.sources.values() if r.end), None)
    return None if end is None else _each(oldest, lambda t, p: max(oldest[t][p], _of(end, t, p, 0)))


def _check_named(pipeline: Pipeline, bounds: Bounds, oldest: Positions, reached: Positions) -> None:
    named = [*_flat(bounds.start_offsets or {}), *_flat(bounds.end_offsets or {})]
    for topic, partition, offset in named:
        facts = {"partition": f"{topic}-{partition}", "offset": offset}
        if partition not in oldest.get(topic, {}):
            raise _refused("TIDE-BACK-009", "The pipeline reads no such partition.", pipeline, facts)
        if offset < (first := oldest[topic][partition]):
            facts["oldest"] = first
            raise _refused("TIDE-BACK-008", "The broker no longer has these records.", pipeline, facts)
        if offset > (last := reached[topic][partition]):
            facts["reached"] = last
            raise _refused(
                "TIDE-BACK-006", "The live stream has not come so far and will write them.", pipeline, facts
            )


def _check_retention(pipeline: Pipeline, found: TopicFacts) -> None:
    """Refuse to compute rows from a part of their records, to take the place of rows made of all.

    Relies on events reaching Kafka after they happened: then a broker that still has a record from
    before the range has all of the range.
    """
    cut = [
        f"{topic}-{partition}"
        for topic, partition, oldest in _flat(found.oldest)
        if oldest > 0 and found.from_start[topic][partition] <= oldest
    ]
    if cut:
        raise _refused(
            "TIDE-BACK-008",
            "The broker may no longer have all records of the range.",
            pipeline,
            {"partitions": ", ".join(cut)},
        )


def _flat(positions: Positions) -> Iterator[tuple[str, str, int]]:
    for topic, partitions in positions.items():
        for partition, offset in partitions.items():
            yield topic, partition, offset


def _each(positions: Positions, offset: Callable[[str, str], int]) -> Positions:
    return {topic: {p: offset(topic, p) for p in partitions} for topic, partitions in positions.items()}


def _of(positions: Positions | None, topic: str, partition: str, default: int) -> int:
    return (positions or {}).get(topic, {}).get(partition, default)


def _refused(error_id: str, problem: str, pipeline: Pipeline, facts: dict[str, object]) -> UsageError:
    return UsageError(
        error_id,
        f"{problem} Nothing was read or written.",
        facts={"pipeline": pipeline.name, **facts},
        fix="choose a range that the topic still has and the live stream has passed",
        runbook="backfill",
    )
