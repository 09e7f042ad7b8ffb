"""`reconciliation.json`: the results of the newest reconciliation of an environment.

A snapshot, replaced as a whole. Reconciliations are short tasks that cannot be scraped, so `tidemill metrics
serve` reads their results here. No decision depends on this file.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from datetime import datetime

import structlog
from pydantic import BaseModel, ConfigDict

from tidemill.control.decide.visit import Outcome
from tidemill.names import Layout
from tidemill.storage.store import Store

# Maximum seconds to wait for the record to be written, so that the task can report its result to Airflow
# before its timeout (dags/tidemill_streams.py: 30 seconds above the limit of all visits).
WRITE_SECONDS = 5.0

log = structlog.get_logger()


class StreamRecord(BaseModel):
    """One stream.

    Args:
        action: The decision.
        wanted: True if it should run; None if no decision was possible.
        running: True if a driver of it was found or started.
        stalled: True if it should make progress and makes none.
        crashes: Crashes that count against its budget.
        budget: Number of crashes after which it is held.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    action: str
    wanted: bool | None = None
    running: bool = False
    stalled: bool = False
    crashes: int = 0
    budget: int | None = None


class ReconcileRecord(BaseModel):
    """All streams of one reconciliation, by name."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    v: int = 1
    began_at: datetime
    ended_at: datetime
    streams: dict[str, StreamRecord] = {}


def record_of(outcomes: Iterable[Outcome], began_at: datetime, ended_at: datetime) -> ReconcileRecord:
    """Return the record of a reconciliation."""
    streams = {outcome.pipeline: _stream(outcome) for outcome in outcomes}
    return ReconcileRecord(began_at=began_at, ended_at=ended_at, streams=streams)


def keep_record(
    store: Store, layout: Layout, record: ReconcileRecord, wait_seconds: float = WRITE_SECONDS
) -> None:
    """Replace the record; failing or silent storage delays the caller only briefly."""
    write = threading.Thread(target=_write, args=(store, layout, record), name="reconciliation", daemon=True)
    write.start()
    write.join(wait_seconds)
    if write.is_alive():
        log.warning("reconciliation_not_recorded", reason=f"storage was silent for {wait_seconds:g} s")


def _write(store: Store, layout: Layout, record: ReconcileRecord) -> None:
    try:
        store.write_json(layout.reconciliation, record.model_dump(mode="json"))
    except Exception as error:  # noqa: BLE001  # telemetry must never fail a reconciliation
        log.warning("reconciliation_not_recorded", reason=f"{type(error).__name__}: {error}")


def read_record(store: Store, layout: Layout) -> ReconcileRecord | None:
    """Return the newest record; None before the first reconciliation."""
    document = store.read_json(layout.reconciliation)
    return None if document is None else ReconcileRecord.model_validate(document)


def _stream(outcome: Outcome) -> StreamRecord:
    budget = outcome.budget
    return StreamRecord(
        action=outcome.decision.action,
        wanted=outcome.wanted,
        running=outcome.driver is not None,
        stalled=outcome.stall is not None,
        crashes=0 if budget is None else budget.crashes,
        budget=None if budget is None else budget.limit,
    )
