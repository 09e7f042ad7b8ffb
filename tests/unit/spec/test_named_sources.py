"""Several sources: a stream and tables, by the names of the transform's parameters."""

from __future__ import annotations

import json

import pytest
import yaml
from pydantic import ValidationError

from tests.support.conf_project import ConfProject
from tidemill.cli.plan import plan_document
from tidemill.ledger.code import code_of
from tidemill.lineage.datasets import inputs_of
from tidemill.spec.pipeline import PipelineSpec
from tidemill.spec.table_graph import build_graph

JOINED = """
description: Orders with the names of their customers.
owner: tests
sources:
  orders:
    kafka: {topic: orders}
    payload:
      json: {schema: order.json}
    event_time: {column: at, watermark: 10 minutes}
  customers:
    delta: {table: silver/customers}
    as: table
transform: orders:transform
sinks:
  - delta: {table: bronze/orders}
"""
TRANSFORM = "def transform(customers, orders):\n    return orders\n"


@pytest.fixture
def joined(project: ConfProject) -> ConfProject:
    project.write("conf/pipelines/orders.yaml", JOINED)
    project.write("spark_apps/transforms/orders.py", TRANSFORM)
    return project


def test_what_belongs_to_the_stream_is_its_own(joined: ConfProject) -> None:
    spec = joined.resolve().spec
    assert (spec.parameter, spec.source.topics_or_pattern) == ("orders", ["orders"])
    assert spec.payload is not None
    assert spec.payload.chosen.schema_ == "order.json"
    assert spec.event_time is not None
    assert spec.event_time.column == "at"
    assert spec.tables == {"customers": "silver/customers"}
    assert spec.rejects_records


def test_a_pipeline_reads_the_tables_that_it_joins(joined: ConfProject) -> None:
    pipeline = joined.resolve()
    assert build_graph({"orders": pipeline.spec}).links["orders"].reads == (
        "topic orders",
        "table silver/customers",
    )
    plan = plan_document(pipeline)
    assert plan["joined_tables"] == {"customers": pipeline.layout.table("silver/customers")}
    assert json.dumps(plan)


def test_another_table_is_other_code(joined: ConfProject) -> None:
    before = code_of(joined.resolve())
    joined.write("conf/pipelines/orders.yaml", JOINED.replace("silver/customers", "silver/clients"))
    after = code_of(joined.resolve())
    assert (before.digest, before.rules != after.rules) == (after.digest, True)


@pytest.mark.parametrize(
    ("old", "new", "key", "says"),
    [
        ("    kafka: {topic: orders}", "    delta: {table: gold/b}\n    as: table", "sources.orders", "late"),
        ("customers}", "customers, starting_version: 1}", "sources.customers", "starting_version"),
        ("silver/customers}", "silver/customers, changes: skip}", "sources.customers", "changes"),
        ("    as: table", "    as: view", "sources.customers.as", "stream"),
        ("    as: table", "    as: table\n    rate: {}", "sources.customers", "exactly one of"),
        ("  customers:", "  Customers:", "sources", "Customers"),
        ("  customers:", "  lambda:", "sources", "Python"),
        ("sinks:", "source: {rate: {}}\nsinks:", "", "exactly one of source, sources; found both"),
        ("sinks:", "payload: {json: {schema: order.json}}\nsinks:", "", "sources.orders.payload"),
        ("transform: orders:transform\n", "", "", "need a `transform`"),
        ("bronze/orders", "silver/customers", "", "read what it writes: table silver/customers"),
    ],
)
def test_what_does_not_fit_is_refused(joined: ConfProject, old: str, new: str, key: str, says: str) -> None:
    assert old in JOINED
    joined.write("conf/pipelines/orders.yaml", JOINED.replace(old, new))
    error = joined.refusal()
    assert error.error_id == "TIDE-SPEC-003"
    assert str(error.facts.get("key", "")).startswith(key)
    assert says in error.problem


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ("orders", "its parameters orders"),
        ("orders, clients", "its parameters orders, clients"),
        ("orders, customers, more", "its parameters orders, customers, more"),
        ("orders, customers, /", "its parameters"),
        ("orders, **customers", "its parameters orders, customers"),
    ],
)
def test_the_parameters_are_the_names(joined: ConfProject, parameters: str, says: str) -> None:
    joined.write("spark_apps/transforms/orders.py", f"def transform({parameters}): ...\n")
    error = joined.refusal()
    assert error.error_id == "TIDE-SPEC-019"
    assert says in error.problem
    assert "(orders: DataFrame, customers: DataFrame)" in error.fix


@pytest.mark.parametrize("parameters", ["customers, orders", "*, customers, orders"])
@pytest.mark.parametrize(
    "wrong",
    [
        "orders.collect()",
        # It would be kept as it was at the start, for as long as the query runs.
        "customers.collect()",
        "customers.where('known').cache()",
        "customers.persist()",
        "customers.select('id').toPandas()",
    ],
)
def test_an_action_on_any_source_is_refused(joined: ConfProject, parameters: str, wrong: str) -> None:
    code = f"def transform({parameters}):\n    known = {wrong}\n    return orders\n"
    joined.write("spark_apps/transforms/orders.py", code)
    error = joined.refusal()
    call = wrong.rpartition(".")[2].removesuffix("()")
    assert (error.error_id, error.facts["call"]) == ("TIDE-PLAN-001", call)
    assert str(error.facts["file"]).endswith("orders.py:2")


