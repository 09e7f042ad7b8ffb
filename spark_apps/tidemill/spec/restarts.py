"""`restarts` of an environment: limits for restarting drivers that failed."""

from __future__ import annotations

from datetime import timedelta
from typing import Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from tidemill.spec.strict import Strict
from tidemill.spec.units import Count, Duration, format_duration

# Streams are checked once a minute (dags/tidemill_streams.py), so this is the minimum time between two
# starts.
VISIT_INTERVAL = timedelta(minutes=1)

# Maximum of `budget`. Must stay below the number of recorded endings of all kinds
# (control/decide/remembered.py: 100), or the budget could never be used up.
LARGEST_BUDGET = 50

# Minimum and maximum of each key. No driver is restarted without a pause, and every wait is far below the
# shortest retention of a source, which is a day.
_LIMITS = {
    "first_delay": (timedelta(seconds=1), timedelta(hours=1)),
    "longest_delay": (timedelta(seconds=1), timedelta(hours=1)),
    "window": (timedelta(minutes=1), timedelta(days=1)),
    "healthy_after": (timedelta(minutes=1), timedelta(days=1)),
}


class RestartPolicy(Strict):
    """Rules for restarting a driver that failed, and for holding it until an operator acts."""

    first_delay: Duration = Field(
        timedelta(seconds=10),
        validate_default=True,
        description="Delay after the first failure; it doubles with each further failure. 1 second to 1 "
        "hour. Each delay is shortened by up to half, depending on the pipeline's name, so that pipelines "
        "that failed together do not restart together.",
    )
    longest_delay: Duration = Field(
        timedelta(minutes=5),
        validate_default=True,
        description="Maximum delay; 1 second to 1 hour. It should be far below the source's retention.",
    )
    window: Duration = Field(
        timedelta(hours=1),
        validate_default=True,
        description="Time during which a crash counts against `budget`; 1 minute to 1 day.",
    )
    budget: Count = Field(
        6,
        le=LARGEST_BUDGET,
        description="Maximum number of crashes within `window`. After that, restarts pause until the oldest "
        "crash is older than `window`. Unavailable sources, sinks and storage do not count.",
    )
    healthy_after: Duration = Field(
        timedelta(minutes=10),
        validate_default=True,
        description="A driver that runs for this long and makes progress resets the count of failures; 1 "
        "minute to 1 day.",
    )
    fruitless_limit: Count = Field(
        4,
        le=LARGEST_BUDGET,
        description="Number of consecutive crashes before the first batch after which the stream is held "
        "until an operator acts. Restarts do not help a driver that never completes a batch.",
    )

    def delay(self, count: int) -> timedelta:
        """Return the maximum delay after the given number of consecutive failures."""
        # 2**20 seconds are 12 days. More doublings have no effect and would overflow timedelta.
        doubled: timedelta = self.first_delay * 2 ** min(count - 1, 20)
        return min(doubled, self.longest_delay)

    @field_validator(*_LIMITS)
    @classmethod
    def _within_limits(cls, value: timedelta, info: ValidationInfo) -> timedelta:
        shortest, longest = _LIMITS[str(info.field_name)]
        if not shortest <= value <= longest:
            raise ValueError(f"expected {format_duration(shortest)} to {format_duration(longest)}")
        return value

    @model_validator(mode="after")
    def _delays_grow(self) -> Self:
        if self.first_delay > self.longest_delay:
            raise ValueError("`first_delay` is longer than `longest_delay`")
        return self

    @model_validator(mode="after")
    def _budget_can_be_spent(self) -> Self:
        waits = (max(self.delay(count), VISIT_INTERVAL) for count in range(1, self.budget))
        takes = sum(waits, timedelta())
        if takes >= self.window:
            raise ValueError(
                f"the budget of {self.budget} crashes would never be spent: the waits between them take "
                f"{format_duration(takes)}, the window is {format_duration(self.window)}; lower `budget` or "
                "`longest_delay`, or raise `window`"
            )
        return self
