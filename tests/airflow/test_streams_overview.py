"""A pipeline's state in the overview, computed from one look at it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.support.seen_pipelines import ENDED, NOW, STOPPED, ago, ended, receipt, seen
from tidemill.checkpoint.holds import Hold
from tidemill.control.decide.reconcile import Decision
from tidemill.control.stream_status import PipelineState

KEPT = {"source_retention_seconds": 8 * 86400}
HOURLY = {"mode": "incremental", "schedule": "@hourly"}
WELL = {"progressed_at": NOW, "batch_id": 7, "batch_committed_at": NOW}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set AIRFLOW_HOME, because Airflow creates this folder at its import."""
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "airflow"))


def told(pipeline: Any) -> tuple[str, str, str]:
    """Health, reason and runbook."""
    from tidemill_airflow.place import Place
    from tidemill_airflow.plugin.overview import row_of

    row = row_of(pipeline, Place("project", "local"))
    return row.health, row.reason, row.runbook


def killed(pipeline: Any) -> Any:
    """Return the pipeline whose newest driver was killed for its memory."""
    return ended(pipeline, "killed", ago(minutes=20), termination="OOMKilled, exit 137")


@pytest.mark.parametrize(
    ("days", "health", "gone"),
    [(3.9, "good", ""), (4, "warn", " in 4 days"), (6.5, "bad", " in 36.0 h"), (9, "bad", "")],
)
def test_a_stream_that_runs_and_nears_data_loss_is_not_well(days: float, health: str, gone: str) -> None:
    found = told(seen(said={**WELL, **KEPT, "caught_up_at": ago(days=days)}))
    words = (
        f"unread records may be gone{gone}: it has not read all for {days:.0f} days, "
        "and its source keeps 8 days"
    )
    assert found == ((health, "", "") if health == "good" else (health, words, "retention-expired"))


def test_where_it_is_only_assumed_what_the_source_keeps_the_page_warns_at_most() -> None:
    from tidemill_airflow.place import Place
    from tidemill_airflow.plugin.overview import row_of

    stopped = seen(said={**ENDED, "progressed_at": ago(days=20)}, desired=STOPPED)
    row = row_of(stopped, Place("project", "local"))
    assert (row.health, row.loss_seconds, row.loss_level) == ("warn", 0.0, "warn")
    assert row.reason == (
        "stopped by ann: quiet\nunread records may be gone: it has made no progress for 20 days, "
        "and its source is assumed to keep 1 week"
    )
    hub = {"namespace": "n", "hub": "h", "auth": {"connection_string": "s"}, "retention": "1 day"}
    for kind in ("eventhubs", "iothub"):
        kept = seen(said={**ENDED, "progressed_at": ago(hours=23)}, source={kind: hub})
        assert "its source is assumed to keep 1 day" in told(kept)[1]
    table = {"source": {"delta": {"table": "bronze/clicks"}}}
    assert told(seen(said={**ENDED, "progressed_at": ago(days=20)}, desired=STOPPED, **table))[0] == "off"


def test_a_source_that_keeps_for_ever_loses_nothing() -> None:
    old = {**ENDED, "progressed_at": ago(days=20)}
    assert told(seen(said={**old, "source_keeps_for_ever": True}, desired=STOPPED))[0] == "off"
    # A document of an older driver does not say it.
    assert told(seen(said=old, desired=STOPPED))[0] == "warn"


@pytest.mark.parametrize(("days", "health"), [(3.9, "good"), (4, "warn"), (6, "bad"), (9, "bad")])
def test_of_a_stream_that_never_read_all_the_known_retention_counts_from_its_last_progress(
    days: float, health: str
) -> None:
    from tidemill_airflow.plugin.data_loss import data_loss_of

    pipeline = seen(said={**WELL, **KEPT, "progressed_at": ago(days=days)})
    loss = data_loss_of(pipeline.state.status, pipeline.spec, NOW)
    assert loss is not None
    assert (loss.keeps.days, loss.is_assumed) == (8, False)
    assert loss.basis == "since the last progress, as it has never read all, by what the source keeps"
    # Without its stall, which is red by itself.
    found = told(replace(pipeline, state=replace(pipeline.state, stall=None)))
    assert found[0] == health
    if days == 6:
        assert found[1:] == (
            "unread records may be gone in 2 days: it has made no progress for 6 days, "
            "and its source keeps 8 days",
            "retention-expired",
        )


def test_a_stream_stopped_on_purpose_is_red_before_its_unread_records_are_gone() -> None:
    said = {**ENDED, **KEPT, "progressed_at": ago(days=7), "caught_up_at": ago(days=7)}
    health, reason, runbook = told(seen(said=said, desired=STOPPED))
    assert (health, runbook) == ("bad", "retention-expired")
    assert reason.startswith("stopped by ann: quiet\nunread records may be gone in 24.0 h")


