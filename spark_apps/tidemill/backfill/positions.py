"""Kafka offsets that a backfill reads: from the broker's oldest record to the live stream's position."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from tidemill.backfill.bounds import Bounds
from tidemill.backfill.live_side import LiveSide
from tidemill.backfill.refusal import refused
from tidemill.checkpoint.gate import TopicFacts
from tidemill.ledger.entry import Positions
from tidemill.names import LINEAGE_COLUMNS
from tidemill.sources.kafka_clients import kafka_client
from tidemill.sources.offsets import KafkaOffsets
from tidemill.spec.column_names import quoted
from tidemill.spec.project import Pipeline

_FIX = "choose a range that the topic still has and the live stream has passed"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class RangeFacts:
    """Broker facts about each partition that the pipeline reads.

    Args:
        topics: Existing offsets.
        from_start: Offset of the first record that arrived at or after the start of the range.
    """

    topics: TopicFacts
    from_start: Positions


def look_up(pipeline: Pipeline, bounds: Bounds) -> RangeFacts:
    """Return the facts from the broker.

    Raises:
        UnavailableError: If it does not answer, or a topic is missing.
    """
    with KafkaOffsets(kafka_client(pipeline)) as offsets:
        topics = offsets.matching(pipeline.spec.source.topics_or_pattern)
        return RangeFacts(
            TopicFacts(
                _read_by(pipeline, offsets.beginnings(topics)), _read_by(pipeline, offsets.ends(topics))
            ),
            _read_by(pipeline, offsets.at_time(topics, bounds.start or _EPOCH)),
        )


def choose_offsets(
    pipeline: Pipeline, bounds: Bounds, live: LiveSide | None, found: RangeFacts, *, whole: bool
) -> tuple[Positions, Positions]:
    """Return first and end offset of every partition that the pipeline reads; Spark needs all of them.

    A range of time is read from the oldest record to the seam, because event time does not determine the
    position of a record in the topic. A range of offsets is read as given; partitions that it does not name
    are not read.

    Args:
        pipeline: The pipeline.
        bounds: The range.
        live: Position of its stream.
        found: Facts from the broker.
        whole: True if all records of the range are needed, because rows are made of several.

    Raises:
        UsageError: TIDE-BACK-006, -008 or -009, if the topic does not contain the range, or no longer does.
    """
    oldest = found.topics.oldest
    reached = _seam(live, oldest) or found.topics.ends
    if bounds.start_offsets is not None and bounds.end_offsets is not None:
        _check_named(pipeline, bounds, oldest, reached)
        start = _each(oldest, lambda t, p: _of(bounds.start_offsets, t, p, oldest[t][p]))
        return start, _each(start, lambda t, p: _of(bounds.end_offsets, t, p, start[t][p]))
    if whole:
        check_retention(pipeline, found)
    return oldest, reached


def offsets_condition(start: Positions, end: Positions, columns: Mapping[str, str]) -> str:
    """Return the SQL condition of the rows that were made of these records.

    Args:
        start: First offset of each partition.
        end: End offsets.
        columns: Column of the rows by lineage column.
    """
    topics, partitions, offsets = (quoted(columns[name]) for name in LINEAGE_COLUMNS)
    parts = [
        f"({topics} = '{topic}' AND {partitions} = {partition} "
        f"AND {offsets} >= {first} AND {offsets} < {end[topic][partition]})"
        for topic, partition, first in _flat(start)
        if first < end[topic][partition]
    ]
    return " OR ".join(parts) or "false"


def _read_by(pipeline: Pipeline, positions: Positions) -> Positions:
    """Return the positions without partitions that the pipeline does not read."""
    kafka = pipeline.spec.source.kafka
    if kafka is None or kafka.assign is None:
        return positions
    return {
        topic: {str(number): positions[topic][str(number)] for number in numbers}
        for topic, numbers in kafka.assign.items()
    }


def _seam(live: LiveSide | None, oldest: Positions) -> Positions | None:
    """Return the live stream's position; the oldest record of partitions that it has not seen yet."""
    end = None if live is None else live.offsets
    return None if end is None else _each(oldest, lambda t, p: max(oldest[t][p], _of(end, t, p, 0)))


def _check_named(pipeline: Pipeline, bounds: Bounds, oldest: Positions, reached: Positions) -> None:
    named = [*_flat(bounds.start_offsets or {}), *_flat(bounds.end_offsets or {})]
    for topic, partition, offset in named:
        facts = {"partition": f"{topic}-{partition}", "offset": offset}
        if partition not in oldest.get(topic, {}):
            raise refused(
                "TIDE-BACK-009", pipeline.name, "The pipeline reads no such partition.", facts, _FIX
            )
        if offset < (first := oldest[topic][partition]):
            facts["oldest"] = first
            raise refused(
                "TIDE-BACK-008", pipeline.name, "The broker no longer has these records.", facts, _FIX
            )
        if offset > (last := reached[topic][partition]):
            facts["reached"] = last
            raise refused(
                "TIDE-BACK-006",
                pipeline.name,
                "The live stream has not come so far and will write them.",
                facts,
                _FIX,
            )


def check_retention(pipeline: Pipeline, found: RangeFacts) -> None:
    """Raise if rows would be computed from only a part of their records and replace complete rows.

    Assumes that events reach Kafka after they happened. Then a broker that still has a record from before the
    range has all of the range.

    Raises:
        UsageError: TIDE-BACK-008.
    """
    cut = cut_partitions(found)
    if cut:
        raise refused(
            "TIDE-BACK-008",
            pipeline.name,
            "The broker may no longer have all records of the range.",
            {"partitions": ", ".join(cut)},
            _FIX,
        )


def cut_partitions(found: RangeFacts) -> list[str]:
    """Return the partitions without records from before the range, whose range may be incomplete."""
    return [
        f"{topic}-{partition}"
        for topic, partition, oldest in _flat(found.topics.oldest)
        if oldest > 0 and found.from_start[topic][partition] <= oldest
    ]


def _flat(positions: Positions) -> Iterator[tuple[str, str, int]]:
    for topic, partitions in positions.items():
        for partition, offset in partitions.items():
            yield topic, partition, offset


def _each(positions: Positions, offset: Callable[[str, str], int]) -> Positions:
    return {topic: {p: offset(topic, p) for p in partitions} for topic, partitions in positions.items()}


def _of(positions: Positions | None, topic: str, partition: str, default: int) -> int:
    return (positions or {}).get(topic, {}).get(partition, default)
