"""Fixtures for pytest: `pytest_plugins = ["tidemill.testing.plugin"]` in the top conftest.py of a project.

A fixture starts only when a test requests it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tidemill.dev.broker_config import BrokerConfig
from tidemill.testing.broker import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def tidemill_spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Start one session for the run: a driver's, without compiled plans."""
    from tidemill.testing.session import shared_session

    session = shared_session(tmp_path_factory.mktemp("session"))
    yield session
    session.stop()


@pytest.fixture(scope="session")
def tidemill_broker_config(tmp_path_factory: pytest.TempPathFactory) -> BrokerConfig:
    """Return the broker's configuration; a conftest.py may override it."""
    return BrokerConfig(tmp_path_factory.mktemp("kafka") / "broker")


@pytest.fixture(scope="session")
def tidemill_broker(tidemill_broker_config: BrokerConfig) -> Iterator[Broker]:
    """Start one real broker for the run; each test has separate topics."""
    from tidemill.dev.broker import running_broker

    with running_broker(tidemill_broker_config) as process:
        yield Broker(process)
