"""What an event hub says of itself, and what that says against the declaration. Pure.

id              what
TIDE-HUB-020    the hub was made after the pipeline had read it: another one of the same name
TIDE-HUB-021    fewer partitions than throughput units
TIDE-HUB-022    a full batch takes more than the throughput units give between two triggers
TIDE-HUB-023    events that were not read are about to leave, or have left
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

# What a throughput unit lets consumers read, by Azure's quotas.
EVENTS_PER_SECOND_AND_UNIT = 4096

# The same, however fast it is read: a stop of minutes would lose it.
LAST_SHARE = 0.98


@dataclass(frozen=True)
class HubPartition:
    """One partition.

    Args:
        beginning: Sequence number of the oldest event; that of the next one, if there is none.
        end: Sequence number of the next event.
        last_enqueued: When the newest event came; None if there never was one.
    """

    beginning: int
    end: int
    last_enqueued: datetime | None


@dataclass(frozen=True)
class HubFacts:
    """A hub.

    Args:
        created: When it was made: what tells it from another one of its name.
        partitions: By number.
    """

    created: datetime
    partitions: Mapping[str, HubPartition]

    def lag(self, read: Positions, hub: str) -> int:
        """Events beyond what was read; all that are there of a partition that was not."""
        return sum(
            max(0, partition.end - max(read.get(hub, {}).get(number, 0), partition.beginning))
            for number, partition in self.partitions.items()
        )

    def unread_since(self, read: Positions, hub: str) -> bool:
        """Whether an event has left unread."""
        return any(
            read.get(hub, {}).get(number, partition.beginning) < partition.beginning
            for number, partition in self.partitions.items()
        )


@dataclass(frozen=True)
class ReadSoFar:
    """What a pipeline has read of its hub.

    Args:
        positions: Next sequence number of each partition.
        at: When all that is before them was there: the newest batch's moment; None before the first.
        pace: Seconds of events that are read in a second, of late; None if nobody could tell.
    """

    positions: Positions
    at: datetime | None = None
    pace: float | None = None


@dataclass(frozen=True)
class LossClock:
    """How long until an event that was not read leaves the hub.

    Args:
        level: How urgent.
        left: At the present speed; None if everything is read, or kept, or read before it leaves.
        covered: Whether the hub's archive keeps the events.
    """

    level: Level
    left: timedelta | None
    covered: bool


def hub_findings(pipeline: Pipeline, facts: HubFacts, read: ReadSoFar, now: datetime) -> list[Finding]:
    """What speaks against the declaration, or against going on."""
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
    """The findings of the one stream that need no hub."""
    source = pipeline.spec.source.event_hub
    return [] if source is None else list(_beyond_units(pipeline, source))


def partitions_advice(source: EventHubsSource) -> str:
    """The number of partitions that the throughput units need."""
    units = source.throughput_units
    number = "at least one for each throughput unit" if units is None else f"at least {units}"
    declare = "; declare `throughput_units` for the number" if units is None else ""
    return (
        f"{number}, because one partition takes at most one unit: 1 MB or 1,000 events a second in, 2 MB or "
        f"{EVENTS_PER_SECOND_AND_UNIT:,} events out{declare}"
    )


def loss_clock(source: EventHubsSource, facts: HubFacts, read: ReadSoFar, now: datetime) -> LossClock:
    """Events that came after the newest batch are at most as old as that.

    The oldest unread event grows older by what is not read of each second.
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
    # However fast it reads: a short stop would lose events then.
    is_near = unless_read <= kept * (1 - URGENT_SHARE)
    is_slow = left is not None and left <= kept * (1 - WARN_SHARE)
    return LossClock("warn" if is_near or is_slow else "ok", left, covered)


def _rounded(left: timedelta) -> timedelta:
    """To hours, or minutes where few are left: nobody knows it better."""
    unit = timedelta(hours=1) if left >= timedelta(hours=12) else timedelta(minutes=1)
    return left // unit * unit


def pace_of(read_before: datetime, read_now: datetime, seconds: float) -> float | None:
    """Seconds of events that were read in a second, between two looks so many seconds apart."""
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
    # What the archive keeps can be brought into the tables later; what it does not is gone for good.
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
