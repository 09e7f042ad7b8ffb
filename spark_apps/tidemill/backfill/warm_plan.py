"""Plan of a warm start: the past from which a new generation computes its state.

The result must have the same rows as a stream over all events. So the past must contain all events of each
window that no table has yet, and rows that a table already has must be recognizable by their window.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from tidemill.backfill.bounds import Bounds
from tidemill.backfill.hub_archive import MOST_AHEAD, plan_archive, read_archive, with_archive
from tidemill.backfill.live_side import LiveSide, read_live_side
from tidemill.backfill.positions import RangeFacts, cut_partitions, look_up
from tidemill.backfill.row_origin import EventWindow, RowOrigin, read_origin
from tidemill.checkpoint.verbs.prospect import never_ran
from tidemill.checkpoint.warm_start import WarmStart
from tidemill.errors import UsageError
from tidemill.ledger.entry import Positions
from tidemill.ledger.read import read_commits
from tidemill.ledger.standing import standing_commits
from tidemill.spec.delta_sink import DeltaSink
from tidemill.spec.project import Pipeline
from tidemill.storage.store import Store


def plan_warm_start(
    store: Store, pipeline: Pipeline, wanted: str, analyse: Callable[[], object]
) -> WarmStart:
    """Return the past of a new generation, up to the live one's position.

    Args:
        store: The storage.
        pipeline: The pipeline to reset.
        wanted: `earliest`, or the time from which on all events are read.
        analyse: Lets Spark analyse the transform; called if there is no result for this code.

    Raises:
        UsageError: TIDE-CKPT-101 to -103, if windows could be duplicated or incomplete; TIDE-HUB-003 or -004,
            if archive and hub are of different hubs, or have a gap.
        UnavailableError: If the broker does not answer.
    """
    live = read_live_side(store, pipeline)
    if live is None:
        raise never_ran(pipeline.name)
    window = _provable_window(pipeline, _origin(store, pipeline, analyse))
    _check_finished(pipeline, live)
    if live.closed_until is None:
        # Refuse this also after a reset, because the tables may have windows of the previous generation.
        raise _unprovable(
            pipeline, "the live generation has closed no window, so nothing tells which there are"
        )
    moment = _moment(pipeline, wanted)
    _check_early_enough(pipeline, first_open(window, live.closed_until), moment)
    return _from_sources(pipeline, live, Bounds(start=moment))


def first_open(window: EventWindow, closed_until: datetime) -> datetime:
    """Return the start of the first window that ends after a time."""
    last_closed, _ = window.starts_in(closed_until - window.length, closed_until)
    return last_closed + window.slide


def _origin(store: Store, pipeline: Pipeline, analyse: Callable[[], object]) -> RowOrigin:
    found = read_origin(store, pipeline)
    if found is None:
        analyse()
        found = read_origin(store, pipeline)
    return found or RowOrigin(stateful=True, reason="the transform was not analysed")


def _provable_window(pipeline: Pipeline, origin: RowOrigin) -> EventWindow:
    """Return the windows, if every row of every table identifies its window."""
    if pipeline.spec.has_named_streams or not pipeline.spec.source.is_kafka:
        raise _unprovable(pipeline, "its past is not one topic's, or hub's")
    if origin.window is None or origin.window.kind == "session":
        raise _unprovable(pipeline, origin.reason or "its rows are not made of windows with fixed ends")
    for sink in pipeline.spec.delta_sinks:
        if reason := _why_not(origin.of_table(sink.table).window, sink):
            raise _unprovable(pipeline, f"{sink.table}: {reason}")
    return origin.window


def _why_not(window: EventWindow | None, sink: DeltaSink) -> str:
    if sink.mode == "replace" or sink.cdc is not None:
        return "it holds more than windows"
    if window is None or not window.columns:
        return "its rows do not say which window they are of"
    if sink.mode == "merge" and not window.columns & set(sink.key):
        return "its key does not hold the window"
    return ""


def _check_finished(pipeline: Pipeline, live: LiveSide) -> None:
    """Raise if only some tables have a batch, because it would be written twice to these."""
    finished = -1 if live.batch_id is None else live.batch_id
    for sink in pipeline.spec.delta_sinks:
        entries = (c.entry for c in standing_commits(read_commits(pipeline.layout.table(sink.table))))
        mine = (
            e.batch_id
            for e in entries
            if e and (e.pipeline, e.generation) == (pipeline.name, live.generation)
        )
        newest = next((number for number in mine if number is not None), -1)
        if newest > finished:
            raise _refused(
                pipeline,
                "TIDE-CKPT-103",
                "A batch was begun and is not finished.",
                {"table": sink.table, "batch_id": newest, "finished": finished},
                f"finish it with the code that began it: tidemill run {pipeline.name} --mode incremental",
            )


def _moment(pipeline: Pipeline, wanted: str) -> datetime | None:
    if wanted == "earliest":
        return None
    try:
        moment = datetime.fromisoformat(wanted)
    except ValueError:
        raise _refused(
            pipeline,
            "TIDE-CKPT-044",
            "A warm start cannot begin there.",
            {"from": ascii(wanted[:80])},
            "write earliest, or a moment such as 2026-03-01T00:00:00Z",
        ) from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _check_early_enough(pipeline: Pipeline, needed: datetime, moment: datetime | None) -> None:
    """Raise if the past begins too late; events may arrive before their own time by `max_ahead`."""
    latest = needed - (pipeline.spec.max_ahead or MOST_AHEAD)
    if moment is not None and moment > latest:
        raise _begins_too_late(pipeline, latest, {"from": moment.isoformat()})


def _from_sources(pipeline: Pipeline, live: LiveSide, bounds: Bounds) -> WarmStart:
    # Read the archive before the hub. Otherwise events that are archived in between would be beyond the hub's
    # known range.
    archive = read_archive(pipeline, bounds)
    alone = look_up(pipeline, bounds)
    there = alone if archive is None else with_archive(alone, archive, bounds)
    end = live.offsets or {}
    _check_complete(pipeline, there, bounds, end)
    begins = there.topics.oldest if bounds.start is None else there.from_start
    start: Positions = {
        topic: {number: min(begins.get(topic, {}).get(number, stop), stop) for number, stop in ends.items()}
        for topic, ends in end.items()
    }
    warm = WarmStart(start=start, end=end, written_until=live.closed_until)
    if archive is None:
        return warm
    read, _ = plan_archive(pipeline, archive, alone, (start, end))
    return warm.model_copy(update={"archive": read})


def _check_complete(pipeline: Pipeline, there: RangeFacts, bounds: Bounds, end: Positions) -> None:
    """Raise if the past is incomplete: it may lack only older events, and no partition."""
    gone = [f"{t}-{p}" for t, ps in end.items() for p in ps if p not in there.topics.ends.get(t, {})]
    if gone:
        raise _begins_too_late(pipeline, None, {"gone": ", ".join(gone)})
    cut = cut_partitions(there)
    if bounds.start is None:
        cut = [f"{t}-{p}" for t, ps in there.topics.oldest.items() for p, first in ps.items() if first > 0]
    if cut:
        raise _begins_too_late(pipeline, None, {"partitions": ", ".join(cut)})


def _begins_too_late(pipeline: Pipeline, latest: datetime | None, facts: dict[str, object]) -> UsageError:
    told = {} if latest is None else {"latest": latest.isoformat()}
    return _refused(
        pipeline,
        "TIDE-CKPT-102",
        "Windows that no table has yet may have events from before the past that would be read.",
        {**facts, **told},
        f"begin at {latest.isoformat()} or before"
        if latest is not None
        else "bring the archive's files back, or begin at a moment from before which the source still "
        "has events",
    )


def _unprovable(pipeline: Pipeline, because: str) -> UsageError:
    return _refused(
        pipeline,
        "TIDE-CKPT-101",
        "State cannot be computed from the past so that each row comes once.",
        {"because": because},
        "make every table's rows of windows and keep the window in them; or reset without --warm, with the "
        "state empty, and fill the gap by a backfill",
    )


def _refused(
    pipeline: Pipeline, error_id: str, problem: str, facts: dict[str, object], fix: str
) -> UsageError:
    return UsageError(
        error_id,
        f"{problem} Nothing was changed.",
        facts={"pipeline": pipeline.name, **facts},
        fix=fix,
        runbook="reset-checkpoint",
    )
