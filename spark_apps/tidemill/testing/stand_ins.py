"""Replace parts of a declaration, so that a test reads and writes nothing outside of its folder.

| declared | in a test |
|---|---|
| source kafka, eventhubs, iothub | a Delta table of records with offsets; with a broker, separate topics |
| source files | the same format, in a folder of the test |
| source rate, rate_per_batch, socket | a Delta table with the same columns |
| source delta, a joined table | the same table below the test's root |
| sink delta | the same table below the test's root |
| any other sink | a table in memory; with a broker, topics stay topics |
| payload with `writers: registry` | its own schema with the number 1, and no other |

The rest of the payload, event time, transform, output mode, and each sink's share of the result stay as
declared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from tidemill.errors import UsageError
from tidemill.names import SOURCE_NAME
from tidemill.spec.named_source import NamedSource
from tidemill.spec.payload import Payload
from tidemill.spec.pipeline import PipelineSpec
from tidemill.spec.sinks import MemorySink, Sink
from tidemill.spec.sources import DeltaSource, KafkaSource, Source

# Kinds of sources that a Delta table replaces.
IN_A_TABLE = ("kafka", "eventhubs", "iothub", "rate", "rate_per_batch", "socket")

# Returns the topic of a test for a declared one.
TopicOf = Callable[[str], str]

SomeSource = TypeVar("SomeSource", bound=Source)


class RecordsTable(DeltaSource):
    """A table with the records of a topic, each with its lineage columns."""

    headers: bool = False
    device_columns: bool = False


def input_name(pipeline: str, stream: str) -> str:
    """Return the table or folder of one stream's input, below the root, which pipelines may share."""
    return f"input/{pipeline}/{stream}"


def with_stand_ins(
    name: str, spec: PipelineSpec, views: Mapping[int, str], topic_of: TopicOf | None = None
) -> PipelineSpec:
    """Return the declaration with its stand-ins.

    Args:
        name: Name of the pipeline.
        spec: The declaration in the file.
        views: Names of the tables in memory, by the index of the sinks.
        topic_of: Creates the topics of a test with a broker; without it, tables replace topics.

    Raises:
        UsageError: TIDE-TEST-004, if the topics cannot be created.
    """
    changes: dict[str, Any] = {
        "sinks": [_sink(sink, views[place], topic_of) for place, sink in enumerate(spec.sinks)]
    }
    if spec.sources is None:
        changes["source_"] = _source(spec.source, input_name(name, SOURCE_NAME), topic_of)
        changes["payload_"] = _payload(spec.payload_)
    else:
        changes["sources"] = {
            key: source
            if source.as_ == "table" and source.files is None
            else _stream(source, input_name(name, key), topic_of)
            for key, source in spec.sources.items()
        }
    return spec.model_copy(update=changes)


def _stream(source: NamedSource, place: str, topic_of: TopicOf | None) -> NamedSource:
    return _source(source, place, topic_of).model_copy(update={"payload": _payload(source.payload)})


def _payload(payload: Payload | None) -> Payload | None:
    """Return the payload without a registry, which a test does not have."""
    if payload is None or not payload.asks_registry:
        return payload
    named = payload.chosen.model_copy(update={"writers": "ids", "ids": {1: payload.chosen.schema_}})
    return payload.model_copy(update={payload.kind: named})


def _source(source: SomeSource, place: str, topic_of: TopicOf | None) -> SomeSource:
    """Return the test's source, a copy without validation, because no pipeline file could declare it."""
    if source.kafka is not None and topic_of is not None:
        return source.model_copy(update={"kafka": _topics(source.kafka, topic_of)})
    if source.files is not None:
        return source.model_copy(update={"files": source.files.model_copy(update={"path": place})})
    if source.kind in IN_A_TABLE:
        headers = source.is_kafka and source.chosen.headers
        table = RecordsTable.model_construct(
            table=place, headers=headers, device_columns=source.has_device_columns
        )
        return source.model_copy(update={source.kind: None, "delta": table})
    return source


def _topics(kafka: KafkaSource, topic_of: TopicOf) -> KafkaSource:
    if kafka.topic is None and not kafka.topics:
        raise UsageError(
            "TIDE-TEST-004",
            "A test with a broker gives each topic a name of its own, and these are not named.",
            facts={"pattern": kafka.pattern or "none", "assign": kafka.assign or "none"},
            fix="leave the broker out: then a table stands in for all topics",
        )
    named = {topic: topic_of(topic) for topic in kafka.named_topics}
    # All records that a test adds are read.
    changes: dict[str, Any] = {"starting_offsets": "earliest"}
    if kafka.topic is not None:
        changes["topic"] = named[kafka.topic]
    else:
        changes["topics"] = list(named.values())
    return kafka.model_copy(update=changes)


def _sink(sink: Sink, view: str, topic_of: TopicOf | None) -> Sink:
    if sink.delta is not None:
        return sink
    if sink.kafka is not None and topic_of is not None:
        return sink.model_copy(
            update={"kafka": sink.kafka.model_copy(update={"topic": topic_of(sink.kafka.topic)})}
        )
    chosen = sink.chosen
    memory = MemorySink(name=view, mode=chosen.mode, transform=chosen.transform, where=chosen.where)
    return sink.model_copy(update={sink.kind: None, "memory": memory})
