from __future__ import annotations

from collections.abc import ItemsView

import pytest

from tidemill.errors import SpecError
from tidemill.spec.pipeline import PipelineSpec
from tidemill.spec.table_graph import Links, TableGraph, build_graph


def pipeline(source: dict[str, object], *tables: str, mode: str = "append", topic: str = "") -> PipelineSpec:
    sinks: list[object] = [{"delta": {"table": table, "mode": mode}} for table in tables]
    if topic:
        sinks.append({"kafka": {"topic": topic}})
    return PipelineSpec.model_validate({"description": "x", "owner": "x", "source": source, "sinks": sinks})


def kafka(topic: str) -> dict[str, object]:
    return {"kafka": {"topic": topic}}


def delta(table: str) -> dict[str, object]:
    return {"delta": {"table": table}}


def test_each_pipeline_comes_after_what_it_reads() -> None:
    graph = build_graph(
        {
            "a_gold": pipeline(delta("silver/s"), "gold/g"),
            "b_silver": pipeline(delta("bronze/b"), "silver/s"),
            "c_bronze": pipeline(kafka("in"), "bronze/b", topic="out"),
            "d_alerts": pipeline(kafka("out"), "bronze/alerts"),
        }
    )
    assert graph.order() == ["c_bronze", "b_silver", "d_alerts", "a_gold"]
    assert graph.roots() == ["topic in"]
    assert graph.upstream("d_alerts") == ["c_bronze"]
    assert graph.readers("table bronze/b") == ["b_silver"]


def test_order_and_upstream_of_many_pipelines_look_at_all_of_them_a_few_times_only() -> None:
    looks = 0

    class Counted(dict[str, Links]):
        def items(self) -> ItemsView[str, Links]:
            nonlocal looks
            looks += 1
            return super().items()

    chain = Counted({f"p{n}": Links((f"table t{n}",), (f"table t{n + 1}",)) for n in range(100)})
    graph = TableGraph(chain)
    assert graph.order() == [f"p{n}" for n in range(100)]
    assert [graph.upstream(f"p{n}") for n in range(1, 100)] == [[f"p{n}"] for n in range(99)]
    assert looks <= 3


def test_a_circle_is_refused_and_drawn() -> None:
    graph = build_graph(
        {"one": pipeline(delta("bronze/a"), "bronze/b"), "two": pipeline(delta("bronze/b"), "bronze/a")}
    )
    with pytest.raises(SpecError) as caught:
        graph.order()
    assert caught.value.error_id == "TIDE-SPEC-027"
    assert caught.value.facts["circle"] in ("one -> two -> one", "two -> one -> two")


def test_a_table_that_one_replaces_has_no_other_writer() -> None:
    with pytest.raises(SpecError) as caught:
        build_graph(
            {
                "one": pipeline(kafka("a"), "gold/x", mode="replace"),
                "two": pipeline(kafka("b"), "gold/x"),
            }
        )
    assert caught.value.error_id == "TIDE-SPEC-032"
    assert caught.value.facts == {"table": "gold/x", "pipelines": "one, two"}


def test_several_pipelines_may_append_to_one_table() -> None:
    graph = build_graph({"one": pipeline(kafka("a"), "bronze/x"), "two": pipeline(kafka("b"), "bronze/x")})
    assert graph.order() == ["one", "two"]
