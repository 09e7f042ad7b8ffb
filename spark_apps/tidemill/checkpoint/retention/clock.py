"""Compute the time until a source deletes unread records. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal

from tidemill.checkpoint.findings import Finding
from tidemill.checkpoint.reading.state_folder import StateFolder
from tidemill.checkpoint.retention.rule import Retention
from tidemill.checkpoint.retention.table_properties import TableRetention
from tidemill.checkpoint.status import Status
from tidemill.spec.eventhubs_source import EventHubsSource
from tidemill.spec.pipeline import PipelineSpec
from tidemill.spec.project import Pipeline
from tidemill.spec.units import format_duration

# Kafka's default (log.retention.hours=168), and the maximum of Event Hubs Standard. It is used until the
# broker is asked, and for a hub without a declared retention.
ASSUMED_BROKER_RETENTION = timedelta(days=7)

# Shares of a source's retention at which the operator should be warned, and must act: with 7 days, about 42
# hours are left at the second one.
WARN_SHARE, URGENT_SHARE = 0.5, 0.75

# Urgency of the unread records.
Level = Literal["ok", "warn", "urgent", "lost"]


@dataclass(frozen=True)
class SourceRetention:
    """The retention of unread records at a source.

    Args:
        what: Name of the source.
        keeps: Retention; None means forever.
        certain: True if the source itself reported it and really deletes records then.
        covered: True if an archive keeps the records that the source deletes.
    """

    what: str
    keeps: timedelta | None
    certain: bool
    covered: bool = False


def assumed_retention(spec: PipelineSpec) -> SourceRetention:
    """Return the assumed retention of the stream's broker or hub, until it is asked."""
    hub = spec.source.event_hub
    if hub is not None and hub.kept is not None:
        return SourceRetention(f"declared for hub {hub.hub}; --broker asks it", hub.kept, False)
    return SourceRetention("Kafka's default; --broker asks the broker", ASSUMED_BROKER_RETENTION, False)


def shortest(found: Iterable[SourceRetention]) -> SourceRetention | None:
    """Return the shortest retention of a pipeline's sources; None if there is none."""
    return min(found, key=lambda source: source.keeps or timedelta.max, default=None)


def of_table(table: TableRetention) -> SourceRetention:
    """Return the retention of a Delta source: its log, and files removed by OPTIMIZE until a VACUUM."""
    if table.deleted_files < table.log:
        return SourceRetention(
            f"files of {table.path} that were removed, if VACUUM runs", table.deleted_files, False
        )
    return SourceRetention(f"log of {table.path}", table.log, True)


def clock_findings(folder: StateFolder, source: SourceRetention, now: datetime) -> list[Finding]:
    """Return TIDE-CKPT-057 if the pipeline has been idle for most of its source's retention."""
    seen = caught_up_at(folder)
    if seen is None or source.keeps is None or now - seen < source.keeps * URGENT_SHARE:
        return []
    gone = now - seen >= source.keeps
    return [
        Finding(
            "TIDE-CKPT-057",
            "error" if gone and source.certain and not source.covered else "warning",
            folder.name,
            "The pipeline has stood still so long that unread data may be gone from its source."
            if gone
            else "The pipeline has stood still for most of what its source keeps; then unread data is lost.",
            {
                "last_read": seen,
                "source": source.what,
                "keeps": format_duration(source.keeps),
                "left": max(timedelta(), source.keeps - (now - seen)),
                **({"covered_by_capture": True} if source.covered else {}),
            },
            f"tidemill start {folder.name}, or lengthen the source's retention now"
            + ("; what is gone, a backfill reads from the archive" if source.covered else ""),
            "retention-expired",
        )
    ]


def broker_findings(pipeline: str, source: SourceRetention, kept: Retention) -> list[Finding]:
    """Return TIDE-CKPT-062 if the broker's retention is shorter than the rewind window."""
    if source.keeps is None or not source.certain or source.keeps >= kept.asked:
        return []
    return [
        Finding(
            "TIDE-CKPT-062",
            "warning",
            pipeline,
            "The broker keeps records for less than `rewindable`: a rewind could not read them again.",
            {
                "source": source.what,
                "keeps": format_duration(source.keeps),
                "rewindable": format_duration(kept.asked),
            },
            "lengthen the topic's retention.ms, or lower run.rewindable",
            "retention-policy",
        )
    ]


def shortest_of_brokers(
    pipeline: Pipeline, ask: Callable[[Pipeline], SourceRetention | None]
) -> SourceRetention | None:
    """Return the shortest retention of all topics of a pipeline; None if no broker reports it.

    The result is "forever" only if every broker reports it, because a silent broker may keep less.
    """
    known = [
        _possible(ask(stream), stream.spec.source.event_hub)
        for stream in pipeline.streams.values()
        if stream.spec.source.is_kafka
    ]
    found = shortest(each for each in known if each is not None)
    return None if found is not None and found.keeps is None and None in known else found


def _possible(answer: SourceRetention | None, hub: EventHubsSource | None) -> SourceRetention | None:
    """Limit an answer to the maximum retention of the hub service; compacted hubs keep events forever."""
    if answer is None or answer.keeps is None or hub is None or hub.kept is None:
        return answer
    return replace(answer, keeps=min(answer.keeps, hub.longest_kept))


def time_to_data_loss(status: Status, now: datetime) -> float | None:
    """Return the seconds until unread records may be deleted; None if unknown.

    Unread records arrived after the pipeline had last read everything. So this is the minimum time left,
    because the oldest unread record may be younger. If a pipeline has never read everything, only its last
    progress is known, and the time counts from then. In that case the oldest unread record may be older.
    """
    since = status.caught_up_at or status.progressed_at
    if status.source_retention_seconds is None or since is None:
        return None
    return status.source_retention_seconds - (now - since).total_seconds()


def level_of(left: float, kept: float) -> Level:
    """Return the urgency for the seconds left of a retention; if none are left, records may be gone."""
    if left <= kept * (1 - URGENT_SHARE):
        return "urgent"
    return "warn" if left <= kept * (1 - WARN_SHARE) else "ok"


def caught_up_at(folder: StateFolder) -> datetime | None:
    """Return the latest time when the pipeline had surely read everything; None without a batch.

    The records of a batch are as old as its planning time. An older backlog is visible only in the status.
    The status records when nothing was left. An incremental run that ended clean has read everything.
    """
    status, receipt = folder.status, folder.receipt
    if folder.last_batch_at is None:
        return None
    moments = [folder.last_batch_at]
    if status is not None and status.caught_up_at is not None:
        moments.append(status.caught_up_at)
    if receipt is not None and receipt.mode == "incremental" and receipt.result == "clean":
        moments.append(receipt.stopped_at)
    return max(moments)
