"""The changes of a few batches in a table and in its copy: the rows of all files that either changed.

All other files are the same in both. In a table with only appended rows, the other files are in neither
result. Files are read as Parquet, because a table that keeps part of its rows elsewhere would not have been
copied (TIDE-CKPT-078).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from itertools import takewhile
from urllib.parse import unquote

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from tidemill.checkpoint.upgrade.shadow import own_batch
from tidemill.ledger.commit_files import files_of, files_touched
from tidemill.ledger.read import Commit, History, open_table
from tidemill.payload.exact_paths import exact_reader


@dataclass(frozen=True)
class BatchesOf:
    """Batches of a generation in a table.

    Args:
        path: The table, which may not exist.
        pipeline: Pipeline of the batches.
        generation: Generation of the batches.
        batches: Batch numbers.
        before: Version of the table before the first batch, if that version has rows that the copy also has.
    """

    path: str
    pipeline: str
    generation: str
    batches: range
    before: int | None = None

    def commits(self) -> list[tuple[int, Commit]]:
        """Return number and commit of each batch that changed the table, newest first."""
        found = (
            (number, commit)
            for commit in History(self.path, open_table(self.path))
            if (number := own_batch(commit, self.pipeline, self.generation)) is not None
        )
        recent = takewhile(lambda one: one[0] >= self.batches.start, found)
        return [(number, commit) for number, commit in recent if number in self.batches]

    def versions(self) -> list[int]:
        """Return the table version after each batch, newest first."""
        return [commit.version for _, commit in self.commits()]


def rows_touched(
    spark: SparkSession, both: tuple[BatchesOf, BatchesOf], columns: StructType | None = None
) -> tuple[DataFrame, DataFrame]:
    """Return the rows of each of two tables after its batches.

    Args:
        spark: The session.
        both: The table and its copy.
        columns: Columns for a table that does not exist, or did not exist yet.
    """
    versions = [one.versions() for one in both]
    touched = frozenset[str]().union(
        *(files_touched(one.path, found) for one, found in zip(both, versions, strict=True))
    )
    table, copy = (
        _rows(spark, one.path, max(found, default=one.before), touched, columns)
        for one, found in zip(both, versions, strict=True)
    )
    return table, copy


def columns_of(spark: SparkSession, path: str, version: int | None = None) -> StructType:
    """Return the columns of a table, by default of its newest version."""
    reader = spark.read.format("delta")
    return (reader if version is None else reader.option("versionAsOf", version)).load(path).schema


def _rows(
    spark: SparkSession, path: str, version: int | None, files: Collection[str], columns: StructType | None
) -> DataFrame:
    if version is None:
        return spark.createDataFrame([], columns or columns_of(spark, path))
    found, schema = sorted(files_of(path, version) & frozenset(files)), columns_of(spark, path, version)
    if not found:
        return spark.createDataFrame([], schema)
    # The name of a partition's folder may contain brackets, which Spark would read as a wildcard.
    reader = exact_reader(spark).schema(schema).option("basePath", path)
    return reader.parquet(*(f"{path}/{unquote(name)}" for name in found))
