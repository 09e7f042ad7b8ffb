"""Freshness in the graph, computed from one look at each pipeline."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.seen_pipelines import ENDED, NOW, STOPPED, ago, receipt, seen

if TYPE_CHECKING:
    from tidemill_airflow.plugin.graph_answers import Graph
    from tidemill_airflow.plugin.overview import Seen

FRESH = {"progressed_at": ago(seconds=5), "batch_id": 7, "batch_committed_at": ago(minutes=3)}
SILVER = {"source": {"delta": {"table": "bronze/orders"}}, "sinks": [{"delta": {"table": "silver/orders"}}]}
GOLD = {"source": {"delta": {"table": "silver/orders"}}, "sinks": [{"delta": {"table": "gold/orders"}}]}
HOURLY = {"mode": "incremental", "schedule": "@hourly"}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set AIRFLOW_HOME, because Airflow creates this folder at its import."""
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "airflow"))


def graph(*pipelines: Seen) -> Graph:
    from tidemill_airflow.plugin.graph import graph_of

    return graph_of({each.name: each for each in pipelines})


def stale(found: Graph) -> dict[str, str]:
    """Return the pipeline that makes each stale node stale."""
    return {node.id: node.stale.pipeline for node in found.nodes if node.stale is not None}


def whys(found: Graph) -> set[str]:
    return {node.stale.why for node in found.nodes if node.stale is not None}


def times(found: Graph) -> dict[tuple[str, str], datetime | None]:
    return {(edge.source, edge.target): edge.at for edge in found.edges}


def silver(run: dict[str, Any] | None = None, **facts: Any) -> Seen:
    """Return a pipeline from bronze to silver."""
    return seen("tidy", run={} if run is None else run, **SILVER, **facts)


def test_each_link_has_the_time_of_its_own() -> None:
    found = times(graph(seen(said=FRESH), seen("idle", said={**FRESH, "batch_committed_at": None}, **GOLD)))
    assert found == {
        ("topic orders", "pipeline orders"): FRESH["progressed_at"],
        ("pipeline orders", "table bronze/orders"): FRESH["batch_committed_at"],
        ("table silver/orders", "pipeline idle"): FRESH["progressed_at"],
        # The driver runs again and has had nothing to commit since.
        ("pipeline idle", "table gold/orders"): None,
    }


@pytest.mark.parametrize("said", [None, {**ENDED, "progressed_at": ago(days=3)}])
def test_a_stream_that_was_stopped_on_purpose_is_not_stale(said: dict[str, Any] | None) -> None:
    assert stale(graph(seen(said=said, desired=STOPPED))) == {}


def test_a_stream_that_should_run_and_has_not_is_stale_with_all_that_is_made_of_it() -> None:
    found = graph(seen(), silver(said=FRESH), seen("sums", said=FRESH, **GOLD), seen("apart", said=FRESH))
    assert whys(found) == {"it has made no progress yet"}
    # The table has a second writer, whose own link is fresh.
    assert stale(found) == dict.fromkeys(
        (
            "pipeline orders",
            "table bronze/orders",
            "pipeline tidy",
            "table silver/orders",
            "pipeline sums",
            "table gold/orders",
        ),
        "orders",
    )
    links = {(edge.source, edge.target): edge.stale and edge.stale.pipeline for edge in found.edges}
    assert links == {
        ("topic orders", "pipeline orders"): "orders",
        ("pipeline orders", "table bronze/orders"): "orders",
        ("topic orders", "pipeline apart"): None,
        ("pipeline apart", "table bronze/orders"): None,
        ("table bronze/orders", "pipeline tidy"): "orders",
        ("pipeline tidy", "table silver/orders"): "orders",
        ("table silver/orders", "pipeline sums"): "orders",
        ("pipeline sums", "table gold/orders"): "orders",
    }


def test_a_stream_is_stale_by_its_own_time_and_only_then() -> None:
    assert stale(graph(seen(said={**FRESH, "progressed_at": ago(minutes=9)}))) == {}
    late = graph(seen(said={"progressed_at": ago(minutes=11), "batch_committed_at": ago(minutes=30)}))
    assert set(stale(late)) == {"pipeline orders", "table bronze/orders"}
    (why,) = whys(late)
    assert why.startswith("no progress for 11 minutes")


def test_a_pipeline_in_the_middle_is_its_own_trouble_and_what_it_reads_stays_fresh() -> None:
    found = graph(
        seen(said=FRESH),
        silver(said={**ENDED, "progressed_at": ago(hours=2)}),
        seen("sums", said=FRESH, **GOLD),
    )
    assert stale(found) == dict.fromkeys(
        ("pipeline tidy", "table silver/orders", "pipeline sums", "table gold/orders"), "tidy"
    )
    assert whys(found) == {"no progress for 2.0 h"}


@pytest.mark.parametrize(
    ("run", "read_at", "is_late"),
    [
        # It is noon, and it last read at 10:30 or 9:30; without a deadline a run has until the next one.
        (HOURLY, ago(hours=1, minutes=30), False),
        (HOURLY, ago(hours=2, minutes=30), True),
        ({**HOURLY, "deadline": "90 minutes"}, ago(hours=1, minutes=30), False),
        ({**HOURLY, "deadline": "30 minutes"}, ago(hours=1, minutes=30), True),
        # On working days at 9: it is Wednesday noon.
        ({**HOURLY, "schedule": "0 9 * * 1-5"}, ago(days=1), False),
        ({**HOURLY, "schedule": "0 9 * * 1-5"}, ago(days=2), True),
        # No schedule defines when it should run.
        ({"mode": "incremental"}, ago(days=20), False),
        ({"mode": "incremental", "deadline": "1 minute"}, ago(days=20), False),
    ],
)
def test_an_incremental_pipeline_is_stale_if_its_next_run_is_overdue(
    run: dict[str, Any], read_at: datetime, is_late: bool
) -> None:
    found = graph(seen(said=FRESH), silver(run, said={**ENDED, "batch_committed_at": read_at}))
    assert stale(found) == (
        dict.fromkeys(("pipeline tidy", "table silver/orders"), "tidy") if is_late else {}
    )
    assert all(why.endswith("ago, and orders committed since") for why in whys(found))


def test_an_incremental_pipeline_without_anything_new_to_read_is_fresh() -> None:
    quiet = {**FRESH, "batch_committed_at": ago(days=4)}
    assert (
        stale(graph(seen(said=quiet), silver(HOURLY, said={**ENDED, "batch_committed_at": ago(days=3)})))
        == {}
    )


def test_a_run_that_found_nothing_new_has_read_and_one_that_was_stopped_early_has_not() -> None:
    said = {**ENDED, "progressed_at": ago(days=3)}
    found_nothing = silver(HOURLY, said=said, receipt=receipt("tidy", ago(minutes=40)))
    assert stale(graph(seen(said=FRESH), found_nothing)) == {}
    cut_short = silver(HOURLY, said=said, receipt=receipt("tidy", ago(minutes=40), stopped_early=True))
    assert set(stale(graph(seen(said=FRESH), cut_short))) == {"pipeline tidy", "table silver/orders"}


def test_an_incremental_pipeline_that_has_failed_is_stale_whatever_its_schedule() -> None:
    failed = {
        "state": "failed",
        "batch_committed_at": NOW,
        "error": {"id": "TIDE-X-001", "problem": "No disk."},
    }
    found = graph(seen(said=FRESH), silver({"mode": "incremental"}, said=failed))
    assert (set(stale(found)), whys(found)) == (
        {"pipeline tidy", "table silver/orders"},
        {"TIDE-X-001 No disk."},
    )
