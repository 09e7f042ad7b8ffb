"""The brokers' retention of a pipeline's topics."""

from __future__ import annotations

from datetime import timedelta

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource  # type: ignore[attr-defined]  # no __all__

from tidemill.checkpoint.retention.clock import SourceRetention
from tidemill.errors import TidemillError
from tidemill.sources.kafka_clients import KafkaClient, kafka_client
from tidemill.sources.offsets import KafkaOffsets
from tidemill.spec.project import Pipeline

# `retention.ms` of a topic with unlimited retention.
_FOR_EVER = -1

# Maximum time for one answer, in seconds. A user waits at a prompt, and the answer is optional.
ANSWER_TIMEOUT_SECONDS = 5.0


class TopicRetention:
    """Asks brokers; a broker that did not answer once is not asked again."""

    def __init__(self) -> None:
        self._away: set[str] = set()

    def __call__(self, pipeline: Pipeline) -> SourceRetention | None:
        """Return the shortest retention of the pipeline's topics; None if no broker answers.

        Event Hubs answers like a broker. A topic may delete earlier by size, which is not considered.
        """
        servers = None
        try:
            client = kafka_client(pipeline)
            servers = client.bootstrap_servers
            return None if servers in self._away else _shortest(client, pipeline)
        except (KafkaException, TidemillError, TimeoutError):
            if servers is not None:
                self._away.add(servers)
            return None


def _shortest(client: KafkaClient, pipeline: Pipeline) -> SourceRetention:
    with KafkaOffsets(client) as offsets:
        topics = offsets.matching(pipeline.spec.source.topics_or_pattern)
    admin = AdminClient({**client.librdkafka_config(), "log_level": 0})
    kept = {topic: _retention(admin, topic) for topic in topics}
    limited = {topic: keeps for topic, keeps in kept.items() if keeps is not None}
    if not limited:
        return SourceRetention("topics that keep everything", None, certain=True)
    topic = min(limited, key=lambda name: limited[name])
    return SourceRetention(f"retention.ms of topic {topic}", limited[topic], certain=True)


def _retention(admin: AdminClient, topic: str) -> timedelta | None:
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    asked = admin.describe_configs([resource], request_timeout=ANSWER_TIMEOUT_SECONDS)[resource]
    values = asked.result(ANSWER_TIMEOUT_SECONDS)
    milliseconds = int(values["retention.ms"].value)
    if "delete" not in values["cleanup.policy"].value or milliseconds == _FOR_EVER:
        return None
    return timedelta(milliseconds=milliseconds)
