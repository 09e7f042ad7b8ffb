"""`python -m tidemill.engine.verify --pipeline NAME …`: a range computed once more, compared with its tables.

The same rows as a backfill's of the same plan, which are written nowhere. Both sides become one multiset of
signed rows, so that a row that stands twice counts as often as it stands.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from tidemill.backfill.compared import Compared
from tidemill.backfill.difference import Difference
from tidemill.backfill.plan import BackfillPlan, load_plan
from tidemill.backfill.still_holds import check_still_holds
from tidemill.engine.discovery import known_columns
from tidemill.engine.expectations import REASON
from tidemill.engine.models import with_models
from tidemill.engine.quarantine_range import KEY
from tidemill.engine.range_rows import RangeRows
from tidemill.engine.verb_process import run_part
from tidemill.names import QUARANTINE_OUTPUT, TRANSFORM_FAILED
from tidemill.payload.quarantine import Quarantine
from tidemill.sources.joined_tables import newest_versions
from tidemill.spec.project import Pipeline, find_project, load_environment, resolve_pipeline
from tidemill.storage.store import Store

# Rows of each kind that an answer shows.
SHOWN_ROWS = 3

# 1 for a row that should be there, -1 for one that is.
_SIGN = "__sign"


def verify(
    spark: SparkSession, pipeline: Pipeline, plan: BackfillPlan, compared: Compared, scratch: str
) -> list[Difference]:
    """Compare what a plan's records are made into with what the tables hold; changes no table.

    Args:
        spark: The session.
        pipeline: Its pipeline.
        plan: Says which records, and which rows of which tables.
        compared: The tables that are looked at.
        scratch: Folder for records that are rejected; nothing stays there.

    Raises:
        UsageError: TIDE-BACK-016, if the plan does not hold any more; -008, if records are gone.
        DataError: If a record has columns that nobody has discovered yet; TIDE-EXP-001, if a row violates an
            expectation that allows none.
    """
    store, versions = Store(pipeline.layout.root), compared.versions
    check_still_holds(store, pipeline, plan)
    discovery = known_columns(spark.sparkContext, store, pipeline)
    records = RangeRows(spark, pipeline, plan, newest_versions(pipeline), discovery)
    rejected = Quarantine.at(spark.sparkContext, scratch, plan.digest)
    try:
        records.find_records()
        records.find_offsets(rejected)
        with ExitStack() as cached:
            result = records.computed(rejected)
            cached.callback(result.unpersist)
            discovery.refuse_new()
            tables = records.tables(result)
            checked = records.checked(tables, result, rejected, {"plan": plan.digest}, cached)
            found = []
            for table in tables:
                name = table.sink.table
                wanted = checked[name].rows if name in checked else records.rows_of(table, result)
                stored = _stored(spark, compared.layout.table(name), versions[name])
                found.append(_difference(name, wanted, stored, records.condition_of(name), versions[name]))
        kept = pipeline.spec.has_quarantine or versions[QUARANTINE_OUTPUT] is not None
        if kept and records.records is not None:
            parts = [*rejected.take(), *(part for one in checked.values() for part in one.quarantined)]
            paths = [f"{rejected.path}/{part.name}" for part in parts]
            path = compared.layout.quarantine(pipeline.name)
            held = _stored(spark, path, versions[QUARANTINE_OUTPUT])
            stored = None if held is None else _rejections(held, records, rejected)
            found.append(_quarantine(spark, paths, stored, versions[QUARANTINE_OUTPUT]))
        return found
    finally:
        store.delete_folder(scratch)


def _rejections(held: DataFrame, records: RangeRows, rejected: Quarantine) -> DataFrame:
    """What the quarantine holds of a plan's records.

    Broken records are of all offsets that were read. A row that violates an expectation was decoded, so it is
    known whether the plan is about it.
    """
    found = held.where(records.records or "true").select(*KEY, _comparable_reason())
    by_row = F.col("reason").startswith(f"{REASON}:")
    decided = None if found.where(by_row).isEmpty() else records.decided(rejected)
    if decided is None:
        return found
    return found.where(~by_row).unionByName(found.where(by_row).join(decided, KEY, "left_semi"))


def _quarantine(
    spark: SparkSession, parts: Sequence[str], stored: DataFrame | None, version: int | None
) -> Difference:
    """The places of rejected records. When they were rejected, and by which run, is told by no record."""
    if parts:
        wanted = spark.read.parquet(*parts).select(*KEY, _comparable_reason())
    else:
        wanted = spark.createDataFrame([], "topic string, partition int, offset long, reason string")
    return _difference(QUARANTINE_OUTPUT, wanted, stored, None, version)


def _comparable_reason() -> Column:
    """Which error a transform fails with; what it says may name an address or a time."""
    reason = F.col("reason")
    failed = reason.startswith(f"{TRANSFORM_FAILED}:")
    return F.when(failed, F.substring_index(reason, ": ", 1)).otherwise(reason).alias("reason")


def _stored(spark: SparkSession, path: str, version: int | None) -> DataFrame | None:
    if version is None:
        return None
    return spark.read.format("delta").option("versionAsOf", version).load(path)


def _difference(
    name: str, wanted: DataFrame, stored: DataFrame | None, condition: str | None, version: int | None
) -> Difference:
    signed = _comparable(wanted).withColumn(_SIGN, F.lit(1))
    if stored is not None:
        chosen = stored if condition is None else stored.where(condition)
        there = _comparable(chosen.select(*wanted.columns)).withColumn(_SIGN, F.lit(-1))
        signed = signed.unionByName(there)
    columns = [F.col(f"`{column}`") for column in wanted.columns]
    sums = signed.groupBy(*columns).agg(
        F.sum(_SIGN).alias(_SIGN), F.sum(F.when(F.col(_SIGN) == 1, 1).otherwise(0)).alias("__wanted")
    )
    sums = sums.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        lacking, beyond = F.col(_SIGN) > 0, F.col(_SIGN) < 0
        (told,) = sums.agg(
            F.sum("__wanted").alias("rows"),
            F.sum(F.when(lacking, F.col(_SIGN))).alias("missing"),
            F.sum(F.when(beyond, -F.col(_SIGN))).alias("surplus"),
        ).collect()
        return Difference(
            name=name,
            version=version,
            rows=told["rows"] or 0,
            missing=told["missing"] or 0,
            surplus=told["surplus"] or 0,
            missing_rows=_shown(sums.where(lacking), columns),
            surplus_rows=_shown(sums.where(beyond), columns),
        )
    finally:
        sums.unpersist()


def _shown(rows: DataFrame, columns: list[Column]) -> tuple[str, ...]:
    texts = rows.orderBy(*columns).limit(SHOWN_ROWS).select(F.to_json(F.struct(*columns)).alias("row"))
    return tuple(row["row"] for row in texts.collect())


def _comparable(rows: DataFrame) -> DataFrame:
    """Spark compares no maps: theirs become sorted lists of entries, or, deeper, JSON."""
    return rows.select(*(_without_maps(rows, name) for name in rows.columns))


def _without_maps(rows: DataFrame, name: str) -> Column:
    column, kind = F.col(f"`{name}`"), rows.schema[name].dataType
    if isinstance(kind, MapType) and not _has_map(kind.valueType):
        column = F.array_sort(F.map_entries(column))
    elif _has_map(kind):
        column = F.to_json(column)
    return column.alias(name)


def _has_map(kind: DataType) -> bool:
    if isinstance(kind, ArrayType):
        return _has_map(kind.elementType)
    if isinstance(kind, StructType):
        return any(_has_map(field.dataType) for field in kind.fields)
    return isinstance(kind, MapType)


def _act(spark: SparkSession, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    environment = load_environment(find_project(arguments.project), arguments.env)
    pipeline = resolve_pipeline(environment, arguments.pipeline)
    store = Store(pipeline.layout.root)
    plan = load_plan(store, pipeline.layout, pipeline.name, arguments.plan)
    scratch = f"{pipeline.layout.parts(pipeline.name)}/{arguments.run_id}"
    layout = pipeline.layout
    if arguments.staged:
        layout = layout.staging(pipeline.name, plan.digest, arguments.staged)
    compared = Compared(layout, json.loads(arguments.versions))
    found = verify(spark, with_models(pipeline, store), plan, compared, scratch)
    return [difference.model_dump(mode="json") for difference in found]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="tidemill.engine.verify", description=__doc__)
    parser.add_argument("--plan", required=True)
    parser.add_argument("--versions", required=True, help="JSON")
    parser.add_argument("--staged", default="", help="attempt whose staged rows are compared")
    sys.exit(run_part(parser, _act))
