"""Rewinding a lake's pipeline as the command line does, and pipelines that a wrong transform spoils."""

from __future__ import annotations

import uuid
from typing import Any

from tests.support.lake import Lake, LakePipeline
from tests.support.pipelines_on_disk import killed_at
from tidemill.checkpoint.current import read_current
from tidemill.checkpoint.gate import check, gather_facts
from tidemill.checkpoint.procedure.carry_out import Request, carry_out, plan_of, procedure_of
from tidemill.checkpoint.reading.reader import CheckpointReader
from tidemill.checkpoint.verbs.acknowledge import acknowledge_steps, plan_acknowledge
from tidemill.checkpoint.verbs.rewind import Target, plan_rewind, rewind_steps
from tidemill.engine.table_restore import restore_with_spark
from tidemill.ledger.table_restore import (
    RestoreTable,
    TableRestore,
    open_existing,
    restore_through_delta_rs,
    spark_needed,
)

STATELESS = """
def transform(events):
    return events.select("id", "at", "kind")
"""
WINDOWS = """
from pyspark.sql import functions as F

def transform(events):
    once = events.dropDuplicates(["id", "kind", "at"])
    counts = (F.count("*").alias("events"), F.sum("id").alias("ids"))
    windows = once.groupBy(F.window("at", "5 minutes")).agg(*counts)
    return windows.select(F.col("window.start").alias("window_start"), "events", "ids")
"""
JOIN = """
from pyspark.sql import functions as F

def transform(events):
    left = events.where("kind = 'a'").select("id", F.col("at").alias("a_at"))
    right = events.where("kind = 'b'").select(F.col("id").alias("b_id"), F.col("at").alias("b_at"))
    near = "id = b_id AND b_at BETWEEN a_at - interval 20 minutes AND a_at + interval 20 minutes"
    return left.join(right, F.expr(near), "inner").select("id", "a_at", "b_at")
"""
DEDUP = """
def transform(events):
    return events.dropDuplicates(["id", "kind", "at"]).select("id", "at", "kind")
"""
TRANSFORMS = {"stateless": STATELESS, "windows": WINDOWS, "joined": JOIN, "dedup": DEDUP}

# Wrapper of a transform that drops some rows from the result and the state, and makes the others wrong.
# The keys of the state stay the same; otherwise no driver would start.
SPOILED = """
right = transform

def transform(events):
    rows = right(events.where("id % 3 <> 1"))
    column = "id" if "id" in rows.columns else "events"
    return rows.withColumn(column, rows[column] * 7 + 1)
"""


def event(number: int, kind: str, minute: int) -> dict[str, Any]:
    """Return one event of the first day of 2024."""
    return {"id": number, "at": f"2024-01-01T{minute // 60:02}:{minute % 60:02}:00Z", "kind": kind}


def events_of_file(number: int) -> list[dict[str, Any]]:
    """Return a file's events, ten minutes after the last file's. They complete a pair of it; one is twice."""
    minute = 10 * number
    first = event(number, "a", minute)
    others = [event(number - 1, "b", minute + 1), first, event(number - 1, "a", minute - 10)]
    return [first, *others] if number else [first]


def land_events(lake: Lake, begin: int, end: int) -> None:
    """Write these files into the source folder."""
    for number in range(begin, end):
        lake.land_rows(f"landing/events/{number}.json", events_of_file(number))


def declare(
    lake: Lake, name: str, kind: str, files: int = 1, partitions: int = 2, **sink: Any
) -> LakePipeline:
    """Return a pipeline over the files in `landing/events`."""
    source = {
        "path": "landing/events",
        "format": "json",
        "schema": "id long, at timestamp, kind string",
        "max_files_per_batch": files,
    }
    return lake.pipeline(
        name,
        source={"files": source},
        event_time={"column": "at", "watermark": "30 minutes"},
        transform=lake.transform(name, TRANSFORMS[kind]),
        sinks=[{"delta": {"table": f"silver/{name}", **sink}}],
        run={"mode": "incremental", "shuffle_partitions": partitions},
    )


def spoil(pipeline: LakePipeline, kind: str) -> None:
    """Deploy a wrong transform, with an acknowledgement."""
    pipeline.lake.transform(pipeline.name, TRANSFORMS[kind] + SPOILED)
    acknowledge(pipeline)


def mend(pipeline: LakePipeline, kind: str) -> None:
    """Deploy the right one again."""
    pipeline.lake.transform(pipeline.name, TRANSFORMS[kind])


def acknowledge(pipeline: LakePipeline) -> None:
    """Let the live generation continue with the deployed code, even if that code damages its state."""
    resolved, store = pipeline.resolved, pipeline.lake.store
    request = Request("acknowledge", pipeline.name, f"meant-{uuid.uuid4()}", "ann", "a better transform")
    plan = plan_acknowledge(store, resolved, lambda: None)
    steps = acknowledge_steps(store, resolved, request, plan)
    carry_out(store, resolved.layout, procedure_of(request, plan, steps), lambda: check_live(pipeline))


def newest_batch(pipeline: LakePipeline) -> int:
    """Return number of the newest committed batch of the live generation."""
    layout, store = pipeline.resolved.layout, pipeline.lake.store
    current = read_current(store, layout, pipeline.name)
    assert current is not None
    return max(CheckpointReader(store, layout.checkpoint(pipeline.name, current.generation)).commit_ids)


def rewind(pipeline: LakePipeline, batch_id: int, number: int = 1, kill_at: str = "") -> dict[str, Any]:
    """Plan and carry out a rewind; the same number continues the same request."""
    resolved, store = pipeline.resolved, pipeline.lake.store
    request = Request("rewind", pipeline.name, f"rewind-{number}", "ann", "a wrong transform")
    plan = plan_of(
        store,
        resolved.layout,
        request,
        lambda: plan_rewind(store, resolved, Target(batch_id), lambda facts, _: (facts, "not needed")),
    )
    steps = rewind_steps(store, resolved, request, plan, restoring(pipeline))

    def verify() -> None:
        check_live(pipeline)

    carry_out(store, resolved.layout, procedure_of(request, plan, steps), verify, killed_at(kill_at))
    return plan


def check_live(pipeline: LakePipeline) -> None:
    """Ask the gate of the live generation."""
    current = read_current(pipeline.lake.store, pipeline.resolved.layout, pipeline.name)
    assert current is not None
    check(gather_facts(pipeline.lake.store, pipeline.resolved, current.generation))


def restoring(pipeline: LakePipeline) -> RestoreTable:
    """Restore with the test's session where the command line would start one."""

    def restore(wanted: TableRestore) -> None:
        if spark_needed(open_existing(wanted)):
            restore_with_spark(pipeline.lake.spark, wanted)
        else:
            restore_through_delta_rs(wanted)

    return restore


def rows_of(pipeline: LakePipeline) -> list[tuple[Any, ...]]:
    """Return all rows of the table, sorted."""
    return sorted(tuple(row.values()) for row in pipeline.lake.rows(f"silver/{pipeline.name}"))
