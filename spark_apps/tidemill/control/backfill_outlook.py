"""All that is told of a plan before it is carried out: what it does, how much, how long, what is stale."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from tidemill.backfill.downstream import Stale, stale_behind
from tidemill.backfill.plan import BackfillPlan
from tidemill.backfill.volume import Volume, volume_of
from tidemill.control.backfills import estimate
from tidemill.control.plane import ControlPlane
from tidemill.spec.project import Pipeline
from tidemill.spec.units import format_duration


@dataclass(frozen=True)
class Outlook:
    """A plan with what it comes to.

    Args:
        plan: The plan.
        volume: Bytes.
        time: How long it will take; None if nothing is known of it.
        stale: What is stale behind it.
    """

    plan: BackfillPlan
    volume: Volume
    time: timedelta | None
    stale: list[Stale]

    def lines(self) -> list[str]:
        """As a person reads it."""
        behind = [line for part in self.stale for line in part.lines()]
        return [*self.plan.lines(), *self.volume.lines(), f"  time      {self._time}", *behind]

    @property
    def _time(self) -> str:
        if self.time is None:
            return "unknown: no backfill of the pipeline has told how fast it reads"
        told = format_duration(_rounded(self.time))
        return f"about {told}, estimated by the speed of the pipeline's last backfill"

    def as_document(self) -> dict[str, Any]:
        """Plain data; `time_estimate` in seconds."""
        return {
            **self.plan.as_document(),
            "volume": self.volume.as_document(),
            "time_estimate": None if self.time is None else self.time.total_seconds(),
            "downstream": [part.as_document() for part in self.stale],
        }


def _rounded(time: timedelta) -> timedelta:
    """To whole seconds, minutes or hours: an estimate has few digits."""
    unit = next(u for u in (3600, 60, 1) if u == 1 or time.total_seconds() >= 2 * u)
    return timedelta(seconds=max(1, round(time.total_seconds() / unit)) * unit)


def outlook_of(plane: ControlPlane, pipeline: Pipeline, plan: BackfillPlan) -> Outlook:
    """Look at what a plan comes to; changes nothing."""
    return Outlook(
        plan,
        volume_of(pipeline, plan),
        estimate(plane, plan),
        stale_behind(plane.store, pipeline, plan.bounds.times),
    )
