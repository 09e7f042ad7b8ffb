"""Retention of topics, as a real broker reports it."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.support.declared import declared
from tests.support.eventually import eventually
from tests.support.kafka import Kafka
from tidemill.checkpoint.retention.clock import SourceRetention
from tidemill.engine.in_session import new_reporter
from tidemill.engine.retention_watch import retention_watched
from tidemill.sources.topic_retention import TopicRetention
from tidemill.storage.store import Store

DAY = "86400000"


def asked(kafka: Kafka, folder: Path, source: dict[str, Any]) -> SourceRetention | None:
    environment = {"kafka": {"bootstrap_servers": kafka.bootstrap_servers}}
    return TopicRetention()(declared(folder, environment=environment, source={"kafka": source}))


@pytest.mark.parametrize(
    ("config", "keeps"),
    [
        ({"retention.ms": DAY}, timedelta(days=1)),
        ({"retention.ms": "-1"}, None),
        ({"cleanup.policy": "compact", "retention.ms": DAY}, None),
        ({"cleanup.policy": "compact,delete", "retention.ms": DAY}, timedelta(days=1)),
    ],
)
def test_what_a_topic_keeps(
    kafka: Kafka, tmp_path: Path, config: dict[str, str], keeps: timedelta | None
) -> None:
    found = asked(kafka, tmp_path, {"topic": kafka.new_topic("kept", config=config)})
    assert found is not None
    assert (found.keeps, found.certain) == (keeps, True)


def test_of_several_topics_the_shortest_counts(kafka: Kafka, tmp_path: Path) -> None:
    long = kafka.new_topic("shortest", config={"retention.ms": "-1"})
    short = kafka.new_topic("shortest", config={"retention.ms": DAY})
    found = asked(kafka, tmp_path, {"topics": [long, short]})
    assert found is not None
    assert found.keeps == timedelta(days=1)
    assert short in found.what
    assert asked(kafka, tmp_path, {"pattern": "shortest_.*"}) == found


def test_a_topic_that_does_not_exist_says_nothing(kafka: Kafka, tmp_path: Path) -> None:
    assert asked(kafka, tmp_path, {"topic": "never_made"}) is None


def test_a_running_driver_keeps_it_in_its_status(kafka: Kafka, tmp_path: Path) -> None:
    topic = kafka.new_topic("watched", config={"retention.ms": DAY})
    environment = {"kafka": {"bootstrap_servers": kafka.bootstrap_servers}}
    pipeline = declared(tmp_path / "project", environment=environment, source={"kafka": {"topic": topic}})
    store = Store(str(tmp_path / "state"))
    reporter = new_reporter(store, f"{store.root}/status.json", pipeline.name, "stream", "r")
    with retention_watched(pipeline, reporter):
        seconds = eventually(lambda: reporter.status.source_retention_seconds, "the broker has told")
    assert seconds == timedelta(days=1).total_seconds()
