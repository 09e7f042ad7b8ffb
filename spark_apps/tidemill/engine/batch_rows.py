"""What a few batches have done to a table, and to a copy of it: the rows of all files that either touched.

Every other file is the same in both, or, of a table that rows are only added to, in neither. Files are read
as Parquet: a table that keeps a part of its rows elsewhere would not have been copied (TIDE-CKPT-078).
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
        path: The table; perhaps there is none.
        pipeline: Whose batches.
        generation: Of which generation.
        batches: Which.
        before: Version of the table before the first one, if it has rows that the copy has, too.
    """

    path: str
    pipeline: str
    generation: str
    batches: range
    before: int | None = None

    def commits(self) -> list[tuple[int, Commit]]:
        """Number and commit of each of these batches that changed the table, falling."""
        found = (
            (number, commit)
            for commit in History(self.path, open_table(self.path))
            if (number := own_batch(commit, self.pipeline, self.generation)) is not None
        )
        recent = takewhile(lambda one: one[0] >= self.batches.start, found)
        return [(number, commit) for number, commit in recent if number in self.batches]

    def versions(self) -> list[int]:
        """Of the table after each of them, falling."""
        return [commit.version for _, commit in self.commits()]


def rows_touched(
    spark: SparkSession, both: tuple[BatchesOf, BatchesOf], columns: StructType | None = None
) -> tuple[DataFrame, DataFrame]:
    """The rows of each of two tables after its batches.

    Args:
        spark: The session.
        both: The table, and its copy.
        columns: Of a table that is not there, or was not there yet.
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
    """Columns of a table, by default of its newest version."""
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
    # A partition's folder may have brackets in its name.
    reader = exact_reader(spark).schema(schema).option("basePath", path)
    return reader.parquet(*(f"{path}/{unquote(name)}" for name in found))
