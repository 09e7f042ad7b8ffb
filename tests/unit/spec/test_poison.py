"""Valid values of `on_poison`."""

from __future__ import annotations

import pytest

from tests.support.conf_project import PIPELINE, ConfProject
from tidemill.spec.poison import DEFAULT_MOST

TRANSFORMED = PIPELINE.replace("sinks:", "transform: orders:transform\nsinks:")


def poison(document: str = TRANSFORMED, rest: str = "on_poison: quarantine") -> str:
    return f"{document.rstrip()}\n  {rest}\n"


def test_records_at_which_the_transform_fails_stop_the_pipeline_unless_it_says_otherwise(
    project: ConfProject,
) -> None:
    before = project.resolve()
    assert not before.spec.leaves_out_poison
    project.write("conf/pipelines/orders.yaml", poison())
    after = project.resolve()
    assert (after.spec.leaves_out_poison, after.spec.run.most_poison) == (True, DEFAULT_MOST)
    assert before.definition_digest != after.definition_digest


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        (poison(PIPELINE), "without a `transform`"),
        (poison(TRANSFORMED.replace("payload:\n  json: {schema: order.json}\n", "")), "without a payload"),
        (poison(TRANSFORMED.replace("10 minutes}", "10 minutes, late: table}")), "`late: table`"),
        (
            poison(
                TRANSFORMED.replace(
                    "kafka:\n    topic: orders",
                    "files: {path: landing/orders, format: json, schema: 'id string, at timestamp'}",
                ).replace("payload:\n  json: {schema: order.json}\n", "")
            ),
            "a files source",
        ),
        (poison(rest="max_poison_records: 3"), "`max_poison_records` goes with"),
        (poison(rest="on_poison: quarantine\n  max_poison_records: 101"), "max_poison_records"),
    ],
)
def test_it_is_refused_where_no_record_could_be_found(
    project: ConfProject, document: str, reason: str
) -> None:
    project.write("conf/pipelines/orders.yaml", document)
    assert reason in str(project.refusal())


@pytest.mark.parametrize(
    ("body", "call"),
    [
        ("return orders.groupBy('id').count()", "groupBy"),
        ("once = orders.where('paid').dropDuplicates(['id', 'at'])\n    return once", "dropDuplicates"),
        ("return orders.dropDuplicatesWithinWatermark(['id'])", "dropDuplicatesWithinWatermark"),
        ("return orders.select('id').distinct()", "distinct"),
        ("return orders.limit(5)", "limit"),
    ],
)
def test_a_transform_that_keeps_state_is_refused_before_anything_starts(
    project: ConfProject, body: str, call: str
) -> None:
    code = f"def transform(orders):\n    {body}\n"
    file = project.write("spark_apps/transforms/orders.py", code)
    project.write("conf/pipelines/orders.yaml", TRANSFORMED)
    assert project.resolve().spec.transform == "orders:transform"
    project.write("conf/pipelines/orders.yaml", poison())
    error = project.refusal()
    assert error.error_id == "TIDE-PLAN-032"
    assert error.facts == {"file": f"{file}:2", "function": "transform", "call": call}


@pytest.mark.parametrize(
    "body",
    [
        "return orders.where('paid').withColumn('twice', orders.amount * 2)",
        # An aggregation of a table that is joined keeps no state.
        "return orders.join(shops.groupBy('id').count(), 'id')",
    ],
)
def test_a_transform_without_state_may_leave_records_out(project: ConfProject, body: str) -> None:
    stream = "{kafka: {topic: orders}, payload: {json: {schema: order.json}}}"
    shops = "{delta: {table: silver/shops}, as: table}"
    before, _, after = TRANSFORMED.partition("source:")
    sources = f"sources:\n  shops: {shops}\n  orders: {stream}\n"
    project.write("conf/pipelines/orders.yaml", poison(before + sources + after[after.index("transform:") :]))
    project.write("spark_apps/transforms/orders.py", f"def transform(shops, orders):\n    {body}\n")
    assert project.resolve().spec.leaves_out_poison


def test_several_streams_have_no_record_to_blame(project: ConfProject) -> None:
    stream = "{kafka: {topic: %s}, payload: {json: {schema: order.json}}}"
    sources = f"sources:\n  orders: {stream % 'orders'}\n  payments: {stream % 'payments'}\n"
    before, _, after = TRANSFORMED.partition("source:")
    document = f"{before}{sources}{after[after.index('transform:') :]}"
    project.write("conf/pipelines/orders.yaml", poison(document))
    assert "several streams" in str(project.refusal())
