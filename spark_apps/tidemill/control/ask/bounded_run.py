"""Incremental and backfill runs: started once per request, and proven by a receipt."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from tidemill.control.ask.goal import Goal
from tidemill.control.ask.run_id import new_run_id, run_id_of
from tidemill.control.ask.stop_note import StopNote
from tidemill.control.ask.waiting_task import WaitingTask
from tidemill.control.decide.hung import why_hung
from tidemill.control.driver_command import DriverRun
from tidemill.control.plane import ControlPlane
from tidemill.control.runtime import StartedDriver, slot_of
from tidemill.errors import UnavailableError
from tidemill.ledger.entry import LedgerEntry
from tidemill.ledger.read import Commit, commits_since
from tidemill.spec.project import resolve_pipeline

# Command that stops a driver, by its slot.
_STOP = {"main": "tidemill stop", "backfill": "tidemill backfill stop"}

# Prefix of backfill run ids; the digest of the plan follows.
_BACKFILL = "backfill-"

# Counts of rows that a batch read but did not write to the table, by kind.
_ASIDE: Mapping[str, Callable[[LedgerEntry], int | None]] = {
    "quarantined": lambda entry: entry.quarantined_rows,
    "late": lambda entry: entry.late_rows,
    "dropped": lambda entry: None if entry.expectations is None else entry.expectations.dropped,
    "without event time": lambda entry: entry.no_event_time_rows,
}

# Maximum time by which the clock of a committing driver may be behind the clock of the control plane.
CLOCKS_DIFFER = timedelta(minutes=5)


@dataclass(frozen=True)
class TableResult:
    """Result of a run for one table: newest version, rows, batches, and the range read from each source.

    Args:
        rows: Rows that its commits wrote; a merge counts a row once for each batch that wrote it.
        aside: Rows that its batches read but did not write, by kind; kinds without rows are left out.
    """

    table: str
    version: int
    rows: int
    batch_ids: list[int]
    sources: dict[str, Any]
    aside: dict[str, int] = field(default_factory=dict)


def start_bounded(plane: ControlPlane, run: DriverRun, earlier: Collection[str] = ()) -> StartedDriver:
    """Start a bounded run, or return it if it already runs or has finished under the same run id.

    A run that failed, was killed or was stopped early is started again.

    Args:
        plane: The control plane.
        run: The run.
        earlier: Run ids of earlier requests for the same work. If one of them runs, it is returned, unless it
            was asked to stop and will not finish the work.

    Raises:
        GateRefusedError: If another control plane owns the storage root.
        SpecError: If the declaration is wrong; nothing was started.
        UnavailableError: TIDE-CTRL-008, if another run of the pipeline holds the slot; it may be draining.
    """
    pipeline = resolve_pipeline(plane.environment, run.pipeline)
    last = plane.runtime.last_start(run.pipeline, slot_of(run.mode))
    is_same_run = last is not None and not last.alive and last.run_id == run.run_id
    # Airflow may repeat a task although its driver has ended (apache/airflow#72716).
    if last is not None and is_same_run and plane.ending_of(last).is_finished:
        return last
    plane.own()
    driver = plane.runtime.start(run, pipeline.definition_digest).driver
    drains = driver.drain_requested_at is not None
    if driver.run_id != run.run_id and (drains or driver.run_id not in earlier):
        stop = f", or stop it: {_STOP[slot_of(driver.mode)]} {run.pipeline}"
        raise UnavailableError(
            "TIDE-CTRL-008",
            "Another driver of this pipeline is at work.",
            facts={
                "pipeline": run.pipeline,
                "mode": driver.mode,
                "run_id": driver.run_id,
                "since": driver.started_at,
            },
            fix="wait for its end" + (": it drains" if drains else stop),
        )
    return driver


def backfill_run(pipeline: str, plan: str, request: str | None = None) -> DriverRun:
    """Return a run that carries out a plan.

    Args:
        pipeline: Name of the pipeline.
        plan: Digest of the plan.
        request: Name of the request, so that repeating it is the same run; without a name, each run is new.
    """
    kind = f"{_BACKFILL}{plan}"
    run_id = new_run_id(kind, datetime.now(UTC)) if request is None else run_id_of(f"{kind}-{request}")
    return DriverRun(pipeline, "backfill", run_id, ("--plan", plan))


def plan_of(run_id: str) -> str | None:
    """Return the digest of the plan that a run carries out; None for other runs."""
    kind, _, plan = run_id.partition("-")
    return plan.partition("-")[0] if f"{kind}-" == _BACKFILL else None


def same_work(plane: ControlPlane, run: DriverRun) -> list[str]:
    """Return active runs that do the same work, started by a closed command line or by Airflow."""
    plan = plan_of(run.run_id)
    running = None if plan is None else plane.running(run.pipeline, slot_of(run.mode))
    return [running.run_id] if running is not None and plan_of(running.run_id) == plan else []


def stop_backfill(plane: ControlPlane, pipeline: str, by: str, why: str) -> StartedDriver | None:
    """Ask a backfill to stop, and prevent retries of it; None if no backfill runs."""
    driver = plane.running(pipeline, "backfill")
    if driver is not None:
        _stop(plane, driver, StopNote(by=by, why=why))
    return driver


def stop_run(plane: ControlPlane, goal: Goal, by: str, why: str) -> None:
    """Stop the run of a goal in the same way, if it still runs."""
    driver = plane.running(goal.pipeline, goal.slot)
    if driver is not None and driver.started_at == goal.started_at:
        _stop(plane, driver, StopNote(by=by, why=why))


def stop_waited_for(plane: ControlPlane, task: WaitingTask, by: str, why: str) -> StartedDriver | None:
    """Stop the run that a task waits for; None if it does not run, or was stopped already."""
    driver = plane.running(task.pipeline, task.slot)
    if driver is None or not task.is_about(driver) or driver.drain_requested_at is not None:
        return None
    _stop(plane, driver, StopNote(by=by, why=why))
    return driver


def _stop(plane: ControlPlane, driver: StartedDriver, note: StopNote) -> None:
    """Write the stop note before the drain, because a driver that ended without it would be restarted."""
    plane.own()
    plane.store.write_json(
        plane.layout.stop_note(driver.pipeline, driver.run_id), note.model_dump(mode="json")
    )
    plane.runtime.drain(driver)


def end_stuck_driver(plane: ControlPlane, goal: Goal) -> None:
    """End a goal's driver that the runtime can neither start nor end."""
    driver = plane.running(goal.pipeline, goal.slot)
    if driver is None or driver.started_at != goal.started_at:
        return
    if driver.stuck or why_hung(driver, None):
        plane.own()
        plane.runtime.kill(driver)


