"""The event time of records: `event_time: {column: …, watermark: …, late: drop | table}`."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal

from pydantic import Field, field_validator

from tidemill.spec.strict import Strict
from tidemill.spec.text import Column
from tidemill.spec.units import Duration, DurationOrOff


class EventTime(Strict):
    """The event-time column, and how late events may arrive."""

    column: Column = Field(description="Timestamp column, after decoding.")
    watermark: Duration = Field(description="Maximum delay of an event behind the latest event.")
    max_ahead: DurationOrOff = Field(
        timedelta(hours=1),
        description="Maximum time by which an event may be ahead of its arrival (the broker's timestamp or "
        "the file's time, never later than the clock). Events further ahead go to the quarantine, because "
        "they would make all others late. `off` accepts every event.",
        validate_default=True,
    )
    late: Literal["drop", "table"] = Field(
        "drop",
        description="Handling of rows that are later than the watermark. drop: stateful operators drop and "
        "count them. table: each of these rows is written once, before the transform, to the table "
        "late/<pipeline>.",
    )
    window: Duration | None = Field(
        None,
        description="Length of the result's windows. It is detected in the transform, and a value here must "
        "agree with it.",
    )

    @field_validator("window")
    @classmethod
    def _window_has_a_length(cls, window: timedelta | None) -> timedelta | None:
        if window is not None and window <= timedelta(0):
            raise ValueError("a window is longer than nothing")
        return window
