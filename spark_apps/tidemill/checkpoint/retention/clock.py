"""How long until what a pipeline has not read yet is gone from its source. Pure."""

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

# Kafka's own default (log.retention.hours=168), and the most that Event Hubs Standard can keep. Counts as
# long as the broker was not asked, and where a hub's declaration does not say how long it keeps events.
ASSUMED_BROKER_RETENTION = timedelta(days=7)

# Parts of a source's retention after which a person should know, and must act: with 7 days, some 42 hours are
# left then.
WARN_SHARE, URGENT_SHARE = 0.5, 0.75

# How urgent it is that a pipeline reads on.
Level = Literal["ok", "warn", "urgent", "lost"]


@dataclass(frozen=True)
class SourceRetention:
    """How long a source keeps what was not read.

    Args:
        what: Names the source.
        keeps: None for ever.
        certain: Whether the source itself said so, and really deletes then.
        covered: Whether an archive keeps what the source forgets.
    """

    what: str
    keeps: timedelta | None
    certain: bool
    covered: bool = False


def assumed_retention(spec: PipelineSpec) -> SourceRetention:
    """The retention that is assumed of the one stream's broker or hub until it is asked."""
    hub = spec.source.event_hub
    if hub is not None and hub.kept is not None:
        return SourceRetention(f"declared for hub {hub.hub}; --broker asks it", hub.kept, False)
    return SourceRetention("Kafka's default; --broker asks the broker", ASSUMED_BROKER_RETENTION, False)


def shortest(found: Iterable[SourceRetention]) -> SourceRetention | None:
    """What forgets first of what a pipeline reads; None if nothing tells."""
    return min(found, key=lambda source: source.keeps or timedelta.max, default=None)


def of_table(table: TableRetention) -> SourceRetention:
    """What a Delta source keeps: its log, and files removed by OPTIMIZE until a VACUUM takes them."""
    if table.deleted_files < table.log:
        return SourceRetention(
            f"files of {table.path} that were removed, if VACUUM runs", table.deleted_files, False
        )
    return SourceRetention(f"log of {table.path}", table.log, True)


def clock_findings(folder: StateFolder, source: SourceRetention, now: datetime) -> list[Finding]:
    """TIDE-CKPT-057, if the pipeline has stood still for most of what its source keeps."""
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
    """TIDE-CKPT-062, if the broker forgets sooner than the pipeline can be rewound."""
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
    """The shortest retention of all topics that a pipeline reads; None if no broker tells.

    For ever only if each broker says so: one that is silent may keep less.
    """
    known = [
        _possible(ask(stream), stream.spec.source.event_hub)
        for stream in pipeline.streams.values()
        if stream.spec.source.is_kafka
    ]
    found = shortest(each for each in known if each is not None)
    return None if found is not None and found.keeps is None and None in known else found


def _possible(answer: SourceRetention | None, hub: EventHubsSource | None) -> SourceRetention | None:
    """The answer, but no longer than the service of a hub keeps events; compacted ones it keeps for ever."""
    if answer is None or answer.keeps is None or hub is None or hub.kept is None:
        return answer
    return replace(answer, keeps=min(answer.keeps, hub.longest_kept))


def time_to_data_loss(status: Status, now: datetime) -> float | None:
    """Seconds until records that were not read may be gone; None where that is not known.

    What is not read yet came after the pipeline had last read all that there was. So this is the least time
    that is left: the oldest unread record may be younger. Of a pipeline that has never read all, the last
    progress alone is known, and the time counts from then: its oldest unread record may be older.
    """
    since = status.caught_up_at or status.progressed_at
    if status.source_retention_seconds is None or since is None:
        return None
    return status.source_retention_seconds - (now - since).total_seconds()


def level_of(left: float, kept: float) -> Level:
    """How urgent it is with so many seconds left of those that the source keeps; none: they may be gone."""
    if left <= kept * (1 - URGENT_SHARE):
        return "urgent"
    return "warn" if left <= kept * (1 - WARN_SHARE) else "ok"


def caught_up_at(folder: StateFolder) -> datetime | None:
    """When the pipeline had last read, or surely found, all that there was; None without a batch.

    A batch was planned with what there was then (a backlog is older than that: only its status tells). The
    status tells when nothing was left. An incremental run that ended clean has read everything.
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
