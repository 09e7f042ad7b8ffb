"""`status.json`: a driver's report after each batch. A snapshot, replaced as a whole."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from tidemill.names import Layout
from tidemill.storage.store import Store

DriverState = Literal["starting", "running", "waiting", "draining", "stopped", "failed"]


class Status(BaseModel):
    """The state of one driver.

    `waiting` means that the driver has read everything the source has or, if `error` is set, that it cannot
    continue. `rows` and the other totals count since the driver started. `lag` is in records over all
    partitions.

    Args:
        source_empty_at: Last time when this driver looked at its source and found nothing new.
        progressed_at: Last time when the pipeline made progress, by this driver or an earlier one: it
            committed a batch, or found nothing new at its source.
        caught_up_at: Last time when the pipeline had read everything its source had, by this driver or an
            earlier one.
        batches: Batches that this driver has written.
        watermarks: Watermark of each stream, by name, if there are several streams; None before the stream's
            first row with an event time. Empty for a pipeline with one watermark or none.
        notes: Facts about the input for the user, such as a declared column that no file has.
        expectation_violations: Number of rows that violated an expectation, by table and expectation.
        trigger_seconds: The declared trigger interval of a stream.
        trigger: Kind of a trigger without batches: `continuous` or `real_time`. Then `batch_id` is the number
            of Spark's last note in the checkpoint. Rows sent since that note are sent again after a crash.
            Only Spark counts rows, and with `continuous` it does not count them either.
        progress_within_seconds: Maximum time without progress for a stream.
        source_retention_seconds: Retention of the source, if its broker reports it.
        source_keeps_for_ever: True if the broker reports unlimited retention.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    v: int = 1
    pipeline: str
    mode: Literal["stream", "incremental", "backfill"]
    state: DriverState
    run_id: str
    generation: str | None = None
    epoch: int | None = None
    started_at: datetime
    updated_at: datetime
    batch_id: int | None = None
    batch_committed_at: datetime | None = None
    source_empty_at: datetime | None = None
    progressed_at: datetime | None = None
    caught_up_at: datetime | None = None
    batch_milliseconds: int | None = None
    rows: int = 0
    rows_by_output: dict[str, int] = {}
    quarantined_rows: int = 0
    late_rows: int = 0
    no_event_time_rows: int = 0
    batches: int = 0
    expectation_violations: dict[str, dict[str, int]] = {}
    lag: int | None = None
    watermark: datetime | None = None
    watermarks: dict[str, datetime | None] = Field({}, exclude_if=lambda watermarks: not watermarks)
    error: dict[str, Any] | None = None
    notes: list[str] = Field([], exclude_if=lambda notes: not notes)
    trigger_seconds: float | None = None
    # Empty for a stream with batches, which is the usual case.
    trigger: str = Field("", exclude_if=lambda kind: not kind)
    progress_within_seconds: float | None = None
    source_retention_seconds: float | None = None
    source_keeps_for_ever: bool = False

    def age(self, now: datetime | None = None) -> timedelta:
        """Return the time since the driver last wrote this."""
        return (now or datetime.now(UTC)) - self.updated_at


def read_status(store: Store, layout: Layout, pipeline: str) -> Status | None:
    """Return the newest status; None if no driver of the pipeline ever wrote one."""
    document = store.read_json(layout.status(pipeline))
    return None if document is None else Status.model_validate(document)


def write_status(store: Store, path: str, status: Status) -> None:
    """Replace the status at `path`: `Layout.status`, or `Layout.backfill_status` for a backfill."""
    store.write_json(path, status.model_dump(mode="json"))