@pytest.mark.parametrize("parameters", ["customers, orders", "*, customers, orders"])
def test_a_stream_is_not_counted_while_a_joined_table_may_be(joined: ConfProject, parameters: str) -> None:
    code = f"def transform({parameters}):\n    size = NAME.where('known').count()\n    return orders\n"
    joined.write("spark_apps/transforms/orders.py", code.replace("NAME", "orders"))
    error = joined.refusal()
    assert (error.error_id, error.facts["call"]) == ("TIDE-PLAN-001", "count")
    joined.write("spark_apps/transforms/orders.py", code.replace("NAME", "customers"))
    assert joined.resolve().spec.transform == "orders:transform"


HUB = "eventhubs: {namespace: plant-north, hub: readings, auth: {connection_string: hub}}"


@pytest.mark.parametrize(
    ("one", "other", "topic"),
    [
        ("kafka: {topic: orders}", "kafka: {topics: [payments, orders]}", "orders"),
        ("kafka: {topic: orders}", "kafka: {pattern: 'ord.*'}", "orders"),
        ("kafka: {pattern: 'ord.*'}", "kafka: {topic: orders}", "orders"),
        (r"kafka: {pattern: '[o-r]*d\w*(s)*'}", "kafka: {topic: orders}", "orders"),
        ("kafka: {topic: orders}", "kafka: {pattern: 'ord'}", ""),
        (HUB, HUB, "readings"),
        (HUB, HUB.replace("north", "south"), ""),
        (HUB, "kafka: {pattern: '.*'}", ""),
    ],
)
def test_no_two_streams_read_the_same_topic(one: str, other: str, topic: str) -> None:
    document = {
        "description": "A test.",
        "owner": "tests",
        "sources": {"one": yaml.safe_load(one), "other": yaml.safe_load(other)},
        "transform": "orders:transform",
        "sinks": [{"delta": {"table": "bronze/orders"}}],
    }
    if not topic:
        assert list(PipelineSpec.model_validate(document).streams) == ["one", "other"]
        return
    with pytest.raises(ValidationError, match=f"read the same topic, {topic}"):
        PipelineSpec.model_validate(document)


FILES = "path: landing/customers, format: csv, schema: 'id long, name string'"


@pytest.fixture
def with_files(joined: ConfProject) -> ConfProject:
    joined.write(
        "conf/pipelines/orders.yaml",
        JOINED.replace("delta: {table: silver/customers}", f"files: {{{FILES}}}"),
    )
    return joined


def test_a_pipeline_reads_the_folders_that_it_joins(with_files: ConfProject) -> None:
    pipeline = with_files.resolve()
    assert (pipeline.spec.tables, pipeline.spec.joined) == ({}, ["customers"])
    part = pipeline.joined_files["customers"].spec
    # A bad record has no place to go to.
    assert (part.source.chosen.path, part.file_format, part.stops_at_invalid) == (
        "landing/customers",
        "csv",
        True,
    )
    assert build_graph({"orders": pipeline.spec}).links["orders"].reads == (
        "topic orders",
        "files landing/customers",
    )
    assert plan_document(pipeline)["joined_files"] == {
        "customers": pipeline.layout.folder("landing/customers")
    }
    assert [dataset.name for dataset in inputs_of(pipeline)][1:] == [
        pipeline.layout.folder("landing/customers")
    ]


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (FILES, f"{FILES}, order: newest", "order"),
        (FILES, f"{FILES}, order: oldest", "order"),
        (FILES, f"{FILES}, after: archive", "after"),
        (FILES, f"{FILES}, max_files_per_batch: 1", "max_files_per_batch"),
        (FILES, f"{FILES}, on_invalid: quarantine", "stops the pipeline"),
        (FILES, "path: landing/customers, format: csv", "schema"),
        (FILES, "path: landing/customers, format: csv, schema_evolution: rescue", "schema_evolution"),
        ("    as: table", "    as: table\n    event_time: {column: at, watermark: 1 hour}", "event_time"),
        (FILES, "path: landing/customers", "needs `format`"),
        (f"files: {{{FILES}}}", "kafka: {topic: customers}", "only a Delta table and files"),
        (
            "    as: table",
            "    as: table\n    payload: {json: {schema: order.json, on_invalid: quarantine}}",
            "stops the pipeline",
        ),
    ],
)
def test_a_joined_folder_has_nothing_of_a_stream(
    with_files: ConfProject, old: str, new: str, says: str
) -> None:
    text = JOINED.replace("delta: {table: silver/customers}", f"files: {{{FILES}}}")
    assert old in text
    with_files.write("conf/pipelines/orders.yaml", text.replace(old, new))
    assert says in str(with_files.refusal())


def test_a_joined_folder_is_read_by_nobody_who_takes_files_away(with_files: ConfProject) -> None:
    export = JOINED.replace("delta: {table: silver/customers}", f"files: {{{FILES}}}").replace(
        "  - delta: {table: bronze/orders}", "  - files: {path: landing/customers/out, format: json}"
    )
    with_files.write("conf/pipelines/orders.yaml", export)
    assert with_files.refusal().error_id == "TIDE-SPEC-048"
