"""Empty texts in partition columns: refused by name or in the quarantine, never read back as null."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.commits import commit_of
from tests.support.lake import Lake, LakePipeline
from tests.support.writer_cases import WriterCase
from tidemill.errors import DataError

COLUMNS = "id long, Country string, day date"


def partitioned(case: WriterCase, **declaration: Any) -> WriterCase:
    return WriterCase("spark", case.path, case.spark, {"partition_by": ["country", "day"], **declaration})


@pytest.mark.parametrize("declaration", [{}, {"mode": "replace"}, {"mode": "merge", "key": ["id"]}], ids=str)
def test_a_table_refuses_an_empty_text_by_its_column(
    arrow_case: WriterCase, declaration: dict[str, Any]
) -> None:
    case = partitioned(arrow_case, **declaration)
    good = case.frame((1, "de", None), (2, None, None), columns=COLUMNS)
    case.writer(columns=COLUMNS).write(good, commit_of(0))
    with pytest.raises(DataError) as refused:
        case.writer(columns=COLUMNS).write(case.frame((3, "", None), columns=COLUMNS), commit_of(1))
    assert refused.value.error_id == "TIDE-SINK-020"
    assert refused.value.facts == {"place": str(case.path), "column": "Country"}
    assert [(row["id"], row["Country"]) for row in case.rows()] == [(1, "de"), (2, None)]


def orders(lake: Lake, sink: dict[str, Any]) -> LakePipeline:
    rows = [{"id": 1, "country": "de"}, {"id": 2, "country": ""}, {"id": 3, "country": None}]
    lake.land("landing/1.json", "".join(json.dumps(row) + "\n" for row in rows))
    return lake.pipeline(
        "orders",
        source={"files": {"path": "landing", "format": "json", "schema": "id long, country string"}},
        sinks=[sink],
        run={"mode": "incremental"},
    )


def test_a_files_sink_refuses_an_empty_text_and_names_no_file(lake: Lake) -> None:
    pipeline = orders(lake, {"files": {"path": "out", "format": "parquet", "partition_by": ["country"]}})
    with pytest.raises(DataError) as refused:
        pipeline.run_incremental()
    assert (refused.value.error_id, refused.value.facts["column"]) == ("TIDE-SINK-020", "country")
    assert not (lake.root / "out/_spark_metadata/0").exists()


def test_the_fix_of_the_refusal_sends_such_rows_to_the_quarantine(lake: Lake) -> None:
    no_empty = {"expect": "country <> '' or country is null", "on_violation": "quarantine"}
    table = {"table": "silver/orders", "partition_by": ["country"], "expectations": {"country": no_empty}}
    orders(lake, {"delta": table}).run_incremental()
    assert sorted((row["id"], row["country"]) for row in lake.rows("silver/orders")) == [(1, "de"), (3, None)]
    assert [row["reason"] for row in lake.quarantined("orders")] == ["expectation:silver/orders:country"]
