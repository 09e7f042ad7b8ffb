"""List the active streaming queries of an environment, read their drivers' reports, and wait for their end.

Reading never fails: damaged documents of one pipeline do not hide the others.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from pydantic import ValidationError

from tidemill.checkpoint.query_report import QueryReport, read_query_report
from tidemill.checkpoint.status import Status, read_status
from tidemill.control.decide.endings import Ending
from tidemill.control.plane import ControlPlane
from tidemill.control.runtime import MainSlot, StartedDriver
from tidemill.errors import TidemillError, UsageError
from tidemill.names import PIPELINE_PATTERN

# Minimum digits of an id's prefix: those of a UUID up to its first dash.
LEAST_ID_DIGITS = 8

# Seconds between two checks of a wait. A check reads one small file, or calls the API server once.
POLL_SECONDS = 0.5

Read = TypeVar("Read")


@dataclass(frozen=True)
class QueryState:
    """One pipeline's query.

    Args:
        pipeline: Its name.
        driver: The running driver; None if none runs.
        status: Status of that driver, or of the last one if none runs; None before its first status.
        report: The driver's report about its query, likewise.
    """

    pipeline: str
    driver: StartedDriver | None
    status: Status | None
    report: QueryReport | None

    @property
    def state(self) -> str:
        """Return the state in one word."""
        if self.status is None:
            return "never ran" if self.driver is None else "starting"
        if self.driver is None and self.status.state not in ("stopped", "failed"):
            # It was killed, or belongs to another control plane's driver.
            return f"{self.status.state}, but not here"
        return self.status.state

    @property
    def exception(self) -> dict[str, object] | None:
        """Return the error that ended or blocks the query."""
        return None if self.status is None else self.status.error


def active_queries(plane: ControlPlane) -> list[QueryState]:
    """Return all pipelines whose driver runs a stream or an incremental run, by name."""
    slots = sorted(plane.runtime.main_slots().items())
    # A slot that cannot be read may have a running driver.
    return [_state(plane, name, _running(slot)) for name, slot in slots if _may_run(slot)]


def query_of(plane: ControlPlane, pipeline: str) -> QueryState:
    """Return one pipeline's query, running or not."""
    return _state(plane, pipeline, _running(plane.look_at(pipeline)))


def find_pipeline(plane: ControlPlane, wanted: str) -> str:
    """Return the pipeline with a name, or with a query id or run id that begins so.

    Raises:
        SpecError: TIDE-SPEC-011 for an unknown name, with the nearest one.
        UsageError: TIDE-CTRL-033 for an unknown id.
    """
    project = plane.environment.project
    known = {*project.pipeline_names(), *plane.held_pipelines()}
    if wanted in known:
        return wanted
    ids = {name: _ids(plane, name) for name in sorted(known)} if len(wanted) >= LEAST_ID_DIGITS else {}
    found = [name for name, own in ids.items() if any(one.startswith(wanted) for one in own)]
    if len(found) == 1:
        return found[0]
    if not found and re.fullmatch(PIPELINE_PATTERN, wanted):
        project.pipeline_file(wanted)
    raise UsageError(
        "TIDE-CTRL-033",
        "No query has this id." if not found else "Several queries have an id that begins so.",
        facts={"id": ascii(wanted[:80])[1:-1], "pipelines": ", ".join(found or sorted(known)) or "none"},
        fix="name the pipeline, or an id that `tidemill queries --json` shows; the first 8 digits are enough",
    )


def wait_for_end(
    plane: ControlPlane,
    driver: StartedDriver,
    seconds: float | None,
    sleep: Callable[[float], None] = time.sleep,
) -> Ending | None:
    """Return the ending of a running driver; None if it still runs after that many seconds.

    If another driver replaces it, the original driver's ending is returned.
    """
    deadline = None if seconds is None else time.monotonic() + seconds
    while True:
        newest = plane.runtime.last_start(driver.pipeline)
        if newest is None or (newest.run_id, newest.started_at) != (driver.run_id, driver.started_at):
            return plane.ending_of(replace(driver, alive=False))
        if not newest.alive:
            return plane.ending_of(newest)
        if deadline is not None and time.monotonic() >= deadline:
            return None
        sleep(POLL_SECONDS)


def _state(plane: ControlPlane, pipeline: str, driver: StartedDriver | None) -> QueryState:
    status = _readable(lambda: read_status(plane.store, plane.layout, pipeline))
    report = _readable(lambda: read_query_report(plane.store, plane.layout, pipeline))
    if driver is not None:
        # A status of an earlier driver does not belong to the running query.
        if status is not None and not _is_of(driver, status):
            status = None
        if report is not None and not _is_of(driver, report):
            report = None
    elif report is not None and report.active:
        # A killed driver could not report its end.
        report = report.model_copy(update={"active": False})
    return QueryState(pipeline, driver, status, report)


def _is_of(driver: StartedDriver, said: Status | QueryReport) -> bool:
    return said.run_id == driver.run_id and said.updated_at >= driver.started_at


def _may_run(slot: MainSlot | TidemillError) -> bool:
    return isinstance(slot, TidemillError) or _running(slot) is not None


def _running(slot: MainSlot | TidemillError) -> StartedDriver | None:
    if isinstance(slot, TidemillError) or slot.start is None or not slot.start.alive:
        return None
    return slot.start


def _ids(plane: ControlPlane, pipeline: str) -> list[str]:
    report = _readable(lambda: read_query_report(plane.store, plane.layout, pipeline))
    return [] if report is None else [report.id, report.query_run_id]


def _readable(read: Callable[[], Read | None]) -> Read | None:
    """Return the result, or None if the data is damaged, which the doctor reports."""
    try:
        return read()
    except (TidemillError, ValidationError):
        return None
