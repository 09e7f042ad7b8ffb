from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from tests.support.kafka import Kafka, read, send
from tidemill.dev.broker import kill_broker, serve_broker, start_broker, stop_broker
from tidemill.dev.broker_config import SASL_PLAINTEXT, SASL_SSL, BrokerConfig
from tidemill.dev.broker_process import BrokerProcess, find_broker
from tidemill.dev.ports import LOOPBACK
from tidemill.dev.topics import count_partitions, create_topic
from tidemill.errors import InternalError, UnavailableError, UsageError


def running(config: BrokerConfig) -> BrokerProcess:
    broker = find_broker(config.data_dir)
    assert broker is not None
    return broker


def values(broker: BrokerProcess, topic: str) -> list[bytes | None]:
    return [record.value for record in read(broker.bootstrap_servers, topic)]


def refusal(options: dict[str, str | int | float | bool]) -> int:
    """Return code of the first error that a client with these options meets, beyond a connection that broke.

    On a busy machine librdkafka may see the broker hang up before it has read why.
    """
    broken = (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN)
    codes: list[int] = []
    quiet: dict[str, Any] = {**options, "log_level": 0}
    quiet["error_cb"] = lambda error: codes.append(error.code())
    client = AdminClient(quiet)
    with pytest.raises(KafkaException):
        client.list_topics(timeout=0.5)
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        told = next((code for code in codes if code not in broken), None)
        if told is not None:
            return told
        client.poll(0.05)
    raise AssertionError(f"only {codes} in 20 s")


@pytest.mark.soak
def test_a_broker_that_was_stopped_and_started_has_its_records_and_its_address(
    restartable: BrokerConfig,
) -> None:
    before = running(restartable)
    create_topic(before.bootstrap_servers, "kept", partitions=1)
    send(before.bootstrap_servers, "kept", [b"one", b"two"])

    assert stop_broker(before) is True
    assert find_broker(restartable.data_dir) is None
    after = start_broker(restartable)

    assert after.identity != before.identity
    assert after.bootstrap_servers == before.bootstrap_servers
    assert values(after, "kept") == [b"one", b"two"]


@pytest.mark.soak
def test_a_killed_broker_has_every_acknowledged_record_after_its_restart(restartable: BrokerConfig) -> None:
    broker = running(restartable)
    sent = [b"%d" % number for number in range(5_000)]
    create_topic(broker.bootstrap_servers, "survives", partitions=1)
    send(broker.bootstrap_servers, "survives", sent)

    kill_broker(broker)
    assert find_broker(restartable.data_dir) is None

    assert values(start_broker(restartable), "survives") == sent


@pytest.mark.soak
def test_two_brokers_run_at_once_and_know_nothing_of_each_other(
    restartable: BrokerConfig, kafka: Kafka
) -> None:
    topic = kafka.topic_with([b"of the other"])
    with pytest.raises(UsageError) as refused:
        count_partitions({"bootstrap.servers": running(restartable).bootstrap_servers}, topic)
    assert refused.value.error_id == "TIDE-DEV-007"
    assert running(restartable).identity != kafka.broker.identity


def test_a_second_start_in_the_folder_of_a_running_broker_is_refused(restartable: BrokerConfig) -> None:
    broker = running(restartable)
    with pytest.raises(UsageError) as refused:
        start_broker(restartable)
    assert refused.value.error_id == "TIDE-DEV-003"
    assert refused.value.facts["pid"] == broker.pid
    assert broker.identity.is_alive()


def test_a_suspended_broker_can_be_stopped(restartable: BrokerConfig) -> None:
    broker = running(restartable)
    assert broker.identity.signal(signal.SIGSTOP)
    assert stop_broker(broker) is True
    assert find_broker(restartable.data_dir) is None


