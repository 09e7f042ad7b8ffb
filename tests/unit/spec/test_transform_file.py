from __future__ import annotations

import pytest

from tests.support.conf_project import ConfProject
from tidemill.errors import SpecError


def with_transform(project: ConfProject, source: str | bytes, function: str = "transform") -> ConfProject:
    project.replace("sinks:", f"transform: orders:{function}\nsinks:")
    project.write("spark_apps/transforms/orders.py", source)
    return project


@pytest.mark.parametrize(
    "source",
    [
        "def transform(orders): return orders",
        "def transform(orders, /): return orders",
        "@decorated\ndef transform(orders: DataFrame) -> DataFrame: return orders",
        "import not_installed_here\nraise SystemExit\ndef transform(x): return x",
    ],
)
def test_a_function_of_one_dataframe_is_a_transform_and_nothing_of_its_file_runs(
    project: ConfProject, source: str
) -> None:
    assert with_transform(project, source).resolve().spec.transform == "orders:transform"


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("def transform(): ...", "0 parameters"),
        ("def transform(a, b): ...", "2 parameters"),
        ("def transform(a, b=1): ...", "2 parameters"),
        ("def transform(a, *, b=1): ...", "2 parameters"),
        ("def transform(*frames): ...", "1 parameters"),
        ("def transform(a, **options): ...", "2 parameters"),
        ("async def transform(a): ...", "async"),
    ],
)
def test_another_shape_is_refused_with_the_line(project: ConfProject, source: str, says: str) -> None:
    error = with_transform(project, "\n\n" + source).refusal()
    assert error.error_id == "TIDE-SPEC-019"
    assert says in error.problem
    assert error.facts["line"] == 3
    assert error.facts["file"] == project.folder / "spark_apps/transforms/orders.py"


def test_a_missing_function_lists_the_known_ones_and_the_near_one(project: ConfProject) -> None:
    error = with_transform(project, "def transform(x): ...\ndef other(x): ...", "tranform").refusal()
    assert error.error_id == "TIDE-SPEC-019"
    assert error.facts["known"] == "transform, other"
    assert error.fix == "did you mean transform?"


@pytest.mark.parametrize(
    "source", ["class Holder:\n    def transform(self): ...", "transform = lambda x: x", ""]
)
def test_only_functions_at_the_top_level_count(project: ConfProject, source: str) -> None:
    assert with_transform(project, source).refusal().error_id == "TIDE-SPEC-019"


@pytest.mark.parametrize(
    ("source", "ending"),
    [("def transform(x:\n", ":1"), ("x = 1\n  y = 2\n", ":2"), (b"\x00", ""), (b"\xff", "")],
)
def test_a_file_that_is_not_python_is_told_with_its_line(
    project: ConfProject, source: str | bytes, ending: str
) -> None:
    error = with_transform(project, source).refusal()
    assert error.error_id == "TIDE-SPEC-018"
    assert f"orders.py{ending}" in str(error.facts["file"])


def test_a_missing_file_suggests_the_near_one(project: ConfProject) -> None:
    project.replace("sinks:", "transform: ordes:transform\nsinks:")
    error = project.refusal()
    assert error.error_id == "TIDE-SPEC-015"
    assert error.fix == "did you mean orders.py?"


def test_a_corrected_file_is_read_again(project: ConfProject) -> None:
    with_transform(project, "def wrong(x): ...")
    with pytest.raises(SpecError):
        project.resolve()
    file = project.write("spark_apps/transforms/orders.py", "def transform(x): return x")
    assert file.stat().st_size > 0
    project.resolve()
