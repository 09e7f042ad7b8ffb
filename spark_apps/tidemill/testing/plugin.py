"""Fixtures for pytest: `pytest_plugins = ["tidemill.testing.plugin"]` in the top conftest.py of a project.

Nothing starts before a test asks for it.
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
    """One session for the run: a driver's, without compiled plans."""
    from tidemill.testing.session import shared_session

    session = shared_session(tmp_path_factory.mktemp("session"))
    yield session
    session.stop()


@pytest.fixture(scope="session")
def tidemill_broker_config(tmp_path_factory: pytest.TempPathFactory) -> BrokerConfig:
    """What the broker is to be; a conftest.py may have its own."""
    return BrokerConfig(tmp_path_factory.mktemp("kafka") / "broker")


@pytest.fixture(scope="session")
def tidemill_broker(tidemill_broker_config: BrokerConfig) -> Iterator[Broker]:
    """One real broker for the run; each test has topics of its own."""
    from tidemill.dev.broker import running_broker

    with running_broker(tidemill_broker_config) as process:
        yield Broker(process)
