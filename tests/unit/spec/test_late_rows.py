"""Valid values of `late`."""

from __future__ import annotations

import pytest

from tests.support.conf_project import PIPELINE, ConfProject
from tidemill.names import LATE_OUTPUT, QUARANTINE_OUTPUT


def keeping_late(sink: str = "delta: {table: bronze/orders}") -> str:
    declared = PIPELINE.replace("10 minutes}", "10 minutes, late: table}")
    return declared.replace("delta: {table: bronze/orders}", sink)


@pytest.mark.parametrize(
    ("sink", "named"),
    [
        ("delta: {table: gold/orders, mode: replace}", "gold/orders (replace)"),
        ("console: {mode: complete}", "console"),
    ],
)
def test_late_rows_have_a_table_only_where_rows_can_be_late(
    project: ConfProject, sink: str, named: str
) -> None:
    project.write("conf/pipelines/orders.yaml", keeping_late(sink))
    reason = str(project.refusal())
    assert "`late: table` does not go with" in reason
    assert named in reason


def test_the_table_of_late_rows_is_looked_at_when_it_is_not_declared_any_more(project: ConfProject) -> None:
    before = project.resolve()
    project.write("conf/pipelines/orders.yaml", keeping_late())
    after = project.resolve()
    assert (before.spec.keeps_late, after.spec.keeps_late) == (False, True)
    assert before.spec.asides == after.spec.asides == (QUARANTINE_OUTPUT, LATE_OUTPUT)
    # A batch that one of them has begun is not finished by the other.
    assert before.definition_digest != after.definition_digest


def test_streams_that_share_a_watermark_keep_no_late_rows(project: ConfProject) -> None:
    stream = "{kafka: {topic: %s}, payload: {json: {schema: order.json}}, event_time: {column: at, %s}}"
    orders = stream % ("orders", "watermark: 10 minutes, late: table")
    payments = stream % ("payments", "watermark: 10 minutes")
    before, _, after = PIPELINE.partition("source:")
    sources = f"sources:\n  orders: {orders}\n  payments: {payments}\ntransform: orders:transform\n"
    rest = after[after.index("sinks:") :]
    project.write("conf/pipelines/orders.yaml", f"{before}{sources}{rest}")
    assert "`late: table` is for one stream" in str(project.refusal())
