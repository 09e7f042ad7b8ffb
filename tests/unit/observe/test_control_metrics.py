"""The control plane's metrics, of what a reconciliation and drivers have left on storage."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.support.scraped import scraped
from tidemill.checkpoint.status import Status
from tidemill.control.decide.reconcile_record import ReconcileRecord, StreamRecord
from tidemill.metrics import exposition
from tidemill.observe.control_metrics import control_samples, local_driver_samples, without_removed
from tidemill.observe.snapshot import PipelineSeen, Snapshot

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def status(pipeline: str = "orders", **said: Any) -> Status:
    return Status(
        pipeline=pipeline,
        mode="stream",
        run_id="r",
        started_at=NOW - HOUR,
        **{"state": "running", "updated_at": NOW, **said},
    )


def told(*pipelines: PipelineSeen, **streams: StreamRecord) -> dict[tuple[str, ...], float]:
    record = ReconcileRecord(began_at=NOW - HOUR, ended_at=NOW - HOUR + timedelta(seconds=2), streams=streams)
    return scraped(exposition(control_samples(Snapshot(NOW, NOW + timedelta(seconds=3), pipelines, record))))


def test_the_newest_reconciliation_is_told_with_its_age_and_decisions() -> None:
    wanted = StreamRecord(action="leave", wanted=True, running=True, crashes=2, budget=6)
    held = StreamRecord(action="hold", wanted=True, stalled=True, crashes=7, budget=6)
    values = told(orders=wanted, returns=held)
    assert values["tidemill_reconcile_timestamp_seconds",] == (NOW - HOUR).timestamp() + 2
    assert values["tidemill_reconcile_duration_seconds",] == 2
    assert values["tidemill_snapshot_duration_seconds",] == 3
    assert [values["tidemill_reconcile_decisions", action] for action in ("leave", "hold")] == [1, 1]
    assert values["tidemill_stream_decision", "returns", "hold"] == 1
    assert [values["tidemill_restart_budget_left", name] for name in ("orders", "returns")] == [4, 0]
    assert [values["tidemill_restarts", name] for name in ("orders", "returns")] == [2, 7]
    assert [values["tidemill_stream_running", name] for name in ("orders", "returns")] == [1, 0]
    assert [values["tidemill_stream_stalled", name] for name in ("orders", "returns")] == [0, 1]


def test_a_stream_that_could_not_be_looked_at_is_not_called_down() -> None:
    values = told(orders=StreamRecord(action="unseen"))
    assert values["tidemill_stream_decision", "orders", "unseen"] == 1
    assert not {key for key in values if key[0] in ("tidemill_stream_running", "tidemill_stream_wanted")}


def test_time_to_data_loss_runs_also_while_the_pipeline_is_stopped() -> None:
    stopped = status(state="stopped", caught_up_at=NOW - 5 * HOUR, source_retention_seconds=6 * 3600)
    values = told(PipelineSeen("orders", stopped))
    assert values["tidemill_time_to_data_loss_seconds", "orders"] == 3600 - 3
    assert values["tidemill_source_retention_seconds", "orders"] == 6 * 3600


@pytest.mark.parametrize(
    ("hours", "level"), [(0, "ok"), (2.9, "ok"), (3, "warn"), (4.4, "warn"), (4.5, "urgent"), (7, "urgent")]
)
def test_how_urgent_it_is_goes_by_what_the_source_keeps(hours: float, level: str) -> None:
    seen = status(caught_up_at=NOW - hours * HOUR, source_retention_seconds=6 * 3600)
    values = told(PipelineSeen("orders", seen))
    levels = {key: value for key, value in values.items() if key[0] == "tidemill_data_loss_level"}
    assert levels == {("tidemill_data_loss_level", "orders", level): 1}


@pytest.mark.parametrize("known", [{"caught_up_at": NOW}, {"source_retention_seconds": 3600.0}])
def test_time_to_data_loss_is_not_guessed(known: dict[str, Any]) -> None:
    values = told(PipelineSeen("orders", status(**known)))
    assert ("tidemill_time_to_data_loss_seconds", "orders") not in values


def test_time_to_data_loss_of_a_pipeline_that_never_read_all_runs_from_its_last_progress() -> None:
    seen = status(progressed_at=NOW - 5 * HOUR, source_retention_seconds=6 * 3600)
    values = told(PipelineSeen("orders", seen))
    assert values["tidemill_time_to_data_loss_seconds", "orders"] == 3600 - 3
    assert values["tidemill_data_loss_level", "orders", "urgent"] == 1


def test_holds_and_drivers_are_counted_and_what_is_unreadable_is_said() -> None:
    values = told(
        PipelineSeen("orders", status(), holds=2),
        PipelineSeen("returns", status("returns", state="stopped")),
        PipelineSeen("damaged", readable=False),
        PipelineSeen("new"),
    )
    assert {key[1]: value for key, value in values.items() if key[0] == "tidemill_holds"} == {
        "orders": 2,
        "returns": 0,
        "new": 0,
    }
    assert values["tidemill_unreadable_pipelines",] == 1
    assert {key[1]: value for key, value in values.items() if key[0] == "tidemill_drivers"} == {
        "running": 1,
        "stopped": 1,
    }


def test_drivers_without_ports_are_told_as_long_as_they_may_live() -> None:
    pipelines = (
        PipelineSeen("orders", status(rows=7)),
        PipelineSeen("drained", status("drained", state="stopped")),
        PipelineSeen("killed", status("killed", updated_at=NOW - HOUR)),
        PipelineSeen("daily", status("daily", updated_at=NOW - HOUR, trigger_seconds=86_400.0)),
        PipelineSeen("new"),
    )
    values = scraped(exposition(local_driver_samples(Snapshot(NOW, NOW, pipelines))))
    assert {key[1] for key in values} == {"orders", "daily"}
    assert values["tidemill_rows_total", "orders", "stream"] == 7


def test_a_pipeline_that_was_removed_is_told_of_while_a_driver_of_it_lives() -> None:
    pipelines = (
        PipelineSeen("orders", status(state="stopped")),
        PipelineSeen("new"),
        PipelineSeen("drains", status("drains")),
        PipelineSeen("damaged", readable=False),
        PipelineSeen("removed", status("removed", state="stopped")),
        PipelineSeen("killed", status("killed", updated_at=NOW - HOUR)),
        PipelineSeen("never_ran"),
    )
    kept = without_removed(Snapshot(NOW, NOW, pipelines), {"orders", "new"})
    assert [seen.pipeline for seen in kept.pipelines] == ["orders", "new", "drains", "damaged"]
