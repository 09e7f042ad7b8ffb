"""Explain a pipeline in sentences: purpose, state, what it waits for, and batch time. Pure.

The facts are also in `plan`, `status` and the doctor's report; this text is for a reader who does not know
the pipeline.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

from tidemill.checkpoint.doctor.measured import LEAST_BATCHES, Measured, words_of
from tidemill.checkpoint.retention.clock import time_to_data_loss
from tidemill.checkpoint.status import Status
from tidemill.control.decide.endings import Ending
from tidemill.control.decide.reconcile import RUNS
from tidemill.control.stream_status import PipelineState
from tidemill.spec.pipeline import PipelineSpec
from tidemill.spec.project import Pipeline
from tidemill.spec.readable import readable_size, short_duration, shown
from tidemill.spec.units import format_duration

HEADINGS = {
    "does": "What it does",
    "stands": "How it stands",
    "waits_for": "What it waits for",
    "time": "Where its time goes",
}


@dataclass(frozen=True)
class Explanation:
    """Sentences under four headings.

    Args:
        does: Input, processing, output and schedule.
        stands: Requested state, running driver, and progress.
        waits_for: Reason why nothing happens, or the next action.
        time: Duration of a typical batch and of its phases.
    """

    does: tuple[str, ...]
    stands: tuple[str, ...]
    waits_for: tuple[str, ...]
    time: tuple[str, ...]

    def document(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self)

    @property
    def paragraphs(self) -> list[tuple[str, tuple[str, ...]]]:
        """Return headings with their sentences; headings without sentences are left out."""
        return [(heading, said) for key, heading in HEADINGS.items() if (said := getattr(self, key))]


def explain_pipeline(pipeline: Pipeline, state: PipelineState, measured: Measured | None) -> Explanation:
    """Explain one pipeline.

    Args:
        pipeline: Its declaration.
        state: Its requested and actual state.
        measured: Measurements of its newest batches; None without measurements.
    """
    return Explanation(
        tuple(_does(pipeline)),
        tuple(_stands(state)),
        tuple(_waits_for(pipeline, state)),
        () if measured is None or not measured.has_batches else tuple(_time(measured)),
    )


def _does(pipeline: Pipeline) -> Iterator[str]:
    spec = pipeline.spec
    yield spec.description
    for stream in spec.streams.values():
        yield from _reads(stream)
    for name, table in spec.tables.items():
        yield f"Joins each batch with the newest version of the table {table}, as `{name}`."
    for name, part in spec.joined_files.items():
        yield f"Joins each batch with the {part.file_format} files of {part.source.chosen.path}, as `{name}`."
    if spec.transform is not None:
        yield f"Makes its rows by the transform {spec.transform}."
    if spec.models:
        yield f"Applies the models {', '.join(sorted(spec.models))}."
    for sink in spec.sinks:
        place = f"the table {sink.place}" if sink.delta is not None else sink.place
        mode = sink.chosen.mode
        yield f"Writes to {place}{f' by {mode}' if mode else ''}."
    if spec.has_quarantine:
        yield "Sets aside, in a quarantine table, what does not fit."
    yield _when(spec)


def _reads(stream: PipelineSpec) -> Iterator[str]:
    source, payload, event_time = stream.source, stream.payload, stream.event_time
    form = "" if payload is None else f", as {payload.format}"
    yield f"Reads {_place(stream)}{form}."
    kafka = source.kafka or source.event_hub
    if kafka is not None and kafka.max_offsets_per_batch:
        yield f"A batch has at most {kafka.max_offsets_per_batch:,} of its records."
    if event_time is not None:
        late = format_duration(event_time.watermark)
        yield f"Its rows may come {late} later than newer ones (event time `{event_time.column}`)."


def _place(stream: PipelineSpec) -> str:
    source = stream.source
    if source.iothub is not None:
        return f"the messages of the IoT hub {source.iothub.hub}"
    if source.event_hub is not None:
        return f"the event hub {source.event_hub.hub} of {source.event_hub.namespace}"
    if source.kafka is not None:
        topics = source.topics_or_pattern
        if isinstance(topics, re.Pattern):
            return f"the topics that match {topics.pattern}"
        return f"the topic{'s' if len(topics) > 1 else ''} {', '.join(topics)}"
    if source.delta is not None:
        return f"the table {source.delta.table}"
    if source.files is not None:
        return f"{stream.file_format} files in {source.files.path}"
    return f"the source {source.kind}"


def _when(spec: PipelineSpec) -> str:
    run = spec.run
    if run.is_without_batches(run.mode):
        return (
            "Runs all the time, and writes each row as it comes, at least once: what was written since the "
            f"newest note in its checkpoint, one every {format_duration(run.trigger)}, is written again "
            "after a stop or a crash."
        )
    if run.mode == "stream":
        return (
            f"Runs all the time, with a batch every {format_duration(run.trigger)}."
            if run.trigger
            else ("Runs all the time, batch after batch.")
        )
    return f"Runs by the schedule {run.schedule}." if run.schedule else "Runs when it is asked to."


def _stands(state: PipelineState) -> Iterator[str]:
    facts, status = state.facts, state.status
    yield f"Asked of it: {state.wish}."
    if facts.running is not None:
        since = shown(facts.running.started_at)
        yield f"The driver {facts.running.run_id} runs ({facts.running.process}), since {since} UTC."
    elif facts.endings:
        last = facts.endings[-1]
        cause = f": {last.cause}" if last.cause else ""
        yield _sentence(f"No driver runs. The last one, {last.run_id}, ended {last.result}{cause}")
    elif status is None:
        yield "It has never run here."
    else:
        yield f"No driver of this control plane runs. {status.run_id} was {status.state} at last."
    if status is not None:
        yield from _progress(status, facts.now)


def _progress(status: Status, now: datetime) -> Iterator[str]:
    if status.batch_id is not None and status.batch_committed_at is not None:
        ago = short_duration(now - status.batch_committed_at)
        what = "Note" if status.trigger else "Batch"
        yield f"{what} {status.batch_id} was committed {ago} ago."
    counted = [
        f"{number:,} {what}"
        for number, what in (
            (status.rows, "rows"),
            (status.quarantined_rows, "rows set aside"),
            (status.late_rows, "rows too late"),
            (status.no_event_time_rows, "rows without an event time"),
        )
        if number
    ]
    if counted:
        yield f"Since its driver started: {', '.join(counted)}."
    if status.lag is not None:
        yield (
            f"{status.lag:,} records wait at its source." if status.lag else "It has read all that there is."
        )
    yield from _watermarks(status)
    for note in status.notes:
        yield f"Of its input: {note}."
    left = time_to_data_loss(status, now)
    if left is not None:
        yield _unread_left(status, left)


def _watermarks(status: Status) -> Iterator[str]:
    """Yield the watermark of each stream, and the streams that delay windows; Spark uses the earliest one."""
    if not status.watermarks and status.watermark is not None:
        yield f"Its watermark is {shown(status.watermark)} UTC."
    reached = {name: moment for name, moment in status.watermarks.items() if moment is not None}
    for name, moment in reached.items():
        yield f"The watermark of {name} is {shown(moment)} UTC."
    if missing := [name for name in status.watermarks if name not in reached]:
        verb = "has" if len(missing) == 1 else "have"
        yield f"No window closes yet: {_and(missing)} {verb} had no row with an event time."
    elif len(set(reached.values())) > 1:
        earliest = min(reached.values())
        behind = [name for name, moment in reached.items() if moment == earliest]
        verb = "holds" if len(behind) == 1 else "hold"
        yield f"{_and(behind)} {verb} windows back: those that end by {shown(earliest)} UTC are closed."


def _and(names: Sequence[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def _unread_left(status: Status, seconds: float) -> str:
    """Return how long unread records stay in the source."""
    if seconds <= 0:
        return "Records that it has not read may be gone from its source."
    left = short_duration(timedelta(seconds=seconds))
    if status.caught_up_at is None:
        return f"It has never read all: what it has not read may be gone in {left}, or before."
    return f"What it has not read stays at its source for {left} at least."


def _waits_for(pipeline: Pipeline, state: PipelineState) -> Iterator[str]:
    if state.owner is not None:
        yield f"Another control plane owns it: {state.owner}."
        return
    if state.stall is not None:
        stalled = _sentence(state.stall.words(state.facts.now))
        yield f"{stalled} Page: {state.stall.runbook}."
    if state.decision.action != "leave" or state.facts.running is None:
        yield from what_comes_next(state)
        yield from _fix_of(state.facts.unfinished_run)
        return
    own = state.own_status
    if own is None:
        yield "Its driver is starting."
    elif own.error is not None:
        problem = own.error.get("problem") or own.error.get("id")
        yield _sentence(f"Its driver cannot go on, and tries again: {problem}")
    elif state.decision.reason != RUNS:
        yield _sentence(state.decision.reason)
    elif own.state == "waiting":
        yield "It waits for new records."
    elif pipeline.spec.run.is_without_batches(pipeline.spec.run.mode):
        yield "It waits for nothing but new records."
    elif pipeline.spec.run.mode == "stream" and pipeline.spec.run.trigger:
        yield f"It waits for nothing but its trigger, every {format_duration(pipeline.spec.run.trigger)}."
    else:
        yield "It waits for nothing."


def _fix_of(run: Ending | None) -> Iterator[str]:
    if run is not None and run.error is not None and run.error.get("fix"):
        yield _sentence(f"To fix: {run.error['fix']}")


def what_comes_next(state: PipelineState) -> Iterator[str]:
    """Yield one sentence about the next reconciliation, with its runbook page."""
    decision = state.decision
    until = "" if decision.until is None else f", at {shown(decision.until)} UTC"
    words = {
        "start": "Reconciliation starts it next",
        "stop": "Reconciliation drains its driver next",
        "kill": "Reconciliation ends its driver next",
        "return": "Reconciliation gives its new version up next",
        "plan": "Reconciliation has Spark plan its new version next",
        "wait": f"Reconciliation starts it again later{until}",
        "leave": "Nothing is to be done" if state.facts.unfinished_run is None else "No driver is at work",
        "hold": "It waits for a person",
        "refused": "It waits for a person",
        "failed": "It waits for a person",
        "unseen": "It could not be looked at",
    }[decision.action]
    page = f" Page: {decision.runbook}." if decision.runbook else ""
    yield _sentence(f"{words}: {decision.reason}" if decision.reason else words) + page


def _time(measured: Measured) -> Iterator[str]:
    if not measured.is_enough:
        found = len(measured.batches)
        yield f"Too few batches had records: {found} of the {LEAST_BATCHES} that tell a typical one."
        return
    took = measured.milliseconds
    yield f"A typical batch takes {words_of(took)} for {measured.rows:,} rows."
    work = measured.work_milliseconds
    yield (
        f"Of these, reading, transform and writing take {words_of(work)}, planning and logs "
        f"{words_of(max(0, took - work))}."
    )
    slowest = measured.slowest_sink
    if slowest is not None:
        reads = ", with reading and transform" if slowest.reads else ""
        spent = f"{words_of(slowest.milliseconds)}, {slowest.share:.0%}"
        yield f"Of its sinks {slowest.name} takes most{reads}: {spent}."
    if measured.trigger:
        full = took / measured.trigger
        yield f"That is {full:.0%} of its trigger."
    for topic in measured.topics:
        if topic.skew is not None:
            skew = topic.skew
            verb = "wait in" if skew.what == "behind" else "were read from"
            where = f"partition {skew.partition} of {skew.partitions}"
            yield f"{skew.records:,} of {skew.of_all:,} records of {skew.topic} {verb} {where}."
    if measured.state is not None:
        size = readable_size(measured.state.bytes)
        yield f"Its state has {measured.state.rows:,} rows, and takes {size} of memory."


def _sentence(text: str) -> str:
    """Return the first line of a text, which may be a whole error, as a sentence."""
    line = text.strip().partition("\n")[0].rstrip(".")
    return f"{line[:1].upper()}{line[1:]}."
