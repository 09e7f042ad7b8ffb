"""The start of a new checkpoint that reads a table."""

from __future__ import annotations

import os
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.support.lake import Lake
from tidemill.engine.availability import check_source
from tidemill.engine.classify import classify
from tidemill.errors import DataError, SpecError, UsageError
from tidemill.names import CHANGE_FEED
from tidemill.sinks.table_log import TableLog
from tidemill.sinks.table_writer import table_writer

# 2026-01-01T00:00:00Z, in seconds.
FIRST_COMMIT = 1_767_225_600


def test_a_table_is_read_from_the_first_commit_of_a_moment_on_and_then_goes_on(lake: Lake) -> None:
    table = lake.root / "tables/bronze/raw"

    def append(number: int) -> None:
        write_deltalake(str(table), pa.table({"id": [number]}), mode="append")
        committed_at = FIRST_COMMIT + 3600 * number
        os.utime(table / f"_delta_log/{number:020}.json", (committed_at, committed_at))

    for number in range(3):
        append(number)
    pipeline = lake.pipeline(
        "orders",
        source={
            "delta": {"table": "bronze/raw", "starting_at": "2026-01-01T00:30:00Z", "changes": "skip_deletes"}
        },
        sinks=[{"delta": {"table": "silver/orders"}}],
        run={"mode": "incremental"},
    )
    pipeline.run_incremental()
    assert sorted(row["id"] for row in lake.rows("silver/orders")) == [1, 2]
    append(3)
    # A whole file.
    DeltaTable(str(table)).delete("id = 1")
    pipeline.run_incremental()
    assert sorted(row["id"] for row in lake.rows("silver/orders")) == [1, 2, 3]


@pytest.mark.parametrize("changes", ["skip", "fail"])
def test_changed_rows_are_skipped_or_stop_the_pipeline(lake: Lake, changes: str) -> None:
    table = str(lake.root / "tables/bronze/raw")
    for ids in ([1], [2, 3]):
        write_deltalake(table, pa.table({"id": ids}), mode="append")
    pipeline = lake.pipeline(
        "orders",
        source={"delta": {"table": "bronze/raw", "starting_version": 1, "changes": changes}},
        sinks=[{"delta": {"table": "silver/orders"}}],
        run={"mode": "incremental"},
    )
    pipeline.run_incremental()
    # A part of a file.
    DeltaTable(table).delete("id = 2")
    write_deltalake(table, pa.table({"id": [4]}), mode="append")
    if changes == "skip":
        pipeline.run_incremental()
        assert sorted(row["id"] for row in lake.rows("silver/orders")) == [2, 3, 4]
        return
    with pytest.raises(Exception) as failed:  # noqa: PT011  # any; the driver classifies it
        pipeline.run_incremental()
    error = classify(failed.value)
    assert (type(error), error.error_id) == (DataError, "TIDE-SRC-009")
    assert sorted(row["id"] for row in lake.rows("silver/orders")) == [2, 3]


FEED = ("_change_type", "_commit_version", "_commit_timestamp")


def test_changes_go_from_bronze_through_silver_to_gold(lake: Lake) -> None:
    """Both writers are used: the arrow writer appends to bronze, and Spark's writer merges into silver."""
    rows = {
        "path": "landing/customers",
        "format": "json",
        "schema": "id long, city string, op string, lsn long",
    }
    scd1 = {
        "table": "silver/customers",
        "mode": "scd1",
        "key": ["id"],
        "change_feed": True,
        "cdc": {"sequence_by": "lsn", "apply_as_deletes": "op = 'd'", "except_columns": ["op", "lsn", *FEED]},
    }
    mirror = {
        "table": "gold/mirror",
        "mode": "scd1",
        "key": ["id"],
        "cdc": {
            "sequence_by": "_commit_version",
            "apply_as_deletes": "_deleted_at IS NOT NULL",
            "except_columns": ["_sequence", "_deleted_at", *FEED],
        },
    }
    chain = [
        lake.pipeline(
            "bronze",
            source={"files": rows},
            sinks=[{"delta": {"table": "bronze/changes", "change_feed": True}}],
            run={"mode": "incremental"},
        ),
        lake.pipeline(
            "silver",
            source={"delta": {"table": "bronze/changes", "read_changes": True}},
            sinks=[{"delta": scd1}],
            run={"mode": "incremental"},
        ),
        lake.pipeline(
            "gold",
            source={"delta": {"table": "silver/customers", "read_changes": True}},
            sinks=[{"delta": {"table": "gold/audit"}}, {"delta": mirror}],
            run={"mode": "incremental"},
        ),
    ]

    def run_with(*changes: dict[str, Any]) -> None:
        lake.land_rows(f"landing/customers/{changes[0]['lsn']}.json", changes)
        for pipeline in chain:
            pipeline.run_incremental()

    first = {"id": 1, "city": "Rome", "op": "c", "lsn": 1}
    run_with(first, {**first, "id": 2, "lsn": 2})
    # An update, a delete, and a change that comes too late to be one.
    run_with(
        {**first, "city": "Oslo", "lsn": 4}, {"id": 2, "op": "d", "lsn": 5}, {**first, "id": 2, "lsn": 3}
    )
    found = sorted(
        (row["_commit_version"], row["id"], row["_change_type"], row["city"])
        for row in lake.rows("gold/audit")
    )
    assert found[:2] == [(1, 1, "insert", "Rome"), (1, 2, "insert", "Rome")]
    assert [change[1:] for change in found[2:]] == [
        (1, "update_postimage", "Oslo"),
        (1, "update_preimage", "Rome"),
        (2, "update_postimage", None),
        (2, "update_preimage", "Rome"),
    ]
    mirrored = {row["id"]: (row["city"], row["_deleted_at"] is None) for row in lake.rows("gold/mirror")}
    assert mirrored == {1: ("Oslo", True), 2: (None, False)}
    with pytest.raises(UsageError) as refused:
        chain[-1].plan("2024-01-01", "2024-01-02")
    assert (refused.value.error_id, refused.value.facts["read_changes"]) == ("TIDE-BACK-002", True)


def test_a_table_without_a_change_feed_is_refused_before_a_query(lake: Lake) -> None:
    write_deltalake(str(lake.root / "tables/bronze/raw"), pa.table({"id": [1]}))
    pipeline = lake.pipeline(
        "orders",
        source={"delta": {"table": "bronze/raw", "read_changes": True}},
        sinks=[{"delta": {"table": "silver/orders", "change_feed": True}}],
    )
    with pytest.raises(SpecError) as refused:
        check_source(pipeline.resolved)
    assert (refused.value.error_id, refused.value.facts["table"]) == ("TIDE-CDC-005", "bronze/raw")
    DeltaTable(str(lake.root / "tables/bronze/raw")).alter.set_table_properties({CHANGE_FEED: "true"})
    check_source(pipeline.resolved)
    # The names of the feed are Delta's own in a table that keeps one.
    feed = pa.schema([("id", pa.int64()), ("_change_type", pa.string())])
    sink = pipeline.resolved.spec.delta_sinks[0]
    with pytest.raises(SpecError) as refused:
        table_writer(sink, TableLog(str(lake.root / "tables/silver/orders")), feed)
    assert refused.value.error_id == "TIDE-CDC-004"
