"""Rows without a key never become rows of a keyed table: they go to the quarantine, or stop the pipeline."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.lake import Lake, LakePipeline
from tidemill.errors import DataError

COLUMNS = "id int, sub string, op string, v string, n long"
FEED = {"sequence_by": "n", "apply_as_deletes": "op = 'd'", "except_columns": ["op", "n"]}
ROWS = [
    {"id": 1, "sub": "a", "op": "u", "v": "kept", "n": 1},
    {"sub": "b", "op": "u", "v": "no id", "n": 2},
    {"op": "d", "v": "neither", "n": 3},
    {"op": "t", "n": 4},
    {"id": 2, "sub": "b", "op": "u", "v": "kept", "n": 5},
]


def pipeline_of(lake: Lake, mode: str, on_invalid: str = "quarantine", **feed: Any) -> LakePipeline:
    files = {
        "path": "landing",
        "format": "json",
        "schema": COLUMNS,
        "on_invalid": on_invalid,
        "max_files_per_batch": 1,
    }
    cdc = {} if mode == "merge" else {"cdc": {**FEED, **feed}}
    return lake.pipeline(
        "orders",
        source={"files": files},
        sinks=[{"delta": {"table": "silver/orders", "mode": mode, "key": ["id", "sub"], **cdc}}],
        run={"mode": "incremental"},
    )


def land(lake: Lake, *rows: dict[str, Any]) -> None:
    lake.land_rows("landing/1.json", rows)


def kept(lake: Lake) -> list[tuple[Any, ...]]:
    rows = [row for row in lake.rows("silver/orders") if row.get("_deleted_at") is None]
    return sorted((row["id"], row["sub"], row["v"]) for row in rows)


@pytest.mark.parametrize("mode", ["merge", "scd1", "scd2"])
def test_rows_without_a_key_go_to_the_quarantine_with_the_columns_they_lack(lake: Lake, mode: str) -> None:
    land(lake, *ROWS)
    pipeline_of(lake, mode).run_incremental()
    assert kept(lake) == [(1, "a", "kept"), (2, "b", "kept")]
    found = {row["reason"]: json.loads(row["value"]) for row in lake.quarantined("orders")}
    assert found.keys() == {"null_key:id", "null_key:id,sub"}
    assert found["null_key:id"] == {"id": None, **ROWS[1]}
    assert len(lake.quarantined("orders")) == 3
    (commit,) = lake.ledger("silver/orders")
    assert commit.entry is not None
    assert commit.entry.expectations is not None
    assert commit.entry.expectations.violations == {"null_key:id": 3, "null_key:sub": 2}
    assert (commit.entry.expectations.checked, commit.entry.quarantined_rows) == (5, 3)


def test_a_declared_truncation_is_no_row_without_a_key(lake: Lake) -> None:
    land(lake, *ROWS)
    pipeline_of(lake, "scd1", truncate="op = 't'").run_incremental()
    assert kept(lake) == [(2, "b", "kept")]
    assert sorted(row["reason"] for row in lake.quarantined("orders")) == ["null_key:id", "null_key:id,sub"]


@pytest.mark.parametrize("mode", ["merge", "scd1"])
def test_where_invalid_records_stop_a_pipeline_rows_without_a_key_do_too(lake: Lake, mode: str) -> None:
    land(lake, *ROWS)
    with pytest.raises(DataError) as refused:
        pipeline_of(lake, mode, "fail").run_incremental()
    assert refused.value.error_id == "TIDE-SINK-022"
    assert refused.value.facts["rows_without"] == {"id": 3, "sub": 2}
    assert kept(lake) == []
    assert lake.quarantined("orders") == []
