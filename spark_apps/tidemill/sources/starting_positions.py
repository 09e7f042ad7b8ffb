"""The beginning of a reset (`earliest`, `latest`, a time or offsets) as numbers for each partition."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NoReturn

from tidemill.errors import UsageError
from tidemill.ledger.entry import Positions
from tidemill.names import SOURCE_NAME
from tidemill.sources.kafka_clients import kafka_client
from tidemill.sources.offsets import KafkaOffsets
from tidemill.spec.project import Pipeline
from tidemill.spec.starting_offsets import check_starting_offsets

# Spark's own numbers for the ends of a partition.
_EARLIEST, _LATEST = -2, -1

# Maximum length of the text, in characters; thousands of partitions need less.
MAX_TEXT = 1_000_000


def starting_positions(pipeline: Pipeline, wanted: str) -> dict[str, Positions | None]:
    """Return the first offset of each partition, by stream; None for a stream that begins as declared.

    JSON offsets apply to the stream that reads the topic. The broker is asked unless every offset is given.

    Raises:
        UsageError: TIDE-CKPT-044, if a stream cannot begin there.
        UnavailableError: TIDE-SRC-001, TIDE-SRC-002, if the broker must be asked and does not answer.
    """
    if not pipeline.spec.has_named_streams:
        return {SOURCE_NAME: _of_stream(pipeline, wanted)}
    if not wanted.lstrip().startswith("{"):
        return {name: _of_stream(stream, wanted) for name, stream in pipeline.streams.items()}
    given = _parsed(wanted)
    found = {name: _own(stream, given) for name, stream in pipeline.streams.items()}
    unread = sorted(set(given) - {topic for topics in found.values() for topic in topics or {}})
    if unread:
        _refuse(wanted, f"no stream reads {', '.join(unread)}")
    return {
        name: None if topics is None else _of_stream(pipeline.streams[name], json.dumps(topics))
        for name, topics in found.items()
    }


def _own(stream: Pipeline, given: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the offsets of the topics that one of several streams reads; None for another kind of source."""
    if not stream.spec.source.is_kafka:
        return None
    named = stream.spec.source.topics_or_pattern
    mine = named.fullmatch if isinstance(named, re.Pattern) else frozenset(named).__contains__
    topics = {topic: partitions for topic, partitions in given.items() if mine(topic)}
    if not topics:
        _refuse(json.dumps(given), f"name offsets for each stream; {stream.spec.parameter} has none")
    return topics


def _of_stream(pipeline: Pipeline, wanted: str) -> Positions | None:
    if not pipeline.spec.source.is_kafka:
        if wanted == "earliest":
            return None
        _refuse(wanted, f"a source of kind {pipeline.spec.source.kind} begins as declared: earliest")
    if wanted in ("earliest", "latest"):
        return _ask(pipeline, wanted)
    if wanted.lstrip().startswith("{"):
        return _named(pipeline, wanted)
    return _ask(pipeline, _moment(wanted))


def _ask(pipeline: Pipeline, wanted: str | datetime) -> Positions:
    with KafkaOffsets(kafka_client(pipeline)) as offsets:
        topics = offsets.matching(pipeline.spec.source.topics_or_pattern) or _assigned(pipeline)
        if isinstance(wanted, datetime):
            found = offsets.at_time(topics, wanted)
        else:
            found = offsets.beginnings(topics) if wanted == "earliest" else offsets.ends(topics)
    return _of_assigned(pipeline, found)


def _parsed(wanted: str) -> dict[str, Any]:
    try:
        given = check_starting_offsets(json.loads(wanted[:MAX_TEXT]))
    except ValueError as error:
        _refuse(wanted, str(error))
    if not isinstance(given, dict):
        _refuse(wanted, "expected {topic: {partition: offset}}")
    return given


def _named(pipeline: Pipeline, wanted: str) -> Positions:
    given = _parsed(wanted)
    positions: Positions = {topic: {str(p): o for p, o in parts.items()} for topic, parts in given.items()}
    if all(offset >= 0 for partitions in positions.values() for offset in partitions.values()):
        return positions
    ends = {name: _ask(pipeline, name) for name in ("earliest", "latest")}
    return {
        topic: {p: _resolved(offset, ends, topic, p) for p, offset in partitions.items()}
        for topic, partitions in positions.items()
    }


def _resolved(offset: int, ends: dict[str, Positions], topic: str, partition: str) -> int:
    if offset >= 0:
        return offset
    known = ends["earliest" if offset == _EARLIEST else "latest"].get(topic, {})
    if partition not in known:
        _refuse(f"{topic}-{partition}", "the broker has no such partition")
    return known[partition]


def _assigned(pipeline: Pipeline) -> list[str]:
    kafka = pipeline.spec.source.kafka
    return [] if kafka is None or kafka.assign is None else list(kafka.assign)


def _of_assigned(pipeline: Pipeline, found: Positions) -> Positions:
    """Return the positions without the partitions that the pipeline does not read."""
    kafka = pipeline.spec.source.kafka
    if kafka is None or kafka.assign is None:
        return found
    return {t: {str(p): found[t][str(p)] for p in numbers} for t, numbers in kafka.assign.items()}


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        _refuse(text, "expected earliest, latest, a moment such as 2026-03-01T00:00:00Z, or offsets as JSON")
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _refuse(wanted: str, expected: str) -> NoReturn:
    raise UsageError(
        "TIDE-CKPT-044",
        "A reset cannot begin there. Nothing was changed.",
        facts={"from": ascii(wanted[:80])},
        fix=expected[:300],
        runbook="reset-checkpoint",
    )
