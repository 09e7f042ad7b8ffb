"""The arithmetic of every alert, by promtool: when it fires, with which words, and when it does not."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.prometheus import RULES, program

S = '{pipeline="orders",mode="stream"}'
OF_STREAM = {"pipeline": "orders", "mode": "stream"}
P = '{pipeline="orders"}'
OF_PIPELINE = {"pipeline": "orders"}
MINUTES = 90

Series = dict[str, str]


@dataclass(frozen=True)
class Case:
    """One alert: series, in promtool's words, with a value each minute from 0 on.

    Args:
        summary: Text of the alert when it fires.
        fires: Series with which it fires after `minutes`.
        quiet: Series with each of which it does not.
        labels: Labels of the alert.
        minutes: Minute at which the alert is checked.
        early: A minute at which it is true, but not for long enough.
    """

    summary: str
    fires: Series
    quiet: tuple[Series, ...]
    labels: dict[str, str]
    minutes: int = 20
    early: int | None = None


def always(value: float) -> str:
    return f"{value:g}x{MINUTES}"


NO_PROGRESS = {
    f"tidemill_last_progress_timestamp_seconds{S}": always(0),
    f"tidemill_progress_within_seconds{S}": always(600),
}
COMMIT = {
    f"tidemill_last_commit_timestamp_seconds{S}": always(0),
    f"tidemill_progress_within_seconds{S}": always(600),
}
VIOLATED = 'tidemill_expectation_violations_total{pipeline="orders",mode="stream",table="t",expectation="e"}'

CASES = {
    "TidemillStreamMakesNoProgress": Case(
        "Stream orders has neither committed a batch nor found its source empty for 20m 0s.",
        NO_PROGRESS,
        (
            {**NO_PROGRESS, f"tidemill_last_progress_timestamp_seconds{S}": f"0+60x{MINUTES}"},
            {**NO_PROGRESS, f"tidemill_progress_within_seconds{S}": always(7200)},
        ),
        OF_STREAM,
        early=14,
    ),
    "TidemillCommitTooOld": Case(
        "Records wait for stream orders, whose newest commit is 20m 0s old.",
        {**COMMIT, f"tidemill_lag_records{S}": always(5)},
        ({**COMMIT, f"tidemill_lag_records{S}": always(0)}, COMMIT),
        OF_STREAM,
        early=14,
    ),
    "TidemillLagGrows": Case(
        "Stream orders falls further behind its source, by 1 records a second.",
        {f"tidemill_lag_records{S}": f"0+60x{MINUTES}"},
        ({f"tidemill_lag_records{S}": always(500)}, {f"tidemill_lag_records{S}": f"9000-60x{MINUTES}"}),
        OF_STREAM,
        minutes=60,
        early=25,
    ),
    "TidemillBatchesSlowerThanTrigger": Case(
        "Batches of stream orders take 20s, longer than its trigger.",
        {
            f"tidemill_batch_duration_seconds{S}": always(20),
            f"tidemill_trigger_interval_seconds{S}": always(10),
        },
        (
            {
                f"tidemill_batch_duration_seconds{S}": always(20),
                f"tidemill_trigger_interval_seconds{S}": always(0),
            },
            {
                f"tidemill_batch_duration_seconds{S}": always(8),
                f"tidemill_trigger_interval_seconds{S}": always(10),
            },
        ),
        OF_STREAM,
        early=14,
    ),
    "TidemillRecordsQuarantined": Case(
        "More than 5% of the records of orders went to quarantine.",
        {
            f"tidemill_quarantined_rows_total{S}": f"0+10x{MINUTES}",
            f"tidemill_rows_total{S}": f"0+100x{MINUTES}",
        },
        (
            {
                f"tidemill_quarantined_rows_total{S}": f"0+4x{MINUTES}",
                f"tidemill_rows_total{S}": f"0+100x{MINUTES}",
            },
            {f"tidemill_quarantined_rows_total{S}": always(10), f"tidemill_rows_total{S}": always(100)},
        ),
        OF_STREAM,
        minutes=40,
        early=14,
    ),
    "TidemillExpectationsViolated": Case(
        "Rows of orders violate e of t.",
        {VIOLATED: f"0+1x{MINUTES}"},
        ({VIOLATED: always(7)},),
        {**OF_STREAM, "table": "t", "expectation": "e"},
        minutes=40,
        early=14,
    ),
    "TidemillStreamDown": Case(
        "Stream orders should run, and no driver of it does.",
        {f"tidemill_stream_wanted{P}": always(1), f"tidemill_stream_running{P}": always(0)},
        (
            {f"tidemill_stream_wanted{P}": always(0), f"tidemill_stream_running{P}": always(0)},
            {f"tidemill_stream_wanted{P}": always(1), f"tidemill_stream_running{P}": always(1)},
            # A restart of three minutes.
            {f"tidemill_stream_wanted{P}": always(1), f"tidemill_stream_running{P}": "1x10 0x2 1x80"},
        ),
        OF_PIPELINE,
        early=4,
    ),
    "TidemillStreamHeld": Case(
        "Stream orders is not restarted any more; it crashed too often.",
        {'tidemill_stream_decision{pipeline="orders",action="hold"}': always(1)},
        ({'tidemill_stream_decision{pipeline="orders",action="wait"}': always(1)},),
        {**OF_PIPELINE, "action": "hold"},
    ),
    "TidemillStreamRefused": Case(
        "Stream orders cannot be started or changed as it is declared.",
        {'tidemill_stream_decision{pipeline="orders",action="failed"}': always(1)},
        ({'tidemill_stream_decision{pipeline="orders",action="unseen"}': always(1)},),
        {**OF_PIPELINE, "action": "failed"},
        early=4,
    ),
    "TidemillStreamStalled": Case(
        "Stream orders should make progress and makes none, over all its restarts.",
        {f"tidemill_stream_stalled{P}": always(1)},
        ({f"tidemill_stream_stalled{P}": always(0)},),
        OF_PIPELINE,
        early=4,
    ),
    "TidemillPipelineOnHold": Case(
        "Pipeline orders must not start, because of a hold.",
        {f"tidemill_holds{P}": always(1)},
        ({f"tidemill_holds{P}": always(0)},),
        OF_PIPELINE,
        minutes=40,
        early=29,
    ),
    "TidemillRestartBudgetLow": Case(
        "Stream orders is held after 2 more crashes.",
        {f"tidemill_restart_budget_left{P}": always(2), f"tidemill_restarts{P}": always(4)},
        (
            {f"tidemill_restart_budget_left{P}": always(3), f"tidemill_restarts{P}": always(3)},
            # A policy that allows two crashes at all.
            {f"tidemill_restart_budget_left{P}": always(2), f"tidemill_restarts{P}": always(0)},
        ),
        OF_PIPELINE,
    ),
    "TidemillDataLossNear": Case(
        "Unread records of pipeline orders may be gone from its source in 16m 40s.",
        {
            f"tidemill_time_to_data_loss_seconds{P}": always(1000),
            f"tidemill_source_retention_seconds{P}": always(10_000),
        },
        (
            {
                f"tidemill_time_to_data_loss_seconds{P}": always(5000),
                f"tidemill_source_retention_seconds{P}": always(10_000),
            },
        ),
        OF_PIPELINE,
    ),
    "TidemillReconcileTooOld": Case(
        "No reconciliation has ended for 20m 0s. Streams run on, but none is started or stopped.",
        {"tidemill_reconcile_timestamp_seconds": always(0)},
        ({"tidemill_reconcile_timestamp_seconds": f"0+60x{MINUTES}"}, {}),
        {},
        early=10,
    ),
    "TidemillStorageNotRead": Case(
        "The metrics of the control plane are old or incomplete, because storage cannot be read.",
        {"tidemill_snapshot_timestamp_seconds": always(0)},
        (
            {
                "tidemill_snapshot_timestamp_seconds": f"0+60x{MINUTES}",
                "tidemill_unreadable_pipelines": always(0),
            },
        ),
        {},
        early=9,
    ),
    "TidemillControlPlaneNotSeen": Case(
        "Nothing is heard of the control plane; no other alert of it can fire.",
        {},
        ({"tidemill_snapshot_timestamp_seconds": f"0+60x{MINUTES}"},),
        {},
        early=4,
    ),
    "TidemillAirflowUnhealthy": Case(
        "Airflow's scheduler is not healthy.",
        {'tidemill_airflow_component_healthy{component="scheduler"}': always(0)},
        ({'tidemill_airflow_component_healthy{component="scheduler"}': always(1)},),
        {"component": "scheduler"},
    ),
}


def rules() -> dict[str, dict[str, Any]]:
    groups = [g for file in sorted(RULES.glob("*.yaml")) for g in yaml.safe_load(file.read_text())["groups"]]
    return {rule["alert"]: rule for group in groups for rule in group["rules"]}


def test_every_alert_has_a_case_and_a_page() -> None:
    assert set(CASES) == set(rules())
    pages = Path(__file__).parents[2] / "dags" / "runbooks"
    assert not [
        name
        for name, rule in rules().items()
        if not (pages / f"{rule['annotations']['runbook']}.md").is_file()
    ]


def test_the_rules_are_well_formed() -> None:
    files = sorted(str(file) for file in RULES.glob("*.yaml"))
    done = subprocess.run(
        [program("promtool"), "check", "rules", *files], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("alert", CASES)
def test_an_alert_fires_when_it_should_and_only_then(alert: str, tmp_path: Path) -> None:
    check(alert, CASES[alert], tmp_path)


def test_records_that_may_be_gone_already_are_told_as_such(tmp_path: Path) -> None:
    near = CASES["TidemillDataLossNear"]
    fires = {**near.fires, f"tidemill_time_to_data_loss_seconds{P}": always(-1000)}
    summary = "Unread records of pipeline orders may be gone from its source already."
    check("TidemillDataLossNear", replace(near, summary=summary, fires=fires), tmp_path)


def check(alert: str, case: Case, folder: Path) -> None:
    rule = rules()[alert]
    expected = {
        "exp_labels": {**case.labels, **rule["labels"]},
        "exp_annotations": {
            name: text.replace("{{ $labels.pipeline }}", "orders")
            for name, text in {**rule["annotations"], "summary": case.summary}.items()
        },
    }
    looks = [look(alert, case.minutes, [expected])]
    if case.early is not None:
        looks.append(look(alert, case.early, []))
    never = [look(alert, minute, []) for minute in range(0, MINUTES, 5)]
    tests = [story(case.fires, looks), *(story(quiet, never) for quiet in case.quiet)]
    document = {
        "rule_files": [str(file) for file in sorted(RULES.glob("*.yaml"))],
        "evaluation_interval": "1m",
        "tests": tests,
    }
    file = folder / "test.yaml"
    file.write_text(yaml.safe_dump(document))
    done = subprocess.run(
        [program("promtool"), "test", "rules", str(file)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def story(series: Series, looks: list[dict[str, Any]]) -> dict[str, Any]:
    written = [{"series": name, "values": values} for name, values in series.items()]
    return {"interval": "1m", "input_series": written, "alert_rule_test": looks}


def look(alert: str, minutes: int, expected: list[dict[str, Any]]) -> dict[str, Any]:
    return {"eval_time": f"{minutes}m", "alertname": alert, "exp_alerts": expected}
