"""State of a pipeline's event hubs, compared with the pipeline's progress. Writes nothing."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import pairwise
from typing import Any

from tidemill.checkpoint.doctor.hub import (
    HubFacts,
    LossClock,
    ReadSoFar,
    declared_findings,
    hub_findings,
    loss_clock,
    pace_of,
    partitions_advice,
)
from tidemill.checkpoint.findings import Finding
from tidemill.checkpoint.reading.batches import CheckpointBatches
from tidemill.checkpoint.reading.log_files import OffsetsFile
from tidemill.checkpoint.reading.state_folder import read_state_folder
from tidemill.checkpoint.retention.clock import caught_up_at
from tidemill.errors import TidemillError, UnavailableError
from tidemill.ledger.entry import Positions
from tidemill.spec.project import Environment, Pipeline, resolve_pipeline
from tidemill.spec.units import format_duration
from tidemill.storage.store import Store

AskHub = Callable[[Pipeline], HubFacts]

# Share of a hub's retention over which the reading speed is measured: 1 hour 40 minutes of a week.
PACE_SHARE = 0.01

# Minimum distance of two times, in steps of the search for a time, to measure a speed to a tenth.
STEPS = 20

_LONG_AGO = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True)
class HubView:
    """One hub.

    Args:
        hub: Its name.
        facts: Its properties; None if it did not answer.
        lag: Number of waiting events; None if it did not answer.
        clock: Time until an event is lost; None if it did not answer.
        findings: Contradictions to the declaration, or the reason why it did not answer.
    """

    hub: str
    facts: HubFacts | None
    lag: int | None
    clock: LossClock | None
    findings: tuple[Finding, ...]

    def document(self) -> dict[str, Any]:
        """Return plain data."""
        told: dict[str, Any] = {"hub": self.hub}
        if self.facts is not None:
            told |= {
                "created": self.facts.created,
                "lag": self.lag,
                "partitions": self._partitions(self.facts),
            }
        if self.clock is not None:
            left = None if self.clock.left is None else format_duration(self.clock.left)
            told |= {"time_to_loss": {"level": self.clock.level, "left": left, "covered": self.clock.covered}}
        return {**told, "findings": [finding.document() for finding in self.findings]}

    def line(self) -> str:
        """Return one readable line."""
        if self.facts is None or self.clock is None:
            return f"hub {self.hub}: does not answer"
        left = "" if self.clock.left is None else f" in {format_duration(self.clock.left)}"
        covered = "covered by Capture" if self.clock.covered else "not covered by Capture"
        return (
            f"hub {self.hub}: {len(self.facts.partitions)} partitions, {self.lag} events behind; "
            f"loss of unread events: {self.clock.level}{left}, {covered}"
        )

    @staticmethod
    def _partitions(facts: HubFacts) -> dict[str, Any]:
        return {
            number: {"oldest": each.beginning, "end": each.end, "last_enqueued": each.last_enqueued}
            for number, each in facts.partitions.items()
        }


def look_at_hubs(pipeline: Pipeline, ask: AskHub) -> list[HubView]:
    """Return the hub of each stream, by asking it; empty for a pipeline without hubs."""
    return [
        _look(stream, ask) for stream in pipeline.streams.values() if stream.spec.source.event_hub is not None
    ]


def advice_on_hubs(pipeline: Pipeline) -> list[dict[str, Any]]:
    """Return the hub of each stream from its declaration alone, without asking it."""
    streams = pipeline.streams.values()
    hubs = [(stream, hub) for stream in streams if (hub := stream.spec.source.event_hub) is not None]
    return [
        {
            "hub": hub.hub,
            "partitions_needed": partitions_advice(hub),
            "keeps": "not declared" if hub.kept is None else format_duration(hub.kept),
            "findings": [finding.document() for finding in declared_findings(stream)],
        }
        for stream, hub in hubs
    ]


def hub_findings_of(environment: Environment, names: Iterable[str]) -> list[Finding]:
    """Return the findings about the hubs of these pipelines; invalid declarations are reported elsewhere."""
    from tidemill.sources.hub_facts import ask_hub

    found: list[Finding] = []
    for name in names:
        with suppress(TidemillError):
            views = look_at_hubs(resolve_pipeline(environment, name), ask_hub)
            found += [finding for view in views for finding in view.findings]
    return found


def _look(pipeline: Pipeline, ask: AskHub) -> HubView:
    source = pipeline.spec.source.chosen
    now = datetime.now(UTC)
    try:
        # Read the progress first; otherwise a stream that continues would seem to be ahead of its hub.
        read = read_so_far(Store(pipeline.layout.root), pipeline, source.hub)
        facts = ask(pipeline)
        read = _with_backlog(pipeline, read, now)
    except TidemillError as error:
        silent = Finding(
            error.error_id, "warning", pipeline.name, error.problem, error.facts, error.fix, error.runbook
        )
        return HubView(source.hub, None, None, None, (silent, *declared_findings(pipeline)))
    findings = tuple(hub_findings(pipeline, facts, read, now))
    lag = facts.lag(read.positions, source.hub)
    return HubView(source.hub, facts, lag, loss_clock(source, facts, read, now), findings)


def _with_backlog(pipeline: Pipeline, read: ReadSoFar, now: datetime) -> ReadSoFar:
    """Return the progress of a stream that may lag behind, whose newest batch read older events."""
    from tidemill.sources.oldest_unread import all_read_before

    source = pipeline.spec.source.eventhubs
    if source is None or source.kept is None or read.at is None or not read.positions:
        return read
    try:
        moment = all_read_before(pipeline, read.positions, source.kept, now)
    except UnavailableError:
        # The hub has answered the other questions on another port.
        return read
    if moment is None:
        return read
    pace = None
    with suppress(TidemillError):
        pace = _pace(pipeline, source.hub, source.kept, (moment, now))
    return replace(read, at=min(read.at, moment), pace=pace)


def _pace(pipeline: Pipeline, hub: str, kept: timedelta, read: tuple[datetime, datetime]) -> float | None:
    """Return the reading speed in seconds of events per second, given the time before which all is read."""
    from tidemill.sources.oldest_unread import HALVINGS, all_read_before

    moment, now = read
    late = read_of_late(Store(pipeline.layout.root), pipeline, hub, now - kept * PACE_SHARE)
    if late is None or late.earlier.at is None or now - late.earlier.at < STEPS * kept / 2**HALVINGS:
        return None
    if late.newest < now - max(kept * PACE_SHARE, 2 * late.between):
        # The pipeline makes no progress.
        return 0.0
    before = all_read_before(pipeline, late.earlier.positions, kept, now)
    return None if before is None else pace_of(before, moment, (now - late.earlier.at).total_seconds())


def read_so_far(store: Store, pipeline: Pipeline, hub: str) -> ReadSoFar:
    """Return the position of the newest finished batch in a hub."""
    folder = read_state_folder(store, pipeline.layout, pipeline.name)
    if folder.live is None or not folder.live.commits:
        return ReadSoFar({})
    found = CheckpointBatches(store, folder.live.path).offsets(folder.live.commits[-1])
    return ReadSoFar(_positions(found, hub), caught_up_at(folder))


@dataclass(frozen=True)
class ReadOfLate:
    """Data for measuring a pipeline's reading speed.

    Args:
        newest: Time at which the newest finished batch was planned.
        between: Recent time between two batches.
        earlier: Progress at the time when an earlier batch was planned.
    """

    newest: datetime
    between: timedelta
    earlier: ReadSoFar


def read_of_late(store: Store, pipeline: Pipeline, hub: str, since: datetime) -> ReadOfLate | None:
    """Return the newest batches and one planned before `since`, or the oldest one that is kept.

    None if fewer than two are kept.
    """
    live = read_state_folder(store, pipeline.layout, pipeline.name).live
    if live is None or len(live.commits) < 2:
        return None
    batches = CheckpointBatches(store, live.path)

    @cache
    def planned_at(number: int) -> datetime:
        found = batches.offsets(number)
        return _LONG_AGO if found is None or found.planned_at is None else found.planned_at

    moments = [planned_at(number) for number in live.commits[-4:]]
    between = min(after - before for before, after in pairwise(moments))
    kept = live.commits[:-1]
    found = batches.offsets(kept[max(0, bisect_right(kept, since, key=planned_at) - 1)])
    if found is None:
        return None
    return ReadOfLate(moments[-1], between, ReadSoFar(_positions(found, hub), found.planned_at))


def _positions(found: OffsetsFile | None, hub: str) -> Positions:
    """Return the end position of a batch in a hub; the lowest of several streams."""
    ends = [
        end[hub]
        for end in ({} if found is None else found.ends).values()
        if isinstance(end, dict) and hub in end
    ]
    numbers = {number for end in ends for number in end}
    return {hub: {number: min(end.get(number, 0) for end in ends) for number in numbers}} if ends else {}
