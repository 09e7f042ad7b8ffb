"""Daily hygiene of one pipeline while its stream runs: doctor, backup, prune, and cleaning of read files.

Each step is the operation's own function and may be repeated. A backup only adds files, and refuses an
incomplete checkpoint. Steps that remove data are skipped while the doctor finds an error, because old data
may be needed
then: the prune, and the declared archiving or deletion of files that were read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from tidemill.airflow_names import CHECKPOINT_HYGIENE_DAG_ID
from tidemill.checkpoint.doctor.examine import Examination, examine
from tidemill.checkpoint.findings import Finding
from tidemill.checkpoint.procedure.carry_out import Request, carry_out, plan_of, procedure_of
from tidemill.checkpoint.procedure.journal import derived_request_id
from tidemill.checkpoint.procedure.unfinished import check_nothing_else_unfinished, unfinished
from tidemill.checkpoint.verbs.backup import BackupRequest, plan_backup, take_backup
from tidemill.checkpoint.verbs.backup_manifest import Manifest, read_manifests
from tidemill.checkpoint.verbs.prune import Keep, gather_prune, plan_prune, prune_steps
from tidemill.control.hubs import hub_findings_of
from tidemill.control.plane import ControlPlane
from tidemill.control.procedures.parts import clean
from tidemill.control.procedures.run import plan_verb
from tidemill.control.source_files import cleaning_asked_by
from tidemill.errors import TidemillError, UsageError
from tidemill.spec.files_after import cleaned_sources
from tidemill.spec.hygiene import Hygiene
from tidemill.spec.project import Pipeline, resolve_pipeline
from tidemill.storage.advance import Told, nobody_told

# A daily run does not begin at the same second each day. Without this tolerance, every second run would
# consider the previous day's backup too recent.
EARLY = timedelta(hours=1)

# No backup, or an old one; the hygiene itself fixes this.
NO_BACKUP = "TIDE-CKPT-056"
NOTHING_COMMITTED = "TIDE-CKPT-048"

# Names of the steps that remove data, in the report.
PRUNE, CLEAN = "prune", "files that were read"


@dataclass(frozen=True)
class Care:
    """Result of the hygiene of one pipeline.

    Args:
        pipeline: The pipeline.
        findings: The doctor's findings, worst first.
        done: Actions done or skipped, one sentence each.
        failed: Actions that failed, as error texts.
    """

    pipeline: str
    findings: tuple[Finding, ...]
    done: tuple[str, ...]
    failed: tuple[str, ...] = ()

    @property
    def errors(self) -> tuple[Finding, ...]:
        """Return the findings that need an operator now."""
        return tuple(finding for finding in self.findings if finding.severity == "error")

    def lines(self) -> list[str]:
        """Return log lines."""
        return [*map(line_of, self.findings), *self.done, *self.failed]

    def as_document(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "pipeline": self.pipeline,
            "errors": [line_of(finding) for finding in self.errors],
            "warnings": [line_of(f) for f in self.findings if f.severity == "warning"],
            "notes": [line_of(f) for f in self.findings if f.severity == "note"],
            "done": list(self.done),
            "failed": list(self.failed),
        }


def look_after(plane: ControlPlane, name: str, by: str, told: Told = nobody_told) -> Care:
    """Examine, back up and prune one pipeline; a failed step does not stop the others.

    Args:
        plane: The control plane.
        name: Name of the pipeline.
        by: The requester; the environment's standing approval is added.
        told: Called with the progress of a backup.
    """
    try:
        pipeline = resolve_pipeline(plane.environment, name)
    except TidemillError:
        found = examine(plane.environment, [name]).findings
        return Care(name, found, ("nothing was done: the declaration is wrong",))
    care = _Care(plane, pipeline, _person(plane, by), told)
    # Complete steps that an earlier run began before it died; otherwise they would be an error that blocks
    # this run.
    for what, act in care.what_was_begun.items():
        care.attempt(f"{what} that was begun", act)
    found = (*examine(plane.environment, [name]).findings, *hub_findings_of(plane.environment, [name]))
    care.attempt("backup", care.back_up)
    wrong = any(finding.severity == "error" for finding in found)
    for what, act in care.what_takes_away.items():
        if wrong:
            care.done.append(f"{what}: left out while something is wrong")
        else:
            care.attempt(what, act)
    kept = (f for f in found if not (care.has_backup and f.finding_id == NO_BACKUP))
    return Care(name, tuple(kept), tuple(care.done), tuple(care.failed))


def whole_examination(plane: ControlPlane) -> Examination:
    """Examine all pipelines together, including shared problems and orphaned state folders."""
    return examine(plane.environment)


def backup_reason(
    newest: Manifest | None, live: tuple[str, int], now: datetime, every: timedelta
) -> tuple[bool, str]:
    """Return True if a backup is due, and the reason. Pure.

    Args:
        newest: The newest backup.
        live: Generation and newest committed batch.
        now: The current time.
        every: `hygiene.backup_every`.
    """
    if newest is None:
        return True, "there was none"
    if (newest.generation, newest.batch_id) == live:
        return False, f"{newest.backup} has the newest batch, {newest.batch_id}"
    age = now - newest.taken_at
    if age < every - min(EARLY, every / 2):
        return False, f"{newest.backup} is {age // timedelta(hours=1)} hours old"
    return True, f"{newest.backup} is old, or of another generation"


def keep_of(policy: Hygiene) -> Keep:
    """Return the limits of a prune from the environment's policy."""
    return Keep(policy.generations, policy.backups, policy.records, policy.trash)


