"""A transform that cannot be loaded, applied or run: the error says whose file is to correct."""

from __future__ import annotations

import pytest

from tests.support.command_line import CommandLine
from tests.support.followed_fixes import typed
from tests.support.lake import Lake, LakePipeline
from tidemill.engine.classify import classify
from tidemill.errors import DataError, SpecError, TidemillError

GOOD = "def transform(rows):\n    return rows\n"


def with_transform(lake: Lake, code: str, **sink: str) -> LakePipeline:
    lake.land_rows("landing/orders/1.json", [{"id": 1, "name": "a"}])
    lake.transform("orders", code)
    return lake.pipeline(
        "orders",
        source={"files": {"path": "landing/orders", "format": "json", "schema": "id long, name string"}},
        transform="orders:transform",
        sinks=[{"delta": {"table": "bronze/orders", **sink}}],
        run={"mode": "incremental"},
    )


def failure_of(pipeline: LakePipeline) -> TidemillError:
    """Return the error that the driver would report; no rows and no finished batch may be left."""
    with pytest.raises(Exception) as failed:  # noqa: PT011  # any; the driver classifies it
        pipeline.run_incremental()
    assert pipeline.lake.data_files("bronze/orders") == []
    assert not list(pipeline.checkpoint.glob("commits/[0-9]*"))
    return classify(failed.value)


def test_a_file_without_the_function_is_refused(lake: Lake) -> None:
    error = failure_of(with_transform(lake, "def transfrom(rows):\n    return rows\n"))
    assert (type(error), error.error_id) == (SpecError, "TIDE-SPEC-019")
    assert error.facts["function"] == "transform"


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (
            "import nothing_of_this_name\n" + GOOD,
            "ModuleNotFoundError: No module named 'nothing_of_this_name'",
        ),
        ("LIMIT = int('x')\n" + GOOD, "ValueError: invalid literal for int() with base 10: 'x'"),
        (GOOD + "del transform\n", "AttributeError"),
    ],
)
def test_a_file_that_fails_to_load_is_refused(lake: Lake, code: str, reason: str) -> None:
    error = failure_of(with_transform(lake, code))
    assert (type(error), error.error_id) == (SpecError, "TIDE-SPEC-016")
    assert error.facts["file"] == lake.folder.resolve() / "spark_apps/transforms/orders.py"
    assert str(error.facts["reason"]).startswith(reason)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("return rows.select('nmae')", "UNRESOLVED_COLUMN"),
        ("return rows.where('id >')", "PARSE_SYNTAX_ERROR"),
        ("return rows.columns['id']", "TypeError: list indices must be integers or slices, not str"),
        # The error is raised in a library; the reported line is the transform's.
        ("return rows.where(__import__('json').loads('{'))", "JSONDecodeError"),
        ("return rows.select('id').columns", "returns list instead of a DataFrame"),
        ("if rows.columns == []:\n        return rows", "returns NoneType instead of a DataFrame"),
    ],
)
def test_a_function_that_cannot_be_applied_is_told_before_the_first_batch(
    lake: Lake, body: str, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    error = failure_of(with_transform(lake, f"def transform(rows):\n    {body}\n"))
    assert (type(error), error.error_id) == (DataError, "TIDE-DATA-002")
    tidemill = CommandLine(lake.folder, capsys.readouterr)
    assert tidemill(*typed(error.fix, "plan", {})) == 0, tidemill.err
    assert {"id", "name"} <= set(tidemill.out.replace(",", " ").split())
    assert (error.facts["pipeline"], error.facts["transform"]) == ("orders", "orders:transform")
    assert reason in str(error.facts["reason"])
    if "returns" not in reason:
        file = lake.folder.resolve() / "spark_apps/transforms/orders.py"
        assert str(error.facts["file"]) == f"{file}:2"


IN_SQL = "at line 1, position 1"
UDF = "return rows.withColumn('x', F.udf(lambda name: 1 / 0, 'int')('name'))"
CAST = "return rows.withColumn('x', F.col('name').cast('int'))"


@pytest.mark.parametrize(
    ("writer", "body", "reason"),
    [
        ("arrow", UDF, "ZeroDivisionError at {file}:4 in <lambda>"),
        ("spark", UDF, "ZeroDivisionError at {file}:4 in <lambda>"),
        ("arrow", CAST, "[CAST_INVALID_INPUT] at {file}:4"),
        ("spark", CAST, "[CAST_INVALID_INPUT] at {file}:4"),
        (
            "arrow",
            "return rows.withColumn('x', F.expr('1 DIV (id - 1)'))",
            f"[DIVIDE_BY_ZERO] {IN_SQL}",
        ),
        (
            "arrow",
            "return rows.withColumn('x', F.expr('array(1)[id]'))",
            f"[INVALID_ARRAY_INDEX] {IN_SQL}",
        ),
        (
            "spark",
            "return rows.withColumn('x', F.raise_error(F.lit('no')))",
            "[USER_RAISED_EXCEPTION]",
        ),
    ],
)
def test_a_function_that_fails_on_the_data_is_a_data_error(
    lake: Lake, writer: str, body: str, reason: str
) -> None:
    code = f"from pyspark.sql import functions as F\n\ndef transform(rows):\n    {body}\n"
    pipeline = with_transform(lake, code, writer=writer)
    error = failure_of(pipeline)
    assert (type(error), error.error_id) == (DataError, "TIDE-DATA-003")
    file = lake.folder / "spark_apps/transforms/orders.py"
    assert error.facts["reason"] == reason.format(file=file)


def test_a_condition_of_a_sink_that_spark_cannot_read_is_refused(lake: Lake) -> None:
    error = failure_of(with_transform(lake, GOOD, where="price > 100"))
    assert (type(error), error.error_id) == (SpecError, "TIDE-SINK-030")


def test_a_corrected_transform_goes_on_where_the_wrong_one_failed(lake: Lake) -> None:
    pipeline = with_transform(lake, "def transform(rows):\n    return rows.select('nmae')\n")
    failure_of(pipeline)
    lake.transform("orders", GOOD)
    pipeline.run_incremental()
    assert lake.rows("bronze/orders") == [{"id": 1, "name": "a"}]
