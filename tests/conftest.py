"""Marks every test with its tier, the name of its folder: so `-m kafka` and `make test-kafka` agree.

The session and the lake are made by the first test that asks for them; a run of the unit tests never
loads Spark.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.support.lake import Lake

TESTS = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        tier = item.path.relative_to(TESTS).parts[0]
        item.add_marker(tier)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One session for the run, configured as a driver's."""
    from tests.support.spark_session import shared_session

    session = shared_session(tmp_path_factory.mktemp("session"))
    yield session
    session.stop()


@pytest.fixture
def lake(tmp_path: Path, spark: SparkSession) -> Lake:
    """A project folder and storage of one test, without Kafka."""
    from tests.support.lake import Lake

    return Lake(tmp_path / "lake", spark)
