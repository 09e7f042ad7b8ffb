"""A run without any fault over the same events, and tables that must be like its own."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from tests.support.event_inputs import EventInput
from tests.support.iot_lake import accepted, window_start
from tests.support.lake import LakePipeline
from tidemill.dev.iot_events import Event

Row = dict[str, Any]
Window = tuple[str, datetime]

# Rows of one record each, and windows that name the events they count. As it should be, a transform changes
# nothing and leaves no row out.
RECORDS = """
from pyspark.sql import functions as F

def transform(readings):
    warmer = readings.withColumn("temperature", F.col("temperature") * {factor})
    return warmer.where("humidity < {most}")
"""
WINDOWS = """
from pyspark.sql import functions as F

def transform(readings):
    windows = readings.groupBy(F.window("timestamp", "5 minutes"), "device_id").agg(
        (F.max("temperature") * {factor}).alias("hottest"),
        F.max("humidity").alias("max_humidity"),
        F.count("*").alias("events"),
        F.sort_array(F.collect_list("event_id")).alias("ids"),
    )
    rows = windows.where("max_humidity < {most}")
    return rows.select(
        "device_id", F.col("window.start").alias("window_start"), "hottest", "max_humidity", "events", "ids"
    )
"""
RIGHT, WRONG = {"factor": "1", "most": "1000"}, {"factor": "2", "most": "60"}

# Columns that say when and how a record came, which another topic with the same records says otherwise.
OF_THE_WAY = frozenset({"kafka_topic", "kafka_timestamp"})

# Columns of a rejected record that depend neither on the run nor on the topic.
REJECTION = ("partition", "offset", "file", "line", "reason", "value")


def assert_like_control(
    events: EventInput, pipeline: LakePipeline, control: LakePipeline, sent: Sequence[Event]
) -> None:
    """Check that tables have the rows of the control, and each event once: as a row, rejected or late.

    Args:
        events: The input.
        pipeline: Whose stream has ended.
        control: The same declaration with separate tables, before its first run.
        sent: Events of the input. The last one closes the windows of all others.
    """
    control.run_incremental()
    found, expected = (rows_of(each) for each in (pipeline, control))
    rejected = [rejections(events.rejected(each)) for each in (pipeline, control)]
    assert rejected[0] == rejected[1], "other records are rejected"
    assert len(rejected[0]) == len(sent) - len(accepted(sent))
    if "ids" in expected[0]:
        assert_windows_like(found, expected, pipeline.lake.late(pipeline.name))
        counted = Counter(name for row in expected for name in row["ids"])
        assert counted == Counter(event.event_id for event in accepted(sent[:-1]))
    else:
        assert found == expected
        assert Counter(row["event_id"] for row in found) == Counter(e.event_id for e in accepted(sent))


def rows_of(pipeline: LakePipeline) -> list[Row]:
    """Return all rows of a pipeline's table, in an order that does not depend on its files."""
    table = pipeline.resolved.spec.delta_sinks[0].table
    rows = pipeline.lake.rows(table)
    kept = [{name: value for name, value in row.items() if name not in OF_THE_WAY} for row in rows]
    return sorted(kept, key=str)


def rejections(rows: Sequence[Row]) -> list[str]:
    return sorted(str([row[name] for name in REJECTION]) for row in rows)


def assert_windows_like(found: Sequence[Row], expected: Sequence[Row], late: Sequence[Row]) -> None:
    """Check that every window is the control's, except for late events, each of which is stored once."""
    places = [(row["topic"], row["partition"], row["offset"]) for row in late]
    assert len(places) == len(set(places)), "a record is twice in the table of late ones"
    by_window = {window_of(row): row for row in found}
    assert len(by_window) == len(found), "a window stands twice in the table"
    missing: dict[Window, Counter[str]] = {}
    for row in late:
        reading = json.loads(row["value"])
        window = (reading["device_id"], window_start(row["event_time"]))
        missing.setdefault(window, Counter())[reading["event_id"]] += 1
    for row in expected:
        window = window_of(row)
        if window not in missing:
            assert by_window.pop(window, None) == row, window
            continue
        there = Counter(by_window.pop(window, {"ids": ()})["ids"])
        assert there + missing.pop(window) == Counter(row["ids"]), window
    assert (by_window, missing) == ({}, {})


def window_of(row: Row) -> Window:
    return row["device_id"], row["window_start"]
