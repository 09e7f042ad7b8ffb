"""Errors that the text of a transform proves without Spark, and those that it does not prove."""

from __future__ import annotations

import pytest

from tests.support.conf_project import ConfProject
from tidemill.errors import SpecError

HEAD = "import json\nfrom pyspark.sql import functions as F\n\n"


def with_text(project: ConfProject, text: str) -> ConfProject:
    project.replace("sinks:", "transform: orders:transform\nsinks:")
    project.write("spark_apps/transforms/orders.py", HEAD + text)
    return project


def with_body(project: ConfProject, body: str) -> ConfProject:
    return with_text(
        project, "def transform(orders):\n" + "".join(f"    {line}\n" for line in body.split("\n"))
    )


# Body, id, line of the body, a word of the alternative.
WRONG = [
    ("orders.show()\nreturn orders", "001", 1, "console"),
    ("paid = orders.where('paid')\npaid.select('id').show(5)\nreturn paid", "001", 2, "console"),
    ("ids = [row.id for row in orders.collect()]\nreturn orders", "001", 1, "join"),
    ("return orders.where(\n    F.col('id') > 1\n).toPandas()", "001", 3, "mapInPandas"),
    ("orders.foreach(print)\nreturn orders", "001", 1, "sinks"),
    ("orders.rdd.map(len)\nreturn orders", "001", 1, "mapInArrow"),
    ("orders = orders.where('paid')\norders = orders.cache()\nreturn orders", "001", 2, "leave it out"),
    ("if (paid := orders.where('paid')):\n    paid.show()\nreturn orders", "001", 2, "console"),
    ("orders.write.format('delta').save('x')\nreturn orders", "003", 1, "sinks"),
    ("orders.writeStream.start()\nreturn orders", "003", 1, "sinks"),
    ("query.awaitTermination()\nreturn orders", "003", 1, "sinks"),
    ("return orders.sparkSession.readStream.format('rate').load()", "004", 1, "source"),
    ("names = json.load(open('names.json'))\nreturn orders", "004", 1, "constants"),
    ("orders.where('paid')", "002", 0, "return"),
    ("if True:\n    return\nreturn None", "002", 0, "return"),
    ("rows = orders.count()\nreturn orders", "001", 1, "tidemill ledger"),
    ("return orders.where('paid').select('id').count()", "001", 1, "in groups"),
    (
        "paid = orders.where('paid')\nif paid.isEmpty():\n    return orders\nreturn paid",
        "001",
        2,
        "in groups",
    ),
    ("return orders.groupBy('id').count().first()", "001", 1, "join"),
    ("orders = orders.where('paid')\nprint(orders.take(1))\nreturn orders", "001", 2, "join"),
    ("return orders.toJSON()", "001", 1, "mapInArrow"),
    ("return [orders, orders.where('paid')]", "007", 1, "one DataFrame"),
    ("paid = orders.where('paid')\nreturn orders, paid", "007", 2, "one DataFrame"),
    ("parts = {'paid': orders.where('paid')}\nreturn parts", "007", 2, "one DataFrame"),
    ("return (orders.where(f'id = {n}') for n in range(2))", "007", 1, "one DataFrame"),
    ("if True:\n    return orders\nreturn 5", "007", 3, "one DataFrame"),
    ("groups = orders.groupBy('id')\nreturn groups", "007", 2, "one DataFrame"),
]


@pytest.mark.parametrize(("body", "number", "line", "word"), WRONG)
def test_a_call_that_no_transform_may_make_is_refused_with_its_line_and_what_to_do(
    project: ConfProject, body: str, number: str, line: int, word: str
) -> None:
    error = with_body(project, body).refusal()
    assert error.error_id == f"TIDE-PLAN-{number}"
    file = project.folder / "spark_apps/transforms/orders.py"
    assert error.facts["file"] == f"{file}:{line + 4}"
    assert error.facts["function"] == "transform"
    assert word in error.fix


def test_functions_of_the_file_that_get_the_rows_are_looked_at_too(project: ConfProject) -> None:
    text = (
        "def shown(more, frame):\n    frame.show()\n    return frame\n\n"
        "def transform(orders):\n    return shown(1, orders.where('paid'))\n"
    )
    error = with_text(project, text).refusal()
    assert (error.error_id, str(error.facts["file"]).rpartition(":")[2]) == ("TIDE-PLAN-001", "5")


