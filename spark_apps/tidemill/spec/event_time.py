"""When things happened: `event_time: {column: …, watermark: …, late: drop | table}`."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal

from pydantic import Field, field_validator

from tidemill.spec.strict import Strict
from tidemill.spec.text import Column
from tidemill.spec.units import Duration, DurationOrOff


class EventTime(Strict):
    """The column that says when something happened, and how late it may arrive."""

    column: Column = Field(description="Timestamp column, after decoding.")
    watermark: Duration = Field(description="How far behind the latest event an event may still arrive.")
    max_ahead: DurationOrOff = Field(
        timedelta(hours=1),
        description="How far an event may be ahead of its arrival (the broker's timestamp, the file's time, "
        "never later than the clock); one that is further goes to the quarantine, because it would make "
        "all others late. `off` accepts every event.",
        validate_default=True,
    )
    late: Literal["drop", "table"] = Field(
        "drop",
        description="What becomes of rows that come behind the watermark. drop: stateful steps leave them "
        "out, and they are counted. table: each is set aside once, before the transform, into the table "
        "late/<pipeline>.",
    )
    window: Duration | None = Field(
        None,
        description="Length of the result's windows. It is found in the transform; what is written here must "
        "agree.",
    )

    @field_validator("window")
    @classmethod
    def _window_has_a_length(cls, window: timedelta | None) -> timedelta | None:
        if window is not None and window <= timedelta(0):
            raise ValueError("a window is longer than nothing")
        return window
