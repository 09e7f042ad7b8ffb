"""`python -m tidemill.engine.verify --pipeline NAME …`: recompute a range and compare it with its tables.

The rows are those of a backfill with the same plan, but they are not written.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemill.backfill.compared import Compared
from tidemill.backfill.plan import BackfillPlan, load_plan
from tidemill.backfill.still_holds import check_still_holds
from tidemill.engine.discovery import known_columns
from tidemill.engine.expectations import OF_ROWS
from tidemill.engine.models import with_models
from tidemill.engine.quarantine_range import KEY
from tidemill.engine.range_rows import RangeRows
from tidemill.engine.row_difference import comparable_reason, difference
from tidemill.engine.verb_process import run_part
from tidemill.ledger.difference import Difference
from tidemill.ledger.entry import Joined
from tidemill.names import QUARANTINE_OUTPUT
from tidemill.payload.exact_paths import exact_reader
from tidemill.payload.quarantine import Quarantine
from tidemill.sources.joined_tables import newest_versions
from tidemill.spec.project import Pipeline, load_environment, resolve_pipeline
from tidemill.spec.project_folder import find_project
from tidemill.storage.store import Store


def verify(
    spark: SparkSession, pipeline: Pipeline, plan: BackfillPlan, compared: Compared, scratch: str
) -> list[Difference]:
    """Compare the rows computed from a plan's records with the rows in the tables; change no table.

    Args:
        spark: The session.
        pipeline: The pipeline.
        plan: Selects the records, and the rows of the tables.
        compared: The tables to compare.
        scratch: Temporary folder for rejected records; it is deleted at the end.

    Raises:
        UsageError: TIDE-BACK-016, if the plan no longer holds; -008, if records are missing.
        DataError: If a record has columns that no run has discovered yet; TIDE-EXP-001, if a row violates an
            expectation that allows none.
    """
    store, versions = Store(pipeline.layout.root), compared.versions
    check_still_holds(store, pipeline, plan)
    discovery = known_columns(spark.sparkContext, store, pipeline)
    records = RangeRows(spark, pipeline, plan, Joined(tables=newest_versions(pipeline)), discovery)
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
                place = compared.layout.table(name)
                stored = _stored(spark, place, versions[name], records.condition_of(name))
                found.append(difference(name, wanted, stored, versions[name]))
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
    """Return the quarantine's rows for a plan's records.

    Records that could not be decoded are included for all offsets that were read. A row that violates an
    expectation, or lacks a key, was decoded, so only rows that the plan concerns are included.
    """
    found = held.where(records.records or "true").select(*KEY, comparable_reason())
    by_row = F.col("reason").rlike(OF_ROWS)
    decided = None if found.where(by_row).isEmpty() else records.decided(rejected)
    if decided is None:
        return found
    return found.where(~by_row).unionByName(found.where(by_row).join(decided, KEY, "left_semi"))


def _quarantine(
    spark: SparkSession, parts: Sequence[str], stored: DataFrame | None, version: int | None
) -> Difference:
    """Return the difference in the positions of rejected records.

    Time and run id are not compared, because they differ in each run.
    """
    if parts:
        wanted = exact_reader(spark).parquet(*parts).select(*KEY, comparable_reason())
    else:
        wanted = spark.createDataFrame([], "topic string, partition int, offset long, reason string")
    return difference(QUARANTINE_OUTPUT, wanted, stored, version)


def _stored(
    spark: SparkSession, path: str, version: int | None, condition: str | None = None
) -> DataFrame | None:
    if version is None:
        return None
    found = spark.read.format("delta").option("versionAsOf", version).load(path)
    return found if condition is None else found.where(condition)


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
