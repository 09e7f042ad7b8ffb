"""Compare the facts of an event hub with the declaration. Pure.

id              what
TIDE-HUB-020    the hub was recreated after the pipeline had read it
TIDE-HUB-021    fewer partitions than throughput units
TIDE-HUB-022    a full batch needs more than the throughput units give between two triggers
TIDE-HUB-023    unread events are about to leave the hub, or have left
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from tidemill.checkpoint.findings import Finding, Severity
from tidemill.checkpoint.retention.clock import URGENT_SHARE, WARN_SHARE, Level
from tidemill.ledger.entry import Positions
from tidemill.spec.eventhubs_source import EventHubsSource
from tidemill.spec.project import Pipeline
from tidemill.spec.units import format_duration

# Read quota of a throughput unit, by Azure's documentation.
EVENTS_PER_SECOND_AND_UNIT = 4096

# Share of the retention that is urgent at any read speed, because a stop of minutes would lose events.
LAST_SHARE = 0.98


@dataclass(frozen=True)
class HubPartition:
    """One partition.

    Args:
        beginning: Sequence number of the oldest event, or of the next one if there is none.
        end: Sequence number of the next event.
        last_enqueued: Time of the newest event; None if there never was one.
    """

    beginning: int
    end: int
    last_enqueued: datetime | None


@dataclass(frozen=True)
class HubFacts:
    """A hub.

    Args:
        created: Creation time, which distinguishes the hub from another one of its name.
        partitions: Partitions by number.
    """

    created: datetime
    partitions: Mapping[str, HubPartition]

    def lag(self, read: Positions, hub: str) -> int:
        """Return the number of unread events; for a partition that was never read, all its events."""
        return sum(
            max(0, partition.end - max(read.get(hub, {}).get(number, 0), partition.beginning))
            for number, partition in self.partitions.items()
        )

    def unread_since(self, read: Positions, hub: str) -> bool:
        """Return True if an event has left the hub unread."""
        return any(
            read.get(hub, {}).get(number, partition.beginning) < partition.beginning
            for number, partition in self.partitions.items()
        )


@dataclass(frozen=True)
class ReadSoFar:
    """The read position of a pipeline in its hub.

    Args:
        positions: Next sequence number of each partition.
        at: Time of the newest batch, when all events before the positions existed; None before the first
            batch.
        pace: Recently read seconds of events per second; None if unknown.
    """

    positions: Positions
    at: datetime | None = None
    pace: float | None = None


@dataclass(frozen=True)
class LossClock:
    """The time until an unread event leaves the hub.

    Args:
        level: Urgency.
        left: Time left at the present read speed; None if no unread event will leave.
        covered: True if the hub's archive keeps the events.
    """

    level: Level
    left: timedelta | None
    covered: bool


def hub_findings(pipeline: Pipeline, facts: HubFacts, read: ReadSoFar, now: datetime) -> list[Finding]:
    """Return the findings about the declaration and about the unread events."""
    source = pipeline.spec.source.event_hub
    if source is None:
        return []
    return [
        *_made_again(pipeline, source, facts, read),
        *_too_few_partitions(pipeline, source, facts),
        *_beyond_units(pipeline, source),
        *_about_to_leave(pipeline, source, facts, read, now),
    ]


def declared_findings(pipeline: Pipeline) -> list[Finding]:
    """Return the findings of the stream that need no facts of the hub."""
    source = pipeline.spec.source.event_hub
    return [] if source is None else list(_beyond_units(pipeline, source))


def partitions_advice(source: EventHubsSource) -> str:
    """Return advice on the number of partitions that the throughput units need."""
    units = source.throughput_units
    number = "at least one for each throughput unit" if units is None else f"at least {units}"
    declare = "; declare `throughput_units` for the number" if units is None else ""
    return (
        f"{number}, because one partition takes at most one unit: 1 MB or 1,000 events a second in, 2 MB or "
        f"{EVENTS_PER_SECOND_AND_UNIT:,} events out{declare}"
    )


def loss_clock(source: EventHubsSource, facts: HubFacts, read: ReadSoFar, now: datetime) -> LossClock:
    """Compute the time until unread events leave; events after the newest batch are at most as old as it.

    Each second, the oldest unread event ages by the share of that second that is not read.
    """
    covered = source.capture is not None
    if facts.unread_since(read.positions, source.hub):
        return LossClock("lost", timedelta(), covered)
    kept = source.kept
    if read.at is None or kept is None or facts.lag(read.positions, source.hub) == 0:
        return LossClock("ok", None, covered)
    unless_read = max(timedelta(), kept - (now - read.at))
    pace = 0.0 if read.pace is None else max(0.0, read.pace)
    left = None if pace >= 1 else _rounded(unless_read / (1 - pace))
    is_soon = left is not None and left <= kept * (1 - URGENT_SHARE)
    if is_soon or unless_read <= kept * (1 - LAST_SHARE):
        return LossClock("urgent", left, covered)
    # At any read speed, because a short stop would lose events then.
    is_near = unless_read <= kept * (1 - URGENT_SHARE)
    is_slow = left is not None and left <= kept * (1 - WARN_SHARE)
    return LossClock("warn" if is_near or is_slow else "ok", left, covered)


def _rounded(left: timedelta) -> timedelta:
    """Round to hours, or to minutes if few hours are left; the estimate is not more precise."""
    unit = timedelta(hours=1) if left >= timedelta(hours=12) else timedelta(minutes=1)
    return left // unit * unit


def pace_of(read_before: datetime, read_now: datetime, seconds: float) -> float | None:
    """Return the seconds of events that were read per second, between two measurements."""
    return None if seconds <= 0 else (read_now - read_before).total_seconds() / seconds


def _made_again(
    pipeline: Pipeline, source: EventHubsSource, facts: HubFacts, read: ReadSoFar
) -> Iterator[Finding]:
    ahead = {
        number: f"{position} > {facts.partitions[number].end}"
        for number, position in read.positions.get(source.hub, {}).items()
        if number in facts.partitions and position > facts.partitions[number].end
    }
    if ahead or (read.at is not None and facts.created > read.at):
        yield Finding(
            "TIDE-HUB-020",
            "error",
            pipeline.name,
            "The hub was deleted and made again under its name: sequence numbers mean other events.",
            {
                "hub": source.hub,
                "created": facts.created,
                "last_read": read.at,
                **({"ahead": ahead} if ahead else {}),
            },
            f"tidemill checkpoint reset {pipeline.name} --from earliest",
            "topic-recreated",
        )


def _too_few_partitions(pipeline: Pipeline, source: EventHubsSource, facts: HubFacts) -> Iterator[Finding]:
    units = source.throughput_units
    if units is not None and len(facts.partitions) < units:
        yield Finding(
            "TIDE-HUB-021",
            "warning",
            pipeline.name,
            "The hub has fewer partitions than throughput units: one partition takes one unit at most.",
            {"hub": source.hub, "partitions": len(facts.partitions), "throughput_units": units},
            "make a hub with at least one partition per unit, or pay for fewer units",
            "tuning",
        )


def _beyond_units(pipeline: Pipeline, source: EventHubsSource) -> Iterator[Finding]:
    units, limit = source.throughput_units, source.max_offsets_per_batch
    seconds = pipeline.spec.run.trigger.total_seconds()
    if units is None or limit is None or pipeline.spec.run.mode != "stream":
        return
    given = int(units * EVENTS_PER_SECOND_AND_UNIT * seconds)
    if given and limit > given:
        yield Finding(
            "TIDE-HUB-022",
            "note",
            pipeline.name,
            "A full batch takes more events than the hub gives between two triggers; it will be throttled.",
            {"max_offsets_per_batch": limit, "throughput_units": units, "events_per_trigger": given},
            f"set max_offsets_per_batch to {given}, or take more throughput units",
            "tuning",
        )


def _about_to_leave(
    pipeline: Pipeline, source: EventHubsSource, facts: HubFacts, read: ReadSoFar, now: datetime
) -> Iterator[Finding]:
    clock = loss_clock(source, facts, read, now)
    if clock.level == "ok":
        return
    # Archived events can be brought into the tables later; others are lost.
    severity: Severity = "warning" if clock.covered or clock.level == "warn" else "error"
    lost = clock.level == "lost"
    yield Finding(
        "TIDE-HUB-023",
        severity,
        pipeline.name,
        "Events left the hub before they were read."
        if lost
        else "Events that were not read are about to leave the hub.",
        {
            "hub": source.hub,
            "level": clock.level,
            "left": "not lost at the present speed" if clock.left is None else format_duration(clock.left),
            "behind": facts.lag(read.positions, source.hub),
            "covered_by_capture": clock.covered,
        },
        f"`tidemill backfill plan {pipeline.name} --from BEGIN --to END` reads them from the archive"
        if clock.covered and lost
        else f"let it read faster, `tidemill start {pipeline.name}` if it stands still, or lengthen the "
        "hub's retention now",
        "retention-expired",
    )
