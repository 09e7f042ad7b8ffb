"""What Airflow says of its components."""

from __future__ import annotations

from datetime import UTC, datetime

from tidemill.observe.airflow_health import ComponentHealth, components_of

BEAT = "2026-11-22T12:00:00+00:00"


def test_components_are_told_with_their_heartbeats_and_missing_ones_left_out() -> None:
    answer = {
        "metadatabase": {"status": "healthy"},
        "scheduler": {"status": "unhealthy", "latest_scheduler_heartbeat": BEAT},
        "triggerer": {"status": None, "latest_triggerer_heartbeat": None},
        "dag_processor": None,
    }
    assert components_of(answer) == [
        ComponentHealth("scheduler", False, datetime(2026, 11, 22, 12, tzinfo=UTC)),
        ComponentHealth("metadatabase", True),
    ]
