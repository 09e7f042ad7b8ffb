"""`status.json`: what a driver says of itself after each batch. A snapshot, replaced as a whole."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from tidemill.names import Layout
from tidemill.storage.store import Store

DriverState = Literal["starting", "running", "waiting", "draining", "stopped", "failed"]


class Status(BaseModel):
    """The state of one driver.

    `waiting` means that the driver has read all that the source has, or with `error`, that it cannot go on.
    `rows` and the other totals count since the driver started; `lag` is in records over all partitions.

    Args:
        source_empty_at: When this driver last looked at its source and found nothing new.
        progressed_at: When the pipeline last made progress, by this driver or one before: committed a batch,
            or found nothing new at its source.
        caught_up_at: When it had last read all that its source had, by this driver or one before.
        batches: Batches that this driver has written.
        watermarks: Watermark of each of several streams, by its name; None before its first row with an
            event time. Empty for a pipeline with one watermark at most.
        notes: What a user should know of the input, such as a declared column that no file has.
        expectation_violations: Rows that were not as a table expects, by table and expectation.
        trigger_seconds: The declared trigger of a stream.
        trigger: Its kind, where that has no batches: `continuous` or `real_time`. Then `batch_id` is the
            number of what Spark noted last in the checkpoint, and what is sent since is sent again after a
            crash; nobody but Spark counts rows, and with `continuous` nobody does.
        progress_within_seconds: How long a stream may run without progress.
        source_retention_seconds: How long the source keeps records, where its broker has told.
        source_keeps_for_ever: Whether the broker has told that it keeps them for ever.
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
    # Most streams have batches, and say nothing of it.
    trigger: str = Field("", exclude_if=lambda kind: not kind)
    progress_within_seconds: float | None = None
    source_retention_seconds: float | None = None
    source_keeps_for_ever: bool = False

    def age(self, now: datetime | None = None) -> timedelta:
        """Time since the driver last wrote this."""
        return (now or datetime.now(UTC)) - self.updated_at


def read_status(store: Store, layout: Layout, pipeline: str) -> Status | None:
    """The newest status; None if no driver of the pipeline ever wrote one."""
    document = store.read_json(layout.status(pipeline))
    return None if document is None else Status.model_validate(document)


def write_status(store: Store, path: str, status: Status) -> None:
    """Replace the status at `path`: `Layout.status`, or `Layout.backfill_status` of a backfill."""
    store.write_json(path, status.model_dump(mode="json"))