def test_a_held_stream_that_nears_data_loss_keeps_the_page_of_its_hold() -> None:
    from tidemill_airflow.plugin.overview import Seen

    stopped = seen(said={**ENDED, **KEPT, "caught_up_at": ago(days=7)}, desired=STOPPED)
    hold = Hold(id="audit-1", by="alice", why="counting the till")
    health, reason, runbook = told(Seen(stopped.state, stopped.spec, (hold,)))
    assert (health, reason.splitlines()[0], runbook) == ("bad", "counting the till (by alice)", "hold")
    assert "may be gone in 24.0 h" in reason


def test_a_hold_on_a_running_stream_is_yellow_with_its_reason_and_offers_no_restart() -> None:
    from tidemill_airflow.place import Place
    from tidemill_airflow.plugin.actions import actions_of
    from tidemill_airflow.plugin.overview import row_of

    place, hold = Place("project", "local"), Hold(id="audit-1", by="alice", why="counting the till")
    running = replace(seen(said=WELL), holds=(hold,))
    row = row_of(running, place)
    assert (row.state, row.holds[0].id) == ("running", "audit-1")
    words = "its next start is refused: counting the till (by alice)"
    assert told(running) == ("warn", words, "hold")
    labels = [action.label for action in actions_of(running, place, lambda _: True)]
    assert labels[:3] == ["Release hold audit-1", "Suspend", "Stop"]
    assert "Restart" not in labels
    # What is worse keeps its colour and its page.
    refused = PipelineState(running.state.facts, Decision("refused", "no", runbook="upgrade"), None)
    assert told(replace(running, state=refused)) == ("bad", f"no\n{words}", "upgrade")


def test_a_wanted_stream_that_does_not_run_is_not_well() -> None:
    assert told(seen()) == ("warn", "desired, and not running", "")
    assert told(seen(said={**ENDED, **WELL}))[0] == "warn"


@pytest.mark.parametrize("said", [None, {**ENDED, **WELL}])
def test_a_run_that_was_killed_is_red_though_no_status_says_so(said: dict[str, Any] | None) -> None:
    run = seen(run=HOURLY, said=said)
    assert told(killed(run)) == (
        "bad",
        "its last run ended before its time: killed without a receipt: OOMKilled, exit 137",
        "",
    )
    without_receipt = ended(run, "failed", ago(minutes=20), exit_code=1, termination="Error, exit 1")
    reason = "its last run ended before its time: Error, exit 1"
    assert told(without_receipt) == ("bad", reason, "")


def test_a_run_is_red_until_a_later_one_has_succeeded() -> None:
    def health(stopped_at: datetime, **how: bool) -> str:
        later = receipt("orders", stopped_at, **how)
        return told(killed(seen(run=HOURLY, said={**ENDED, **WELL}, receipt=later)))[0]

    assert health(ago(minutes=10)) == "good"
    assert health(ago(minutes=30)) == "bad"
    assert health(ago(minutes=10), stopped_early=True) == "bad"


@pytest.mark.parametrize(
    ("result", "exit_code", "error"),
    [("clean", 0, None), ("forced", 1, None), ("failed", 66, {"id": "TIDE-CKPT-029"}), ("failed", 75, None)],
    ids=["clean", "stopped", "held", "fenced off by a newer one"],
)
def test_a_run_that_was_stopped_held_or_fenced_off_is_not_red(
    result: str, exit_code: int, error: Any
) -> None:
    run = seen(run=HOURLY, said={**ENDED, **WELL})
    assert told(ended(run, result, NOW, exit_code=exit_code, error=error)) == ("good", "", "")


def test_the_end_of_a_stream_says_nothing_of_the_incremental_pipeline_that_it_has_become() -> None:
    pipeline = killed(seen(run=HOURLY, said={**ENDED, **WELL}))
    facts = pipeline.state.facts
    assert facts.ended is not None
    of_stream = replace(facts, ended=replace(facts.ended, mode="stream"))
    assert told(replace(pipeline, state=replace(pipeline.state, facts=of_stream)))[0] == "good"


