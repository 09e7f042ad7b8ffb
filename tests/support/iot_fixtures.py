"""This repository's IoT pipelines on a topic of the test, and their real drivers: fixtures for every tier."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.driver_process import Drivers, drivers_of
from tests.support.iot_lake import IotLake, iot_topic
from tests.support.kafka import Kafka


@pytest.fixture
def topic(kafka: Kafka) -> str:
    return iot_topic(kafka, partitions=4)


@pytest.fixture
def iot(tmp_path: Path, kafka: Kafka, topic: str) -> IotLake:
    # No session of the test run: each driver brings its own.
    return IotLake(tmp_path / "lake", None, kafka.bootstrap_servers, topic)


@pytest.fixture
def drivers(iot: IotLake) -> Iterator[Drivers]:
    with drivers_of(iot.lake.folder) as drivers:
        yield drivers
