from __future__ import annotations

import itertools
import os
import signal
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

from tests.support.kafka import Kafka, read
from tidemill.dev.broker import kill_broker, start_broker
from tidemill.dev.broker_config import SASL_SSL, BrokerConfig
from tidemill.dev.broker_process import BrokerProcess, find_broker
from tidemill.dev.iot_events import IotSettings, iot_events
from tidemill.dev.produce import Pace, ProduceReport, Target, produce
from tidemill.dev.stop_request import stop_on_signals
from tidemill.dev.topics import create_topic
from tidemill.errors import UnavailableError, UsageError

MIXED = IotSettings(
    start=datetime(2026, 1, 1, tzinfo=UTC),
    seed=7,
    interval=timedelta(seconds=1),
    late_rate=0.1,
    too_late_rate=0.02,
    duplicate_rate=0.05,
    broken_rate=0.05,
)


def expected(settings: IotSettings, count: int) -> list[tuple[bytes, bytes | None]]:
    return [(event.key, event.value) for event in itertools.islice(iot_events(settings), count)]


def test_the_topic_holds_exactly_what_the_generator_says(kafka: Kafka) -> None:
    topic = kafka.new_topic(partitions=3)

    report = produce(Target(kafka.bootstrap_servers, topic), MIXED, Pace(count=20_000))

    records = kafka.read(topic)
    events = list(itertools.islice(iot_events(MIXED), 20_000))
    assert Counter((record.key, record.value) for record in records) == Counter(expected(MIXED, 20_000))
    assert report.sent == Counter(event.kind for event in events)
    assert report.total == len(records)
    assert report.last_event_time == events[-1].event_time
    assert report.bytes_sent == sum(len(r.key or b"") + len(r.value or b"") for r in records)


def test_events_of_one_device_stay_in_order_in_one_partition(kafka: Kafka) -> None:
    topic = kafka.new_topic(partitions=3)
    produce(Target(kafka.bootstrap_servers, topic), MIXED, Pace(count=2_000))

    records = kafka.read(topic)

    for device in {record.key for record in records}:
        of_device = [record for record in records if record.key == device]
        assert len({record.partition for record in of_device}) == 1
        assert [r.value for r in of_device] == [v for key, v in expected(MIXED, 2_000) if key == device]


def test_a_pace_holds_the_events_back(kafka: Kafka) -> None:
    topic = kafka.new_topic()
    pace = Pace(events_per_second=50, count=51)
    assert produce(Target(kafka.bootstrap_servers, topic), MIXED, pace).seconds >= 1.0


def test_a_duration_ends_a_run_without_a_count(kafka: Kafka) -> None:
    topic = kafka.new_topic()
    pace = Pace(events_per_second=100, duration_seconds=0.5)
    report = produce(Target(kafka.bootstrap_servers, topic), MIXED, pace)
    assert 1 <= report.total <= 50
    assert len(kafka.read(topic)) == report.total


def test_events_of_the_future_wait_for_their_time(kafka: Kafka) -> None:
    topic = kafka.new_topic()
    settings = IotSettings(start=datetime.now(UTC), interval=timedelta(milliseconds=100))
    report = produce(Target(kafka.bootstrap_servers, topic), settings, Pace(count=6, not_ahead=True))
    assert report.last_event_time is not None
    assert datetime.now(UTC) >= report.last_event_time >= settings.start + timedelta(milliseconds=499)


def test_sigterm_ends_a_run_and_nothing_that_was_reported_is_missing(kafka: Kafka) -> None:
    topic = kafka.new_topic()
    reports: list[ProduceReport] = []

    def terminate(report: ProduceReport) -> None:
        reports.append(report)
        os.kill(os.getpid(), signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    with stop_on_signals() as stop:
        pace = Pace(events_per_second=200)
        last = produce(Target(kafka.bootstrap_servers, topic), MIXED, pace, stop, terminate)

    assert signal.getsignal(signal.SIGTERM) == before
    assert len(reports) == 1
    assert last.total >= reports[0].total
    assert [(r.key, r.value) for r in kafka.read(topic)] == expected(MIXED, last.total)


def test_a_missing_topic_is_named_before_anything_is_sent(kafka: Kafka) -> None:
    with pytest.raises(UsageError) as refused:
        produce(Target(kafka.bootstrap_servers, "not_there"), MIXED, Pace(count=1))
    assert refused.value.error_id == "TIDE-DEV-007"
    assert refused.value.facts["topic"] == "not_there"


def test_a_record_that_the_topic_refuses_ends_the_run_with_the_reason(kafka: Kafka) -> None:
    topic = kafka.new_topic(config={"max.message.bytes": "100"})
    with pytest.raises(UnavailableError) as failed:
        produce(Target(kafka.bootstrap_servers, topic), MIXED, Pace(count=10))
    assert failed.value.error_id == "TIDE-DEV-011"
    assert "MSG_SIZE_TOO_LARGE" in str(failed.value.facts["cause"])
    assert kafka.read(topic) == []


def test_events_go_through_the_secured_listener(kafka: Kafka) -> None:
    topic = kafka.new_topic()
    options = {name: str(value) for name, value in kafka.client_options(SASL_SSL).items()}
    target = Target(options["bootstrap.servers"], topic, options)
    assert produce(target, MIXED, Pace(count=100)).total == 100
    assert [(r.key, r.value) for r in kafka.read(topic)] == expected(MIXED, 100)
    assert "SharedAccessKey" not in repr(target)


@pytest.mark.soak
def test_a_broker_killed_and_restarted_during_a_run_holds_every_event_once(restartable: BrokerConfig) -> None:
    broker = find_broker(restartable.data_dir)
    assert broker is not None
    create_topic(broker.bootstrap_servers, "through_a_crash", partitions=1)
    restarts: list[BrokerProcess] = []

    def crash_once(_report: ProduceReport) -> None:
        if not restarts:
            kill_broker(broker)
            restarts.append(start_broker(restartable))

    target = Target(broker.bootstrap_servers, "through_a_crash")
    produce(target, MIXED, Pace(events_per_second=1_000, count=4_000), on_progress=crash_once)

    held = read(broker.bootstrap_servers, "through_a_crash")
    assert len(restarts) == 1
    assert [(record.key, record.value) for record in held] == expected(MIXED, 4_000)