def may_delete(plane: ControlPlane) -> bool:
    """Return True if old data may be removed without a further approval."""
    spec = plane.environment.spec
    return not spec.protected or spec.hygiene.approved_by is not None


def line_of(finding: Finding) -> str:
    """Return a finding as one line."""
    facts = " ".join(f"{name}={value}" for name, value in finding.facts.items())
    page = f" Page: {finding.runbook}." if finding.runbook else ""
    return (
        f"{finding.severity} {finding.finding_id} {finding.pipeline}: {finding.problem} {facts}"
        f" To fix: {finding.fix}.{page}"
    )


def _person(plane: ControlPlane, by: str) -> str:
    approved_by = plane.environment.spec.hygiene.approved_by
    return f"{by}, approved by {approved_by}" if approved_by else by


class _Care:
    """One hygiene run for one pipeline, with its results."""

    def __init__(self, plane: ControlPlane, pipeline: Pipeline, person: str, told: Told) -> None:
        self._plane = plane
        self._pipeline = pipeline
        self._person = person
        self._told = told
        self.has_backup = False
        self.done: list[str] = []
        self.failed: list[str] = []

    @property
    def what_takes_away(self) -> dict[str, Callable[[], str]]:
        """Return the steps that move or delete data, by their names in the report."""
        parts = {PRUNE: self.prune}
        return parts | ({CLEAN: self.clean} if cleaned_sources(self._pipeline) else {})

    @property
    def what_was_begun(self) -> dict[str, Callable[[], str]]:
        """Return those of these steps in which an earlier run died."""
        entry = unfinished(self._plane.store, self._plane.layout, self._pipeline.name)
        verbs = {PRUNE: "prune", CLEAN: "clean"}
        return {
            what: act
            for what, act in self.what_takes_away.items()
            if entry is not None and entry.request_id == self._request_id(verbs[what])
        }

    def attempt(self, what: str, act: Callable[[], str]) -> None:
        try:
            self.done.append(f"{what}: {act()}")
        except TidemillError as error:
            self.failed.append(f"{what}: {error}")

    def _request_id(self, verb: str) -> str:
        # Independent of the policy, so that a step that died is completed by its own plan after a policy
        # change.
        store, layout, name = self._plane.store, self._plane.layout, self._pipeline.name
        return derived_request_id(store, layout, name, verb, {"of": CHECKPOINT_HYGIENE_DAG_ID})

    def back_up(self) -> str:
        store, pipeline = self._plane.store, self._pipeline
        policy, now = self._plane.environment.spec.hygiene, datetime.now(UTC)
        try:
            would = plan_backup(store, pipeline)
        except UsageError as error:
            if error.error_id != NOTHING_COMMITTED:
                raise
            return "nothing was ever committed"
        newest = next(reversed(read_manifests(store, pipeline.layout, pipeline.name)), None)
        live = (would["generation"], would["batch_id"])
        due, why = backup_reason(newest, live, now, policy.backup_every)
        if due:
            self._plane.own()
            request = BackupRequest(self._person, CHECKPOINT_HYGIENE_DAG_ID, now)
            taken = take_backup(store, pipeline, request, self._told)
            self.has_backup = True
            return f"{taken.backup}, batch {taken.batch_id}, {len(taken.files)} files, {taken.size} bytes"
        self.has_backup = newest is not None and (newest.generation, newest.batch_id) == live
        return f"not due: {why}"

    def prune(self) -> str:
        store, layout, name = self._plane.store, self._plane.layout, self._pipeline.name
        request_id = self._request_id("prune")
        check_nothing_else_unfinished(store, layout, name, request_id)
        command = (
            f"tidemill checkpoint prune {name} --reason hygiene --apply --request-id {request_id}, "
            f"or the next run of {CHECKPOINT_HYGIENE_DAG_ID}"
        )
        request = Request("prune", name, request_id, self._person, CHECKPOINT_HYGIENE_DAG_ID, command)
        keep = keep_of(self._plane.environment.spec.hygiene)
        plan = plan_of(store, layout, request, lambda: plan_prune(gather_prune(store, self._pipeline), keep))
        moves, deletes = plan["moves"], plan["deletes"]
        if not moves and not deletes:
            return "nothing is old"
        weight = f"{len(moves)} to the trash, {len(deletes)} out of it"
        if not may_delete(self._plane):
            return (
                f"only planned, {weight}: the environment is protected and names no `hygiene.approved_by`; "
                f"by hand: tidemill checkpoint prune {name}"
            )
        self._plane.own()
        steps = prune_steps(store, layout, request, plan)
        procedure = procedure_of(request, plan, steps, forbids_starts=False)
        carry_out(store, layout, procedure, lambda: None)
        return weight

    def clean(self) -> str:
        plane, name = self._plane, self._pipeline.name
        request_id = self._request_id("clean")
        asking = cleaning_asked_by(self._person, CHECKPOINT_HYGIENE_DAG_ID, request_id)
        planned = plan_verb(asking, clean(plane, self._pipeline), name)
        told = "; ".join(line.strip() for line in planned.lines)
        if not planned.has_work:
            return told
        if not may_delete(plane):
            return (
                f"only planned: the environment is protected and names no `hygiene.approved_by`; "
                f"by hand: tidemill source clean {name}; {told}"
            )
        plane.own()
        steps = planned.parts.steps(planned.request, planned.plan, nobody_told)
        procedure = procedure_of(planned.request, planned.plan, steps, forbids_starts=False)
        carry_out(plane.store, plane.layout, procedure, lambda: None)
        return told
