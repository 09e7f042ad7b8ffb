"""Incremental runs and backfills under a real Airflow."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.airflow_server import Airflow, status_of
from tests.support.eventually import eventually
from tidemill.errors import UnavailableError

RANGE = {"from": "2026-03-01T00:00:00Z", "to": "2026-03-02T00:00:00Z"}


def test_an_incremental_run_is_proven_and_tells_its_table_what_it_wrote(airflow: Airflow) -> None:
    run_id, state = airflow.run("incremental__daily")
    assert state == "success"
    (table,) = airflow.result("incremental__daily", run_id, "run")
    assert (table["table"], table["rows"], table["batch_ids"]) == ("bronze/daily", 3, [0])
    (asset,) = airflow.api.call("GET", "/assets?name_pattern=bronze/daily")["assets"]
    events = airflow.api.call("GET", f"/assets/events?asset_id={asset['id']}")["asset_events"]
    extra = {"pipeline": "daily", "table": "bronze/daily", "version": table["version"], "batch_ids": [0]}
    assert extra.items() <= events[-1]["extra"].items()


def test_a_cleared_task_finds_the_driver_that_is_at_work(airflow: Airflow) -> None:
    airflow.project.hold_back("slow")
    epoch_before = airflow.epoch("slow")
    run_id = airflow.begin("incremental__slow")
    airflow.until_task("incremental__slow", run_id, "run", "deferred")
    eventually(lambda: airflow.epoch("slow") == epoch_before + 1, "the driver is at work", 90)
    plane = airflow.project.plane()
    driver = plane.running("slow")
    assert driver is not None
    airflow.clear("incremental__slow", run_id)
    found = f"runs as {driver.process}"
    eventually(
        lambda: airflow.log_of("incremental__slow", "run").count(found) == 2, "the second try finds it", 60
    )
    assert plane.running("slow") == driver
    airflow.project.let_go("slow")
    assert airflow.end("incremental__slow", run_id) == "success"
    assert airflow.epoch("slow") == epoch_before + 1


def test_a_run_that_cannot_succeed_fails_at_once_with_the_drivers_words(airflow: Airflow) -> None:
    airflow.project.behave("failing", "exit 65")
    _, state = airflow.run("incremental__failing")
    assert state == "failed"
    assert "TIDE-TEST-001" in airflow.log_of("incremental__failing", "run")


def test_a_backfill_only_plans_unless_told_otherwise(airflow: Airflow) -> None:
    run_id, state = airflow.run("backfill", {"pipeline": "landing", **RANGE})
    assert state == "success"
    assert airflow.tasks("backfill", run_id) == {"plan": "success", "apply": "skipped"}
    plan = airflow.result("backfill", run_id, "plan")
    assert plan["range"] == "2026-03-01T00:00:00+00:00 to 2026-03-02T00:00:00+00:00"
    assert "replace_where" in airflow.log_of("backfill", "plan")
    assert not (airflow.project.folder / ".data" / "tables" / "bronze" / "landing").exists()


def test_an_applied_backfill_returns_rows_and_table_version(airflow: Airflow) -> None:
    run_id, state = airflow.run("backfill", {"pipeline": "landing", **RANGE, "dry_run": False})
    assert state == "success"
    (table,) = airflow.result("backfill", run_id, "apply")
    assert (table["table"], table["rows"], table["version"]) == ("bronze/landing", 3, 0)


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"pipeline": "daily"},
        {"pipeline": "../../etc"},
        {"pipeline": "landing", "from": "yesterday"},
        {"pipeline": "landing", "from": "2026-13-01T00:00:00Z"},
        {"pipeline": "landing", "from": "2026-03-01T00:00:00"},
        {"pipeline": "landing", "from": "{{ 7*7 }}"},
        {"pipeline": "landing", "from": '2026-03-01T00:00:00Z"; rm -rf /'},
        {"pipeline": "landing", "dry_run": "no"},
    ],
)
def test_the_form_of_a_backfill_refuses_what_it_does_not_know(
    airflow: Airflow, params: dict[str, Any]
) -> None:
    with pytest.raises(UnavailableError) as caught:
        airflow.begin("backfill", params)
    assert status_of(caught.value) == 400