@pytest.mark.soak
def test_a_broker_outlives_the_process_that_started_it_and_is_found_again(restartable: BrokerConfig) -> None:
    stop_broker(running(restartable))
    start = (
        "import sys; from pathlib import Path\n"
        "from tidemill.dev.broker import start_broker\n"
        "from tidemill.dev.broker_config import BrokerConfig\n"
        "print(start_broker(BrokerConfig(Path(sys.argv[1]))).pid)"
    )
    starter = subprocess.run(
        [sys.executable, "-c", start, str(restartable.data_dir)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=60,
    )

    broker = running(restartable)

    assert broker.pid == int(starter.stdout)
    assert create_topic(broker.bootstrap_servers, "answers") is True


@pytest.mark.soak
def test_a_foreground_broker_ends_with_its_request_to_stop(restartable: BrokerConfig) -> None:
    stop_broker(running(restartable))
    stop, served = threading.Event(), []

    def request_stop(broker: BrokerProcess) -> None:
        served.append(broker.identity.is_alive())
        stop.set()

    serve_broker(restartable, stop, request_stop)

    assert served == [True]
    assert find_broker(restartable.data_dir) is None


@pytest.mark.soak
def test_a_foreground_broker_that_ends_by_itself_is_an_error(restartable: BrokerConfig) -> None:
    stop_broker(running(restartable))
    with pytest.raises(UnavailableError) as failed:
        serve_broker(restartable, threading.Event(), stop_broker)
    assert failed.value.error_id == "TIDE-DEV-004"


def test_a_broker_listens_on_the_loopback_address_only(kafka: Kafka) -> None:
    properties = (kafka.broker.data_dir / "server.properties").read_text()
    ports = {int(port) for port in re.findall(r"//127\.0\.0\.1:(\d+)", properties)}
    assert len(ports) == 4
    for port in ports:
        # A server on all interfaces would answer at every address of 127/8.
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.2", port), timeout=5)


def test_a_taken_port_is_named_and_nothing_is_started(tmp_path: Path) -> None:
    with socket.create_server((LOOPBACK, 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(UsageError) as refused:
            start_broker(BrokerConfig(tmp_path, port=port))
    assert refused.value.error_id == "TIDE-DEV-002"
    assert refused.value.facts["port"] == port
    assert find_broker(tmp_path) is None


def test_a_setting_that_kafka_refuses_is_shown_in_kafkas_words(tmp_path: Path) -> None:
    with pytest.raises(InternalError) as failed:
        start_broker(BrokerConfig(tmp_path, properties={"broker.id": 7}))
    assert failed.value.error_id == "TIDE-DEV-006"
    assert "You must set `node.id`" in str(failed.value.facts["answer"])


def test_a_broker_that_does_not_start_shows_the_end_of_its_log(tmp_path: Path) -> None:
    (tmp_path / "records").mkdir()
    of_another_node = "version=1\nnode.id=2\ncluster.id=AAAAAAAAAAAAAAAAAAAAAA\n"
    (tmp_path / "records" / "meta.properties").write_text(of_another_node)
    with pytest.raises(UnavailableError) as failed:
        start_broker(BrokerConfig(tmp_path))
    assert failed.value.error_id == "TIDE-DEV-004"
    assert "Stored node id 2" in str(failed.value.facts["log_end"])
    assert find_broker(tmp_path) is None


def test_a_topic_that_does_not_exist_is_not_read_as_an_empty_one(kafka: Kafka) -> None:
    with pytest.raises(UnavailableError) as missing:
        kafka.read("not_there")
    assert (missing.value.error_id, missing.value.facts["topic"]) == ("TIDE-TEST-007", "not_there")


@pytest.mark.parametrize("protocol", [SASL_PLAINTEXT, SASL_SSL])
def test_the_connection_string_opens_the_secured_listeners(kafka: Kafka, protocol: str) -> None:
    topic = kafka.new_topic(partitions=3)
    metadata = AdminClient(kafka.client_options(protocol)).list_topics(topic, timeout=15)
    assert len(metadata.topics[topic].partitions) == 3
    # The broker sends clients on to the same listener, not to the open one.
    (only,) = metadata.brokers.values()
    assert f"{only.host}:{only.port}" == kafka.broker.listeners[protocol]


@pytest.mark.parametrize("protocol", [SASL_PLAINTEXT, SASL_SSL])
def test_a_wrong_password_is_refused_by_the_secured_listeners(kafka: Kafka, protocol: str) -> None:
    assert refusal(kafka.client_options(protocol, password="wrong")) == KafkaError._AUTHENTICATION


def test_a_client_that_does_not_trust_the_authority_gets_no_connection(kafka: Kafka) -> None:
    options = kafka.client_options(SASL_SSL)
    del options["ssl.ca.location"]
    assert refusal(options) == KafkaError._SSL


def test_the_password_is_readable_by_the_owner_only(kafka: Kafka) -> None:
    assert (kafka.broker.data_dir / "server.properties").stat().st_mode & 0o077 == 0


def test_a_topic_is_made_once(kafka: Kafka) -> None:
    topic = kafka.new_topic(partitions=2)
    assert create_topic(kafka.bootstrap_servers, topic, partitions=2) is False
    with pytest.raises(UsageError) as refused:
        create_topic(kafka.bootstrap_servers, topic, partitions=3)
    assert refused.value.facts["partitions"] == 2


def test_a_topic_name_that_kafka_refuses_is_a_usage_error(kafka: Kafka) -> None:
    with pytest.raises(UsageError) as refused:
        create_topic(kafka.bootstrap_servers, "no spaces")
    assert refused.value.error_id == "TIDE-DEV-007"


def test_a_topic_takes_records_of_ten_megabytes_if_its_config_says_so(kafka: Kafka) -> None:
    topic = kafka.new_topic(config={"max.message.bytes": "11000000"})
    large = bytes(10_000_000)
    kafka.send(topic, [large])
    assert [record.value for record in kafka.read(topic)] == [large]
