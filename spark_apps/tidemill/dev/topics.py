"""Topics of any Kafka broker, ready for use when the call returns."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tidemill.errors import TidemillError, UnavailableError, UsageError

if TYPE_CHECKING:
    from confluent_kafka import KafkaError
    from confluent_kafka.admin import AdminClient

# Seconds for one request to the broker, and for the partitions of a new topic to get their leaders; both take
# milliseconds on an idle machine.
TIMEOUT_SECONDS = 15.0

# Seconds between two checks of a new topic whose partitions have no leader yet.
POLL_SECONDS = 0.02


def create_topic(
    bootstrap_servers: str, name: str, partitions: int = 4, config: Mapping[str, str] | None = None
) -> bool:
    """Create a topic and wait for its partition leaders; True if it is new, False if it existed.

    Args:
        bootstrap_servers: `host:port` of a PLAINTEXT listener.
        name: The topic. An existing topic keeps its config.
        partitions: Number of partitions; an existing topic must have the same number.
        config: Kafka's topic options, e.g. `max.message.bytes` for records above 1 MB.

    Raises:
        UsageError: TIDE-DEV-007, if the broker rejects the topic or it has another number of partitions.
        UnavailableError: TIDE-DEV-008, if the broker does not answer.
    """
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    topic = NewTopic(name, num_partitions=partitions, replication_factor=1, config=dict(config or {}))
    is_new = True
    try:
        admin.create_topics([topic], request_timeout=TIMEOUT_SECONDS)[name].result()
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise _topic_error(bootstrap_servers, name, error.args[0]) from error
        is_new = False
    found = _wait_for_leaders(admin, bootstrap_servers, name)
    if found != partitions:
        raise UsageError(
            "TIDE-DEV-007",
            "The topic is there with another number of partitions.",
            facts={"topic": name, "partitions": found, "wanted": partitions},
            fix=f"ask for {found} partitions, or use another topic",
        )
    return is_new


def count_partitions(client_options: Mapping[str, str], name: str) -> int:
    """Return the number of partitions of a topic.

    Args:
        client_options: librdkafka's options with `bootstrap.servers`, and security options if the broker
            requires them.
        name: The topic.

    Raises:
        UsageError: TIDE-DEV-007, if the topic does not exist or is hidden from this user.
        UnavailableError: TIDE-DEV-008, if the broker does not answer, also because of a wrong password.
    """
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    servers = client_options["bootstrap.servers"]
    try:
        topic = AdminClient(dict(client_options)).list_topics(name, timeout=TIMEOUT_SECONDS).topics[name]
    except KafkaException as error:
        raise _topic_error(servers, name, error.args[0]) from error
    if topic.error is not None:
        raise _topic_error(servers, name, topic.error)
    return len(topic.partitions)


def _wait_for_leaders(admin: AdminClient, bootstrap_servers: str, name: str) -> int:
    from confluent_kafka import KafkaException

    deadline = time.monotonic() + TIMEOUT_SECONDS
    while time.monotonic() < deadline:
        try:
            topic = admin.list_topics(name, timeout=TIMEOUT_SECONDS).topics[name]
        except KafkaException as error:
            raise _topic_error(bootstrap_servers, name, error.args[0]) from error
        # The controller knows a new topic a moment before the broker does.
        if topic.error is None and all(partition.leader >= 0 for partition in topic.partitions.values()):
            return len(topic.partitions)
        time.sleep(POLL_SECONDS)
    raise UnavailableError(
        "TIDE-DEV-008",
        "The topic's partitions have no leader.",
        facts={"topic": name, "bootstrap_servers": bootstrap_servers, "waited_seconds": TIMEOUT_SECONDS},
        fix="look at the broker's log",
    )


def _topic_error(bootstrap_servers: str, name: str, cause: KafkaError) -> TidemillError:
    facts = {"topic": name, "bootstrap_servers": bootstrap_servers, "cause": f"{cause.name()}: {cause.str()}"}
    # Negative codes are librdkafka's own errors: it did not reach a broker. All others are a broker's answer.
    if cause.code() < 0:
        fix = "is the broker running, is the address right, does it want security options?"
        return UnavailableError("TIDE-DEV-008", "The Kafka broker does not answer.", facts=facts, fix=fix)
    fix = "correct the topic's name or options, or create it: topics are never made by themselves"
    return UsageError("TIDE-DEV-007", "The broker refuses the topic.", facts=facts, fix=fix)
