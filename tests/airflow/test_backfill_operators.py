"""The tasks of `tidemill_backfill` on a real project: plan, approval and apply; its drivers are fake."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.small_project import ENVIRONMENT, READINGS, SmallProject
from tidemill.checkpoint.procedure.audit import AuditEntry, read_audit
from tidemill.control.ask.bounded_run import plan_of
from tidemill.errors import GateRefusedError, UsageError

RANGE = {"from": "2026-03-01T00:00:00Z", "to": "2026-03-02T00:00:00Z"}
APPROVED_AT = datetime(2026, 11, 20, 15, tzinfo=UTC)


@dataclass
class BackfillRequest:
    """One DAG run of the form, task by task."""

    project: SmallProject
    params: dict[str, Any]
    xcom: dict[str, Any] = field(default_factory=dict)

    @property
    def context(self) -> Any:
        run = SimpleNamespace(
            dag_id="tidemill_backfill",
            run_id="manual-1",
            run_after=APPROVED_AT - timedelta(hours=1),
            triggering_user_name="ann",
            conf=self.params,
        )
        task = {"dag_id": run.dag_id, "run_id": run.run_id, "task_id": "apply", "map_index": -1}
        ti = SimpleNamespace(xcom_pull=self._pull, **task)
        defaults = {"pipeline": "readings", "chunk": None, "publish": "now", "dry_run": False, **RANGE}
        return {"dag_run": run, "ti": ti, "params": {**defaults, **self.params}}

    def _pull(self, task_ids: str, key: str = "return_value") -> Any:
        return self.xcom.get(task_ids if key == "return_value" else f"{task_ids}.{key}")

    @property
    def place(self) -> Any:
        document = {"project": str(self.project.folder), "environment": "local"}
        return SimpleNamespace(
            environment="local", beside="", open=self.project.plane, as_document=lambda: document
        )

    def plan(self) -> dict[str, Any]:
        from tidemill_airflow.bounded_operators import BackfillPlan

        planned: dict[str, Any] = BackfillPlan(task_id="plan", place=self.place).execute(self.context)
        self.xcom["plan"] = planned
        return planned

    def approved_by(self, name: str, at: datetime = APPROVED_AT) -> None:
        self.xcom["approve.plan"] = self.xcom["plan"]["text"]
        self.xcom["approve"] = {
            "chosen_options": ["Approve"],
            "responded_at": at,
            "responded_by_user": {"id": "1", "name": name},
        }

    def apply(self) -> str:
        """Return the plan that the driver, which now is at work, carries out."""
        from airflow.sdk.exceptions import TaskDeferred

        from tidemill_airflow.bounded_operators import BackfillRun

        with pytest.raises(TaskDeferred):
            BackfillRun(task_id="apply", place=self.place).execute(self.context)
        driver = self.project.plane().runtime.last_start("readings", "backfill")
        assert driver is not None
        return plan_of(driver.run_id) or ""


@pytest.fixture
def project(bare_project: SmallProject) -> SmallProject:
    bare_project.declare("readings", READINGS)
    return bare_project


@pytest.fixture
def protected(project: SmallProject) -> SmallProject:
    project.environ(ENVIRONMENT + "protected: true\n")
    return project


def audit_of(project: SmallProject) -> list[AuditEntry]:
    return read_audit(project.plane().store, project.plane().layout, "readings")


@pytest.mark.parametrize("approver", ["", "ann"])
def test_a_protected_environment_needs_the_approval_of_somebody_else(
    protected: SmallProject, approver: str
) -> None:
    run = BackfillRequest(protected, {})
    run.plan()
    if approver:
        run.approved_by(approver)
    with pytest.raises(GateRefusedError, match=r"^TIDE-CKPT-036"):
        run.apply()
    assert protected.plane().runtime.last_start("readings", "backfill") is None
    assert audit_of(protected) == []


def test_whoever_rejects_has_not_approved_also_if_apply_is_cleared(protected: SmallProject) -> None:
    run = BackfillRequest(protected, {})
    run.plan()
    run.approved_by("bob")
    run.xcom["approve"]["chosen_options"] = ["Reject"]
    with pytest.raises(GateRefusedError, match=r"^TIDE-CKPT-036"):
        run.apply()


def test_a_plan_that_is_made_anew_after_the_approval_is_asked_about_again(protected: SmallProject) -> None:
    from airflow.sdk.exceptions import AirflowFailException

    run = BackfillRequest(protected, {})
    run.plan()
    run.approved_by("bob")
    # A user clears the tasks `plan` and `apply`, but not `approve` between them.
    protected.declare("readings", READINGS.replace("landing", "elsewhere"))
    run.plan()
    with pytest.raises(AirflowFailException, match=r"clear `approve`"):
        run.apply()
    assert protected.plane().runtime.last_start("readings", "backfill") is None
    run.approved_by("bob")
    run.apply()


def test_what_was_approved_is_carried_out_and_the_audit_names_both(protected: SmallProject) -> None:
    run = BackfillRequest(protected, {})
    digest = run.plan()["digest"]
    # Whatever has been planned since.
    BackfillRequest(protected, {"to": "2026-03-03T00:00:00Z"}).plan()
    run.approved_by("bob")
    # A retry finds its driver, and leaves no second entry.
    assert (run.apply(), run.apply()) == (digest, digest)
    (entry,) = audit_of(protected)
    assert (entry.verb, entry.by, entry.why) == (
        "backfill apply",
        "ann, approved by bob",
        "DAG run manual-1",
    )
    assert entry.plan == {"plan": digest, "range": "2026-03-01T00:00:00+00:00 to 2026-03-02T00:00:00+00:00"}
    # Approved again after the run was cleared.
    run.approved_by("eve", APPROVED_AT + timedelta(hours=1))
    run.apply()
    assert [each.by for each in audit_of(protected)] == ["ann, approved by eve", "ann, approved by bob"]


def test_a_form_that_names_a_plan_gets_exactly_that_plan(project: SmallProject) -> None:
    run = BackfillRequest(project, {"dry_run": True})
    digest = run.plan()["digest"]
    project.declare("readings", READINGS.replace("Readings from files", "The same"))
    again = BackfillRequest(project, {"plan": digest})
    assert again.plan()["digest"] == digest
    assert again.apply() == digest


@pytest.mark.parametrize(
    "changes",
    [
        {"plan": "0123456789ab"},
        {"to": "2026-03-03T00:00:00Z"},
        {"chunk": "6 hours"},
        {"publish": "later"},
    ],
    ids=str,
)
def test_a_plan_of_another_form_is_refused(project: SmallProject, changes: dict[str, str]) -> None:
    digest = BackfillRequest(project, {"dry_run": True}).plan()["digest"]
    with pytest.raises(UsageError, match=r"^TIDE-BACK-016"):
        BackfillRequest(project, {"plan": digest, **changes}).plan()


def test_who_approves_is_shown_the_whole_plan(protected: SmallProject) -> None:
    planned = BackfillRequest(protected, {}).plan()
    assert f"plan {planned['digest']}" in planned["text"]
    for part in ("range     2026-03-01", "replace   bronze/readings", "bytes     write:"):
        assert part in planned["text"]


def test_a_dry_run_asks_nobody(protected: SmallProject) -> None:
    from airflow.sdk.exceptions import AirflowSkipException

    from tidemill_airflow.approval import ApprovePlan

    run = BackfillRequest(protected, {"dry_run": True})
    run.plan()
    with pytest.raises(AirflowSkipException):
        ApprovePlan(task_id="approve", what="backfill").execute(run.context)
    with pytest.raises(AirflowSkipException):
        run.apply()


def test_elsewhere_nobody_is_asked_and_nothing_is_kept(project: SmallProject) -> None:
    run = BackfillRequest(project, {})
    digest = run.plan()["digest"]
    assert run.apply() == digest
    assert audit_of(project) == []
