"""Time until a pipeline's unread records may be deleted from its source, and its urgency. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from tidemill.checkpoint.retention.clock import (
    Level,
    assumed_retention,
    level_of,
    shortest,
    time_to_data_loss,
)
from tidemill.checkpoint.status import Status
from tidemill.spec.pipeline import PipelineSpec
from tidemill.spec.readable import short_duration
from tidemill.spec.units import format_duration


@dataclass(frozen=True)
class DataLoss:
    """Retention of a source, and the part of it that is left.

    Args:
        left: Time until unread records may be deleted if nothing more is read; zero or less if they may be
            gone.
        keeps: Retention of the source.
        is_assumed: True if the retention is not known.
        since_progress: True if the time counts from the last progress, because it is unknown when all was
            read.
    """

    left: timedelta
    keeps: timedelta
    is_assumed: bool = False
    since_progress: bool = False

    @property
    def level(self) -> Level:
        """Return the level as the metric defines it; never urgent if the retention is only assumed."""
        level = level_of(self.left.total_seconds(), self.keeps.total_seconds())
        return "warn" if self.is_assumed and level == "urgent" else level

    @property
    def basis(self) -> str:
        """Return the basis of the estimate."""
        if self.is_assumed:
            keeps = format_duration(self.keeps)
            return f"since the last progress; the driver has not told what is kept: {keeps} assumed"
        if self.since_progress:
            return "since the last progress, as it has never read all, by what the source keeps"
        return "since all was read, by what the source keeps"

    @property
    def warning(self) -> str:
        """Return a sentence with the figures; empty while enough time is left."""
        if self.level == "ok":
            return ""
        left = self.left.total_seconds() > 0
        gone = f"may be gone in {short_duration(self.left)}" if left else "may be gone"
        since = "made no progress" if self.since_progress else "not read all"
        keeps = "is assumed to keep" if self.is_assumed else "keeps"
        return (
            f"unread records {gone}: it has {since} for {short_duration(self.keeps - self.left)}, "
            f"and its source {keeps} {format_duration(self.keeps)}"
        )


def data_loss_of(status: Status | None, spec: PipelineSpec | None, now: datetime) -> DataLoss | None:
    """Return the data loss of a pipeline; None if the source deletes nothing, or if nothing was ever read."""
    if status is None or status.source_keeps_for_ever:
        return None
    left, kept = time_to_data_loss(status, now), status.source_retention_seconds
    if left is not None and kept is not None:
        never_read_all = status.caught_up_at is None
        return DataLoss(timedelta(seconds=left), timedelta(seconds=kept), since_progress=never_read_all)
    streams = () if spec is None else spec.streams.values()
    assumed = shortest(assumed_retention(stream) for stream in streams if stream.source.is_kafka)
    if assumed is None or assumed.keeps is None or status.progressed_at is None:
        return None
    left_of_assumed = status.progressed_at + assumed.keeps - now
    return DataLoss(left_of_assumed, assumed.keeps, is_assumed=True, since_progress=True)
