"""The preview of a plan: its effects, volume, duration and stale tables."""

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
    """A plan with its preview.

    Args:
        plan: The plan.
        volume: Bytes to read and write.
        time: Estimated duration; None if unknown.
        stale: Downstream pipelines and tables that become stale.
    """

    plan: BackfillPlan
    volume: Volume
    time: timedelta | None
    stale: list[Stale]

    def lines(self) -> list[str]:
        """Return the preview as readable lines."""
        behind = [line for part in self.stale for line in part.lines()]
        return [*self.plan.lines(), *self.volume.lines(), f"  time      {self._time}", *behind]

    @property
    def _time(self) -> str:
        if self.time is None:
            return "unknown: no backfill of the pipeline has told how fast it reads"
        told = format_duration(_rounded(self.time))
        return f"about {told}, estimated by the speed of the pipeline's last backfill"

    def as_document(self) -> dict[str, Any]:
        """Return plain data; `time_estimate` in seconds."""
        return {
            **self.plan.as_document(),
            "volume": self.volume.as_document(),
            "time_estimate": None if self.time is None else self.time.total_seconds(),
            "downstream": [part.as_document() for part in self.stale],
        }


def _rounded(time: timedelta) -> timedelta:
    """Return the time rounded to whole seconds, minutes or hours, because it is an estimate."""
    unit = next(u for u in (3600, 60, 1) if u == 1 or time.total_seconds() >= 2 * u)
    return timedelta(seconds=max(1, round(time.total_seconds() / unit)) * unit)


def outlook_of(plane: ControlPlane, pipeline: Pipeline, plan: BackfillPlan) -> Outlook:
    """Return the preview of a plan; changes nothing."""
    return Outlook(
        plan,
        volume_of(pipeline, plan),
        estimate(plane, plan),
        stale_behind(plane.store, pipeline, plan.bounds.times),
    )
