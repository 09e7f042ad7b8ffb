"""Inputs and outputs of a pipeline under OpenLineage's names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.declared import declared
from tidemill.lineage.datasets import Dataset, folder_dataset, inputs_of, outputs_of, topic_dataset


@pytest.mark.parametrize(
    ("location", "namespace", "name"),
    [
        ("/data/lake/tables/silver/orders", "file", "/data/lake/tables/silver/orders"),
        ("file:///landing/orders", "file", "/landing/orders"),
        ("s3a://mill/lake/tables/silver/orders", "s3://mill", "lake/tables/silver/orders"),
        ("abfs://c@a.dfs.core.windows.net/lake", "abfss://c@a.dfs.core.windows.net", "lake"),
        # A signature is no part of a name.
        ("abfss://c@a.dfs.core.windows.net/in?sig=c4n4ry", "abfss://c@a.dfs.core.windows.net", "in"),
    ],
)
def test_a_folder_has_the_name_that_other_tools_give_it(location: str, namespace: str, name: str) -> None:
    assert folder_dataset(location) == Dataset(namespace, name)


def test_a_topic_is_named_by_its_first_server() -> None:
    assert topic_dataset(" one:9092, two:9092", "orders") == Dataset("kafka://one:9092", "orders")


def pairs(datasets: list[Dataset]) -> list[tuple[str, str]]:
    return [(dataset.namespace, dataset.name) for dataset in datasets]


def test_what_is_read_and_written_is_found_in_the_declaration(tmp_path: Path) -> None:
    hub = {"namespace": "plant", "hub": "orders", "auth": {"connection_string": "hub"}}
    sinks: list[dict[str, Any]] = [
        {"delta": {"table": "silver/orders"}},
        {"kafka": {"topic": "alerts"}},
        {"files": {"path": "out/orders", "format": "json"}},
        {"postgres": {"connection": "crm", "table": "public.orders", "key": ["id"]}},
        {"console": {}},
    ]
    pipeline = declared(
        tmp_path,
        environment={"root": "s3://mill/lake", "catalog": "lake"},
        source=None,
        sources={"orders": {"eventhubs": hub}, "names": {"delta": {"table": "gold/names"}, "as": "table"}},
        transform="orders:transform",
        sinks=sinks,
    )
    assert pairs(inputs_of(pipeline)) == [
        ("kafka://plant.servicebus.windows.net:9093", "orders"),
        ("s3://mill", "lake/tables/gold/names"),
    ]
    assert pairs(outputs_of(pipeline)) == [
        ("s3://mill", "lake/tables/silver/orders"),
        ("kafka://localhost:1", "alerts"),
        ("s3://mill", "lake/out/orders"),
    ]
    assert [dataset.catalogued for dataset in outputs_of(pipeline)] == ["lake.silver.orders", None, None]
    assert inputs_of(pipeline)[1].catalogued == "lake.gold.names"


def test_topics_of_a_pattern_and_sources_of_nothing_are_not_named(tmp_path: Path) -> None:
    assert inputs_of(declared(tmp_path, source={"kafka": {"pattern": "orders-.*"}})) == []
    assert inputs_of(declared(tmp_path, source={"rate": {}})) == []
    files = {"path": "landing/orders", "format": "json", "schema": "id long"}
    assert pairs(inputs_of(declared(tmp_path, source={"files": files}))) == [
        ("file", str(tmp_path / "data/landing/orders"))
    ]
