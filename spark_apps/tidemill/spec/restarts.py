"""`restarts` of an environment: the bounds within which a driver that ended badly is started again."""

from __future__ import annotations

from datetime import timedelta
from typing import Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from tidemill.spec.strict import Strict
from tidemill.spec.units import Count, Duration, format_duration

# Streams are looked at once a minute (dags/tidemill_streams.py), so no two starts are closer.
VISIT_INTERVAL = timedelta(minutes=1)

# Crashes that a budget may allow. Must stay below the endings that are remembered, other bad ends among them
# (control/decide/remembered.py: 100), or it could never be spent.
LARGEST_BUDGET = 50

# Shortest and longest value of each. No driver is started in a loop without a pause; and no wait comes near
# the shortest retention of a source, a day.
_LIMITS = {
    "first_delay": (timedelta(seconds=1), timedelta(hours=1)),
    "longest_delay": (timedelta(seconds=1), timedelta(hours=1)),
    "window": (timedelta(minutes=1), timedelta(days=1)),
    "healthy_after": (timedelta(minutes=1), timedelta(days=1)),
}


class RestartPolicy(Strict):
    """When a driver that ended badly is started again, and when a human must look first."""

    first_delay: Duration = Field(
        timedelta(seconds=10),
        validate_default=True,
        description="Wait after the first bad end; doubles with each further one. 1 second to 1 hour. Each "
        "wait is cut by up to half, by the pipeline's name, so that pipelines that failed together do not "
        "come back together.",
    )
    longest_delay: Duration = Field(
        timedelta(minutes=5),
        validate_default=True,
        description="Wait at most, well below the source's retention; 1 second to 1 hour.",
    )
    window: Duration = Field(
        timedelta(hours=1),
        validate_default=True,
        description="Crashes older than this do not count against `budget`; 1 minute to 1 day.",
    )
    budget: Count = Field(
        6,
        le=LARGEST_BUDGET,
        description="Crashes within `window` before restarts pause until the oldest leaves it. Sources, "
        "sinks and storage that are unavailable cost nothing.",
    )
    healthy_after: Duration = Field(
        timedelta(minutes=10),
        validate_default=True,
        description="A driver that ran this long and made progress clears what was before. 1 minute to "
        "1 day.",
    )
    fruitless_limit: Count = Field(
        4,
        le=LARGEST_BUDGET,
        description="Crashes in a row before the first batch, after which the stream is held until someone "
        "acts: no restart helps a driver that never lives long enough for one batch.",
    )

    def delay(self, count: int) -> timedelta:
        """The longest wait after the given number of bad ends in a row."""
        # 2**20 seconds are 12 days: more doublings say nothing, and overflow timedelta in the end.
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
