"""Runs of a chain of pipelines: which ones start, in which order, and the effect of a failure."""

from __future__ import annotations

import pytest

from tidemill.control.chain import Chain, Link, Outcome, chain_of
from tidemill.errors import SpecError
from tidemill.spec.pipeline import PipelineSpec


def pipeline(table: str, *reads: str, mode: str = "incremental") -> PipelineSpec:
    """Return a pipeline that writes a table and reads others, of which the first is its stream."""
    first, *joined = reads or ("bronze/landed",)
    sources = {"s0": {"delta": {"table": first}}}
    sources |= {f"s{n}": {"delta": {"table": t}, "as": "table"} for n, t in enumerate(joined, start=1)}
    document = {"sources": sources, "transform": "t:transform", "sinks": [{"delta": {"table": table}}]}
    return PipelineSpec.model_validate({"description": "x", "owner": "x", "run": {"mode": mode}, **document})


# Two branches from one source, which a join brings together; names are not in the order of the tables.
DIAMOND = {
    "e_report": pipeline("gold/report", "silver/left", "silver/right"),
    "d_left": pipeline("silver/left", "bronze/left"),
    "c_right": pipeline("silver/right", "bronze/right"),
    "b_left": pipeline("bronze/left"),
    "a_right": pipeline("bronze/right"),
}


def run(chain: Chain, **ends: Outcome) -> tuple[list[str], dict[str, str]]:
    """Return the started pipelines in order, and the reasons of those that do not finish."""
    started: list[str] = []

    def one(name: str) -> Link:
        started.append(name)
        return Link(name, ends.get(name, "finished"), "as the test wants")

    links = list(chain.links(one, lambda _: "runs"))
    assert [link.pipeline for link in links] == list(chain.order)
    return started, {link.pipeline: f"{link.outcome}: {link.told}" for link in links if not link.is_well}


def test_each_pipeline_runs_after_all_that_feed_it() -> None:
    order = ["a_right", "b_left", "c_right", "d_left", "e_report"]
    assert run(chain_of(DIAMOND)) == (order, {})


def test_a_chain_ends_with_the_pipeline_that_was_named() -> None:
    assert chain_of(DIAMOND, "d_left").order == ("b_left", "d_left")
    assert chain_of(DIAMOND, "e_report").order == chain_of(DIAMOND).order


def test_what_depends_on_a_failure_is_not_run_and_other_branches_go_on() -> None:
    started, told = run(chain_of(DIAMOND), b_left="failed")
    assert started == ["a_right", "b_left", "c_right"]
    assert told == {
        "b_left": "failed: as the test wants",
        "d_left": "not_run: it depends on b_left",
        "e_report": "not_run: it depends on b_left",
    }


def test_nothing_is_started_after_a_stop() -> None:
    started, told = run(chain_of(DIAMOND), b_left="stopped")
    assert started == ["a_right", "b_left"]
    assert told["c_right"] == "not_run: b_left was stopped"


def test_a_stream_is_left_alone_and_a_failure_before_it_reaches_what_comes_behind() -> None:
    chain = chain_of({**DIAMOND, "d_left": pipeline("silver/left", "bronze/left", mode="stream")})
    started, told = run(chain)
    assert started == ["a_right", "b_left", "c_right", "e_report"]
    assert told == {}
    links = {link.pipeline: link for link in chain.links(lambda n: Link(n, "finished", ""), lambda _: "runs")}
    assert (links["d_left"].outcome, links["d_left"].told) == ("left_alone", "a stream, which runs")
    assert run(chain, b_left="failed")[1]["e_report"] == "not_run: it depends on b_left"


def test_pipelines_in_a_circle_have_no_order() -> None:
    with pytest.raises(SpecError) as refused:
        chain_of({"a": pipeline("silver/a", "silver/b"), "b": pipeline("silver/b", "silver/a")}, "a")
    assert refused.value.error_id == "TIDE-SPEC-027"
