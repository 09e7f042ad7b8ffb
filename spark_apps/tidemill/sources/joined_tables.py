"""The tables that a stream is joined with: each batch reads them completely, in their newest version."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tidemill.ledger.read import open_table
from tidemill.spec.project import Pipeline


def read_tables(
    spark: SparkSession, pipeline: Pipeline, versions: Mapping[str, int] = MappingProxyType({})
) -> dict[str, DataFrame]:
    """Return the tables by the names of their sources.

    Args:
        spark: The session.
        pipeline: Pipeline of the sources.
        versions: Versions to read instead of the newest ones.
    """
    return {
        name: _reader(spark, versions.get(name)).load(pipeline.layout.table(table))
        for name, table in pipeline.spec.tables.items()
    }


def _reader(spark: SparkSession, version: int | None) -> Any:
    reader = spark.read.format("delta")
    return reader if version is None else reader.option("versionAsOf", version)


def newest_versions(pipeline: Pipeline) -> dict[str, int]:
    """Return the newest version of each existing table, by the name of its source."""
    tables = {name: open_table(pipeline.layout.table(table)) for name, table in pipeline.spec.tables.items()}
    return {name: table.version() for name, table in tables.items() if table is not None}