def test_a_run_that_is_overdue_is_yellow_whatever_it_reads() -> None:
    # It is noon: read at 10:30, the run of 11:00 has time until that of 12:00.
    in_time, late = ({**ENDED, "progressed_at": ago(hours=hours)} for hours in (1.5, 2.5))
    reason = "its run is overdue: it last read 2.5 h ago, and should have again by 2026-03-04 11:00 UTC"
    assert told(seen(run=HOURLY, said=in_time)) == ("good", "", "")
    assert told(seen(run=HOURLY, said=late)) == ("warn", reason, "")
    assert told(seen(run={**HOURLY, "deadline": "10 minutes"}, said=in_time))[0] == "warn"
    # A run is not overdue if it was stopped, is by hand, or has no schedule. A run that found no data has
    # read.
    assert told(seen(run=HOURLY, said=late, desired=STOPPED))[0] == "good"
    run = seen(run=HOURLY, said=late)
    by_hand = replace(run.state, facts=replace(run.state.facts, by_hand=True))
    assert told(replace(run, state=by_hand))[0] == "good"
    assert told(seen(run={"mode": "incremental"}, said=late))[0] == "good"
    assert told(seen(run=HOURLY, said=late, receipt=receipt("orders", ago(minutes=40))))[0] == "good"
    found_nothing = ended(seen(run=HOURLY, said=late), "clean", ago(minutes=40), exit_code=0)
    assert told(found_nothing)[0] == "good"
    assert told(killed(seen(run=HOURLY, said=late)))[0] == "bad"


def test_lag_and_rate_are_those_of_the_driver_that_runs() -> None:
    from tidemill_airflow.place import Place
    from tidemill_airflow.plugin.overview import row_of

    def shown(pipeline: Any) -> tuple[Any, ...]:
        row = row_of(replace(pipeline, rates=(1.5,), lags=(40,)), Place("project", "local"))
        return row.lag, row.lags, row.rate

    said, nothing = {**WELL, "lag": 70}, (None, (), ())
    assert shown(seen(said=said)) == (70, (40,), (1.5,))
    # Stopped, killed, and not yet heard of since its start.
    assert shown(seen(said={**ENDED, **said}, desired=STOPPED)) == nothing
    assert shown(seen(said={**ENDED, **said})) == nothing
    assert shown(seen(said={**said, "run_id": "r0"})) == nothing
    assert shown(seen(run=HOURLY, said={**ENDED, **said})) == (70, (40,), (1.5,))


def test_a_stopped_stream_is_not_slow() -> None:
    slow, run = {**WELL, "batch_milliseconds": 60_000}, {"trigger": "10 seconds"}
    assert told(seen(run=run, said=slow)) == ("warn", "a batch takes longer than its trigger", "")
    assert told(seen(run=run, said={**slow, **ENDED}, desired=STOPPED)) == (
        "off",
        "stopped by ann: quiet",
        "",
    )


def test_a_stream_without_a_trigger_promises_no_pace_and_is_not_slow() -> None:
    assert told(seen(said={**WELL, "batch_milliseconds": 60_000}))[0] == "good"


@pytest.mark.parametrize(("mode", "rate"), [("stream", 10.0), ("incremental", 500.0)])
def test_rows_a_second_are_what_flows_and_of_a_run_what_it_worked_off(mode: str, rate: float) -> None:
    from tidemill_airflow.plugin.batch_history import point_of
    from tidemill_airflow.plugin.snapshot import with_recent

    # 100 rows each ten seconds, in batches of 0.2 s; of the first batch Spark knows no rate of what came in.
    batch = {"timestamp": "2026-03-04T12:00:00Z", "batchId": 1, "numInputRows": 100}
    rates = {"processedRowsPerSecond": 500.0, "inputRowsPerSecond": 10.0}
    point = point_of({**batch, **rates}, {})
    first = point_of({**batch, "processedRowsPerSecond": 500.0}, {})
    assert point is not None
    assert first is not None
    assert with_recent(seen(said=WELL, run={"mode": mode}), (point,)).rates == (rate,)
    assert with_recent(seen(said=WELL, run={"mode": mode}), (first,)).rates == (
        () if mode == "stream" else (500.0,)
    )


@pytest.mark.parametrize(
    ("behind", "reason"),
    [
        (
            (1000, 1200, 1300, 2000, 3000, 4500),
            "falls behind: its slowest partition was 1,000 records behind, and is 4,500 by now",
        ),
        # Up and down; few records; too few batches; less and less.
        ((1000, 3000, 1300, 2000, 1200, 4500), ""),
        ((100, 120, 130, 200, 300, 450), ""),
        ((1000, 4500), ""),
        ((4500, 3000, 2000, 1300, 1200, 1000), ""),
    ],
)
def test_a_stream_whose_lag_grows_falls_behind(behind: Sequence[int], reason: str) -> None:
    assert told(seen(said=WELL, behind=behind)) == (
        ("warn", reason, "tuning") if reason else ("good", "", "")
    )


def test_batches_of_an_earlier_driver_say_nothing_of_this_one() -> None:
    behind = (1000, 1200, 1300, 2000, 3000, 4500)
    assert told(seen(said={**WELL, "run_id": "r0"}, behind=behind))[0] == "good"
    assert told(seen(said={**WELL, **ENDED}, behind=behind, desired=STOPPED))[0] == "off"