def finish_of(driver: StartedDriver) -> Goal:
    """Return the goal that a bounded run finishes."""
    return Goal(
        pipeline=driver.pipeline, kind="finished", slot=slot_of(driver.mode), started_at=driver.started_at
    )


def tables_written(
    plane: ControlPlane, pipeline: str, run_ids: Collection[str], since: datetime
) -> list[TableResult]:
    """Return the commits of runs for each table, from the ledger; tables without a commit are left out.

    Args:
        plane: The control plane.
        pipeline: Name of the pipeline.
        run_ids: The runs.
        since: Time of the first request for them. A stream may make any number of commits while they run.
    """
    spec = plane.environment.project.load_pipeline(pipeline)
    results = []
    for sink in spec.delta_sinks:
        commits = commits_since(plane.layout.table(sink.table), since - CLOCKS_DIFFER)
        own = [commit for commit in commits if commit.entry is not None and commit.entry.run_id in run_ids]
        if own:
            results.append(_sum_up(sink.table, own))
    return results


def as_document(result: TableResult) -> dict[str, Any]:
    """Return plain data for an asset event or `--json`."""
    return asdict(result)


def _sum_up(table: str, newest_first: list[Commit]) -> TableResult:
    entries = [commit.entry for commit in newest_first if commit.entry is not None]
    batches = {entry.batch_id for entry in entries if entry.batch_id is not None}
    aside = {kind: sum(count(entry) or 0 for entry in entries) for kind, count in _ASIDE.items()}
    return TableResult(
        table=table,
        version=newest_first[0].version,
        rows=sum(commit.rows or 0 for commit in newest_first),
        batch_ids=sorted(batches),
        sources=_range_read(entries),
        aside={kind: rows for kind, rows in aside.items() if rows},
    )


def _range_read(newest_first: list[LedgerEntry]) -> dict[str, Any]:
    """Return the first start and the last end of each source."""
    newest, oldest = newest_first[0].sources, newest_first[-1].sources
    return {
        name: {"start": oldest[name].start if name in oldest else None, "end": newest[name].end}
        for name in newest
    }