@pytest.mark.parametrize(
    "body",
    [
        "return orders.groupBy('id').count()",
        "groups = orders.groupBy('id')\nreturn groups.count()",
        "groups = orders.where('paid').rollup('id').pivot('kind')\nreturn groups.count().where('paid')",
        # It may be a group, or anything.
        "orders = orders.groupBy('id')\nreturn orders.count()",
        "return orders.select(F.first('id'), orders.head)",
        "names = helper(orders)\nnames.count()\nreturn orders",
        "n = [1].count(1)\nreturn orders",
        "return orders if True else []",
        "result = []\nresult = orders\nreturn result",
        "result = orders\nfor result in [orders]:\n    pass\nreturn result",
        "picture = canvas()\npicture.show()\nreturn orders",
        "orders.sparkSession.range(3).collect()\nreturn orders",
        "names = orders.columns.show\nreturn orders",
        # Fields of a struct.
        "return orders.select(orders.http.cache, orders.event.show, orders.job.awaitTermination)",
        # Another thing under the same name.
        "return orders\norders = canvas()\norders.show()",
        "for orders in canvases():\n    orders.show()\nreturn orders",
        "a, orders = canvas(), orders\norders.show()\nreturn orders",
        # Functions of a task: they get something else.
        "def each(orders):\n    orders.show()\nreturn orders.groupBy('id').applyInPandas(each, 'id long')",
        "return orders.mapInPandas(lambda orders: orders.collect(), 'id long')",
        "def open_(x):\n    return x\nopen_('a')\nreturn orders",
        "return orders.select(F.collect_list('id'))",
        "if True:\n    return orders\nraise ValueError",
    ],
)
def test_what_is_not_certain_is_left_to_sparks_plan(project: ConfProject, body: str) -> None:
    assert with_body(project, body).resolve().spec.transform == "orders:transform"


def test_a_function_of_the_file_that_gets_no_rows_may_do_anything(project: ConfProject) -> None:
    text = (
        "def drawn(picture):\n    picture.show()\n\n"
        "def open(name):\n    return name\n\n"
        "def again(rows):\n    return again(rows)\n\n"
        "@decorated\ndef without_return(rows):\n    rows\n\n"
        "def transform(orders):\n    drawn(1)\n    open('a')\n    again(orders)\n    return orders\n"
    )
    with_text(project, text).resolve()


def test_a_count_is_found_in_a_function_of_the_file_that_gets_the_stream(project: ConfProject) -> None:
    text = (
        "def checked(frame):\n    assert frame.count()\n    return frame\n\n"
        "def transform(orders):\n    return checked(orders.where('paid'))\n"
    )
    error = with_text(project, text).refusal()
    assert (error.error_id, str(error.facts["file"]).rpartition(":")[2]) == ("TIDE-PLAN-001", "5")
    with_text(project, text.replace("orders.where('paid')", "orders.groupBy('id')")).resolve()


@pytest.mark.parametrize(
    ("body", "error_id"),
    [
        ("return [rows]", "TIDE-PLAN-007"),
        ("rows.count()", "TIDE-PLAN-002"),
        ("rows.count()\n    return rows", ""),
    ],
)
def test_the_transform_of_a_sink_returns_a_dataframe_too(
    project: ConfProject, body: str, error_id: str
) -> None:
    project.replace("{table: bronze/orders}", "{table: bronze/orders, transform: 'orders:shaped'}")
    project.write("spark_apps/transforms/orders.py", f"def shaped(rows):\n    {body}\n")
    if error_id:
        assert project.refusal().error_id == error_id
    else:
        project.resolve()


def test_a_decorated_function_may_return_by_its_decorator(project: ConfProject) -> None:
    with_text(project, "@decorated\ndef transform(orders):\n    orders.where('paid')\n").resolve()


@pytest.mark.timeout(60)  # of 300, and a moment is enough
def test_a_file_of_a_thousand_lines_is_checked_in_a_moment(project: ConfProject) -> None:
    lines = "\n".join(f"orders = orders.withColumn('c{n}', F.col('id') + {n})" for n in range(1000))
    with_body(project, f"{lines}\nreturn orders")
    project.resolve()
    with pytest.raises(SpecError):
        with_body(project, f"{lines}\norders.show()\nreturn orders").resolve()
