"""The table writers as fixtures: `case` runs a test once with each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.patient_fixtures import patient
from tests.support.postgres import PostgresServer, running_postgres
from tests.support.writer_cases import WriterCase

__all__ = ["patient"]


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """Yield one server for the test run; each test makes separate tables."""
    with running_postgres() as server:
        yield server


@pytest.fixture(params=["arrow", "spark"])
def case(request: pytest.FixtureRequest, tmp_path: Path, spark: SparkSession) -> WriterCase:
    return WriterCase(request.param, tmp_path / "tables" / "bronze" / "orders", spark)


@pytest.fixture
def other_case(case: WriterCase) -> WriterCase:
    """Return the other writer on the same table."""
    return WriterCase("spark" if case.name == "arrow" else "arrow", case.path, case.spark)


@pytest.fixture
def arrow_case(tmp_path: Path, spark: SparkSession) -> WriterCase:
    return WriterCase("arrow", tmp_path / "tables" / "bronze" / "orders", spark)


@pytest.fixture
def spark_case(tmp_path: Path, spark: SparkSession) -> WriterCase:
    return WriterCase("spark", tmp_path / "tables" / "bronze" / "orders", spark)
