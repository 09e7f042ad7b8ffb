"""The broker of the kafka tier, the IoT pipelines on it, and a real Airflow whose workers are killed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext

import pytest

from tests.kafka.conftest import certificates, kafka, signing_key, tidemill_broker_config
from tests.support.fault_world import FaultWorld, fault_world
from tests.support.iot_fixtures import drivers, iot, topic
from tests.support.kafka import Kafka
from tests.support.postgres import running_postgres

__all__ = ["certificates", "drivers", "iot", "kafka", "signing_key", "tidemill_broker_config", "topic"]


@pytest.fixture(scope="session")
def world(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, kafka: Kafka
) -> Iterator[FaultWorld]:
    """Yield a world whose Airflow uses SQLite or a PostgreSQL server, by the parameter."""
    server = running_postgres() if request.param == "postgres" else nullcontext()
    with server as postgres, fault_world(tmp_path_factory.mktemp("world"), kafka, postgres) as world:
        yield world
