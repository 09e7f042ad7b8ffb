"""The broker's facts for the gate: offsets and ids of the topics that a pipeline reads."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import replace

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, TopicDescription  # type: ignore[attr-defined]  # no __all__

from tidemill.checkpoint.gate import CheckpointFacts, TopicFacts
from tidemill.checkpoint.gate.facts import SourceFacts
from tidemill.errors import TidemillError
from tidemill.names import SOURCE_NAME
from tidemill.sources.kafka_clients import KafkaClient, kafka_client
from tidemill.sources.offsets import ANSWER_TIMEOUT_SECONDS, KafkaOffsets
from tidemill.spec.project import Pipeline

# Placeholder from brokers that give topics no ids: Kafka before 2.8, and Event Hubs.
_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"


def with_topics(facts: CheckpointFacts, pipeline: Pipeline) -> CheckpointFacts:
    """Return the gate's facts with those of the broker; unchanged without a Kafka source.

    Raises:
        UnavailableError: If no broker answers, or a topic is missing: a reason to wait, not to refuse.
    """
    told = {
        name: ask_topics(stream) for name, stream in pipeline.streams.items() if stream.spec.source.is_kafka
    }
    if not pipeline.spec.has_named_streams:
        return replace(facts, source=replace(facts.source, topics=told.get(SOURCE_NAME)))
    known = {name: facts.sources.get(name, SourceFacts()) for name in pipeline.streams}
    sources = {name: replace(found, topics=told.get(name)) for name, found in known.items()}
    return replace(facts, sources=sources)


def with_topics_if_told(facts: CheckpointFacts, pipeline: Pipeline) -> tuple[CheckpointFacts, str]:
    """Return the same and "", or the unchanged facts and the error: a silent broker forbids no start."""
    try:
        return with_topics(facts, pipeline), ""
    except TidemillError as error:
        return facts, f"{error.error_id} {error.problem}"


def ask_topics(pipeline: Pipeline) -> TopicFacts:
    """Return the beginning and end of each partition, and the topics' ids.

    Raises:
        UnavailableError: If no broker answers, or a topic is missing.
    """
    client = kafka_client(pipeline)
    with KafkaOffsets(client) as offsets:
        topics = offsets.matching(pipeline.spec.source.topics_or_pattern)
        oldest, ends = offsets.ranges(topics)
        cluster = offsets.cluster()
    hub = pipeline.spec.source.event_hub
    named = None if hub is None else f"{hub.namespace}/{hub.hub}"
    return TopicFacts(oldest, ends, _ids(client, topics), named or cluster)


def _ids(client: KafkaClient, topics: Iterable[str]) -> dict[str, str]:
    """Return the ids of topics that the broker reports; some brokers cannot or may not report them."""
    admin = AdminClient({**client.librdkafka_config(), "log_level": 0})
    asked: dict[str, Future[TopicDescription]] = admin.describe_topics(
        TopicCollection(list(topics)), request_timeout=ANSWER_TIMEOUT_SECONDS
    )
    ids = {topic: _id(answer) for topic, answer in asked.items()}
    return {topic: topic_id for topic, topic_id in ids.items() if topic_id is not None}


def _id(answer: Future[TopicDescription]) -> str | None:
    try:
        topic_id = str(answer.result(ANSWER_TIMEOUT_SECONDS).topic_id)
    except KafkaException:
        return None
    return None if topic_id == _NO_ID else topic_id
