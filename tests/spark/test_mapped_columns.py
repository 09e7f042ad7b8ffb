"""A stream of a table with column mapping continues if columns are renamed, dropped or recreated."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.lake import Lake, LakePipeline
from tests.support.rewinds import newest_batch, rewind
from tidemill.engine.classify import classify

# Delta ends the query once for each change, and may do so again to begin its log.
RESTARTS = 4


def altered(lake: Lake, *statements: str) -> None:
    for statement in statements:
        lake.spark.sql(statement.format(table=f"delta.`{lake.root}/tables/bronze/raw`"))


def source_table(lake: Lake, *statements: str) -> None:
    altered(
        lake,
        "CREATE TABLE {table} (id BIGINT, name STRING, v DOUBLE) USING delta "
        "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
        "INSERT INTO {table} VALUES (1, 'a', 1.5)",
        *statements,
    )


def reads_table(lake: Lake, columns: str = "'id'", **source: Any) -> LakePipeline:
    lake.transform("orders", f"def transform(raw):\n    return raw.select({columns})\n")
    return lake.pipeline(
        "orders",
        source={"delta": {"table": "bronze/raw", **source}},
        transform="orders:transform",
        sinks=[{"delta": {"table": "silver/orders"}}],
        run={"mode": "incremental"},
    )


def run_like_a_driver(pipeline: LakePipeline) -> list[str]:
    """Run to the end, again after an error after which a driver tries again; those errors."""
    ended = []
    for _ in range(RESTARTS):
        try:
            pipeline.run_incremental()
        except Exception as error:
            found = classify(error)
            if found.error_id != "TIDE-SRC-006":
                raise found from error
            ended.append(found.error_id)
        else:
            return ended
    raise AssertionError(ended)


RENAMED = ["ALTER TABLE {table} RENAME COLUMN name TO label", "INSERT INTO {table} VALUES (2, 'b', 1)"]
MADE_AGAIN = [
    "INSERT INTO {table} VALUES (3, 'c', 1)",
    "ALTER TABLE {table} DROP COLUMN v",
    "ALTER TABLE {table} ADD COLUMNS (v DOUBLE)",
    "INSERT INTO {table} VALUES (4, 'd', 1)",
]


@pytest.mark.parametrize("change", [RENAMED, MADE_AGAIN], ids=["renamed", "made_again"])
def test_a_stream_goes_on_after_its_table_s_columns_were_renamed_or_made_again(
    lake: Lake, change: list[str]
) -> None:
    source_table(lake)
    pipeline = reads_table(lake)
    run_like_a_driver(pipeline)
    altered(lake, *change)
    run_like_a_driver(pipeline)
    altered(lake, "INSERT INTO {table} VALUES (5, 'e', 1)")
    assert run_like_a_driver(pipeline) == []
    ids = sorted(row["id"] for row in lake.rows("silver/orders"))
    assert ids == ([1, 2, 5] if change is RENAMED else [1, 3, 4, 5])


def test_a_table_is_read_from_a_version_before_a_rename_on(lake: Lake) -> None:
    source_table(lake, *RENAMED)
    pipeline = reads_table(lake, starting_version=0)
    run_like_a_driver(pipeline)
    assert sorted(row["id"] for row in lake.rows("silver/orders")) == [1, 2]


def test_a_checkpoint_from_before_the_schemas_were_kept_goes_on(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    source_table(lake)
    pipeline = reads_table(lake)
    with monkeypatch.context() as older:
        older.setattr("tidemill.sources.read.COLUMN_MAPPING", "of no table")
        pipeline.run_incremental()
    altered(lake, *RENAMED)
    run_like_a_driver(pipeline)
    assert sorted(row["id"] for row in lake.rows("silver/orders")) == [1, 2]


def test_a_transform_that_names_a_renamed_column_is_refused_with_its_line(lake: Lake) -> None:
    source_table(lake)
    pipeline = reads_table(lake, "'id', 'name'")
    run_like_a_driver(pipeline)
    altered(lake, *RENAMED)
    with pytest.raises(Exception, match="name"):
        run_like_a_driver(pipeline)
    reads_table(lake, "'id', raw.label.alias('name')")
    run_like_a_driver(pipeline)
    assert sorted(row["id"] for row in lake.rows("silver/orders")) == [1, 2]


def test_a_rewind_goes_back_behind_a_rename(lake: Lake) -> None:
    """It copies no schemas: Delta begins its log again at the next batch."""
    source_table(lake)
    pipeline = reads_table(lake)
    run_like_a_driver(pipeline)
    good = newest_batch(pipeline)
    altered(lake, *RENAMED)
    run_like_a_driver(pipeline)
    assert list((pipeline.checkpoint / "schemas/source").rglob("0"))
    rewind(pipeline, good)
    assert sorted(row["id"] for row in lake.rows("silver/orders")) == [1]
    run_like_a_driver(pipeline)
    assert sorted(row["id"] for row in lake.rows("silver/orders")) == [1, 2]
