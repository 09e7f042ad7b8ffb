"""Tables are created with the retention that a rewind needs."""

from __future__ import annotations

from typing import Any

import pytest
from deltalake import DeltaTable

from tests.support.lake import Lake
from tidemill.checkpoint.retention.rule import retention_of
from tidemill.checkpoint.retention.table_properties import table_findings, table_retention


@pytest.mark.parametrize("sink", [{}, {"mode": "merge", "key": ["id"]}], ids=["arrow", "spark"])
def test_both_writers_make_tables_that_keep_as_long_as_the_pipeline_is_rewindable(
    lake: Lake, sink: dict[str, Any]
) -> None:
    lake.land_rows("landing/orders/1.json", [{"id": 1}])
    pipeline = lake.pipeline(
        "orders",
        source={"files": {"path": "landing/orders", "format": "json", "schema": "id long"}},
        sinks=[{"delta": {"table": "bronze/orders", **sink}}],
        run={"mode": "incremental", "schedule": "@daily", "rewindable": "40 days"},
    )
    pipeline.run_incremental()
    path = str(lake.root / "tables/bronze/orders")
    found = table_retention(path, DeltaTable(path).metadata().configuration)
    kept = retention_of(pipeline.resolved.spec)
    assert (found.log, found.deleted_files) == (kept.log_retention, kept.deleted_file_retention)
    assert table_findings("orders", found, kept) == []
