"""Make a plan from the rule and the facts of broker and tables. Changes no data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from tidemill.backfill.bounds import Bounds
from tidemill.backfill.chunks import Chunk, check_chunk, cut_offsets, cut_times
from tidemill.backfill.files_there import check_files_there, files_read_live, files_there
from tidemill.backfill.former_topics import check_same_topics
from tidemill.backfill.hub_archive import plan_archive, read_archive, with_archive
from tidemill.backfill.live_side import read_live_side
from tidemill.backfill.manner import AT_ONCE, Manner
from tidemill.backfill.other_writers import other_writers
from tidemill.backfill.plan import BackfillPlan, Part, TablePlan, save_plan
from tidemill.backfill.positions import choose_offsets, look_up, offsets_condition
from tidemill.backfill.refusal import refused
from tidemill.backfill.row_origin import EventWindow, RowOrigin, check_declared, read_origin
from tidemill.backfill.rule import Asked, By, check_one_stream, choose
from tidemill.backfill.table_read import version_read_live
from tidemill.ledger.read import open_table
from tidemill.sources.topic_facts import ask_topics
from tidemill.spec.capabilities import SINKS
from tidemill.spec.column_names import quoted
from tidemill.spec.delta_sink import DeltaSink
from tidemill.spec.project import Pipeline
from tidemill.storage.store import Store

# Column with the time at which the broker received a record.
_BROKER_TIME = "kafka_timestamp"


def plan_backfill(
    store: Store,
    pipeline: Pipeline,
    bounds: Bounds,
    analyse: Callable[[], object],
    manner: Manner = AT_ONCE,
) -> BackfillPlan:
    """Decide what a backfill reads and replaces; stores the plan and changes no data.

    Args:
        store: The storage.
        pipeline: The pipeline to process again.
        bounds: The range.
        analyse: Lets Spark analyse the transform and store the result; called if there is none for this code.
        manner: Options of the backfill.

    Raises:
        UsageError: TIDE-BACK-002 to -018, if the range cannot be reprocessed exactly.
        GateRefusedError: If checkpoint and tables do not belong together.
        UnavailableError: If the broker does not answer.
    """
    check_one_stream(pipeline)
    origin = _origin(store, pipeline, analyse)
    check_declared(pipeline, origin)
    asked = Asked(pipeline, bounds, origin, read_live_side(store, pipeline), other_writers(pipeline))
    by = choose(asked)
    if asked.live is not None and pipeline.spec.source.files is not None:
        read = files_read_live(store, pipeline, asked.live.generation)
        check_files_there(pipeline, read, files_there(pipeline, read))
    plan = _filled(store, asked, by)
    if manner.chunk is not None:
        plan = _in_chunks(asked, plan, manner.chunk)
    plan = plan.model_copy(update={"publish": manner.publish})
    save_plan(store, pipeline.layout, plan)
    return plan


def _origin(store: Store, pipeline: Pipeline, analyse: Callable[[], object]) -> RowOrigin:
    origin = read_origin(store, pipeline)
    if origin is None:
        analyse()
        origin = read_origin(store, pipeline)
    return origin or RowOrigin(stateful=True, reason="the transform was not analysed")


def _filled(store: Store, asked: Asked, by: By) -> BackfillPlan:
    pipeline, bounds = asked.pipeline, asked.bounds
    plan = BackfillPlan(
        pipeline=pipeline.name,
        definition=pipeline.definition_digest,
        bounds=bounds,
        by=by,
        live=asked.live,
        source_version=_source_version(store, asked),
        condition=_row_condition(asked, by),
        counted=_counted_condition(asked, by),
        find_offsets_by=_record_time(pipeline) if by == "record" and bounds.times is not None else None,
        left_out=tuple(
            f"{s.kind} {getattr(s.chosen, 'topic', '')}".strip()
            for s in pipeline.spec.sinks
            if not SINKS[s.kind].backfilled
        ),
    )
    if pipeline.spec.source.is_kafka:
        plan = _with_offsets(plan, pipeline)
    return plan.model_copy(update={"tables": tuple(_table_plan(asked, plan, sink) for sink in asked.sinks)})


def _in_chunks(asked: Asked, plan: BackfillPlan, chunk: Chunk) -> BackfillPlan:
    name, window, times = asked.pipeline.name, asked.origin.window, asked.bounds.times
    check_chunk(name, plan.by, chunk, window)
    if chunk.time is not None and times is not None:
        ranges = cut_times(name, times, chunk.time, window if plan.by == "window" else None)
        parts = tuple(_part(replace(asked, bounds=bounds), plan) for bounds in ranges)
        return plan.model_copy(update={"chunk": chunk, "parts": parts})
    if chunk.records is not None and plan.start_offsets is not None and plan.end_offsets is not None:
        # Only checks the maximum number of chunks; the offsets that are found decide where they are split.
        cut_offsets(name, plan.start_offsets, plan.end_offsets, chunk.records)
    return plan.model_copy(update={"chunk": chunk})


def _part(asked: Asked, plan: BackfillPlan) -> Part:
    return Part(
        bounds=asked.bounds,
        condition=_row_condition(asked, plan.by),
        counted=_counted_condition(asked, plan.by),
        tables=tuple(_table_plan(asked, plan, sink) for sink in asked.sinks),
    )


def _table_plan(asked: Asked, plan: BackfillPlan, sink: DeltaSink) -> TablePlan:
    rows = asked.origin.of_table(sink.table)
    record = rows.record if plan.by == "record" else None
    return TablePlan(table=sink.table, condition=_table_condition(asked, plan, sink, rows), record=record)


def _with_offsets(plan: BackfillPlan, pipeline: Pipeline) -> BackfillPlan:
    # Read the archive before the hub. Otherwise events that are archived in between would be beyond the hub's
    # known range.
    archive = read_archive(pipeline, plan.bounds)
    alone = look_up(pipeline, plan.bounds)
    there = alone if archive is None else with_archive(alone, archive, plan.bounds)
    whole = plan.by in ("window", "everything")
    start, end = choose_offsets(pipeline, plan.bounds, plan.live, there, whole=whole)
    if archive is not None:
        read, seams = plan_archive(pipeline, archive, alone, (start, end))
        lines = tuple(seam.line() for seam in seams)
        plan = plan.model_copy(update={"archive": read, "seams": lines})
    found = ask_topics(pipeline)
    check_same_topics(pipeline, found)
    ids = {topic: topic_id for topic, topic_id in found.ids.items() if topic in start}
    return plan.model_copy(update={"start_offsets": start, "end_offsets": end, "topic_ids": ids})


def _source_version(store: Store, asked: Asked) -> int | None:
    pipeline, source = asked.pipeline, asked.pipeline.spec.source.delta
    if source is None:
        return None
    table = open_table(pipeline.layout.table(source.table))
    if table is None:
        raise refused(
            "TIDE-BACK-008",
            pipeline.name,
            "The table to read does not exist.",
            {"table": source.table},
            "run the pipeline that writes it first",
        )
    return table.version() if asked.live is None else version_read_live(store, pipeline, asked.live)


def _record_time(pipeline: Pipeline) -> str:
    return pipeline.spec.event_time.column if pipeline.spec.event_time else _BROKER_TIME


def _row_condition(asked: Asked, by: By) -> str | None:
    """Return the condition of the decoded rows that take part, up to the end of the last window."""
    times = asked.bounds.times
    if times is None or by in ("record", "everything"):
        return None
    window = asked.origin.window
    end = window.last_end(times[1]) if by == "window" and window is not None else times[1]
    return _between(quoted(_record_time(asked.pipeline)), times[0], end)


def _counted_condition(asked: Asked, by: By) -> str | None:
    """Return the condition of rows in replaced windows only; overlapping windows exclude the edges."""
    times, window = asked.bounds.times, asked.origin.window
    if times is None or by != "window" or window is None:
        return None
    return _between(quoted(_record_time(asked.pipeline)), times[0] + window.length - window.slide, times[1])


def _table_condition(asked: Asked, plan: BackfillPlan, sink: DeltaSink, rows: RowOrigin) -> str | None:
    """Return the condition of the rows of a table that are replaced."""
    if plan.by == "record":
        asked_offsets = plan.find_offsets_by is None and plan.start_offsets and plan.end_offsets
        return (
            offsets_condition(plan.start_offsets or {}, plan.end_offsets or {}, rows.record or {})
            if asked_offsets
            else None
        )
    times = asked.bounds.times
    if plan.by == "everything" or times is None:
        return None
    if plan.by == "window" and rows.window is not None:
        return _windows_between(rows.window, times)
    return _between(quoted(sink.time or _record_time(asked.pipeline)), *times)


def _windows_between(window: EventWindow, times: tuple[datetime, datetime]) -> str:
    """Return the condition of the rows of the windows that start in a range, by a start or end column."""
    starts = [quoted(name) for name in window.start_columns] + [
        f"{quoted(name)}.`start`" for name in window.struct_columns
    ]
    if starts:
        return _between(starts[0], *times)
    return _between(quoted(window.end_columns[0]), *(moment + window.length for moment in times))


def _between(column: str, start: datetime, end: datetime) -> str:
    return f"{column} >= timestamp'{_sql(start)}' AND {column} < timestamp'{_sql(end)}'"


def _sql(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S.%f}Z"
