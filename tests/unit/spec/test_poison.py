"""What `on_poison` may say."""

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


def test_several_streams_have_no_record_to_blame(project: ConfProject) -> None:
    stream = "{kafka: {topic: %s}, payload: {json: {schema: order.json}}}"
    sources = f"sources:\n  orders: {stream % 'orders'}\n  payments: {stream % 'payments'}\n"
    before, _, after = TRANSFORMED.partition("source:")
    document = f"{before}{sources}{after[after.index('transform:') :]}"
    project.write("conf/pipelines/orders.yaml", poison(document))
    assert "several streams" in str(project.refusal())
