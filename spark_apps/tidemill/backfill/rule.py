"""The rule that determines what a backfill of a pipeline may replace. Pure.

| proven origin of the rows | rows are chosen and replaced by | end of the range |
|---|---|---|
| each is made of one record and names it | the records' offsets | the offset where the live stream continues
|
| each is made of one window of event time | whole windows | the watermark of every table |
| neither, and the pipeline has never run live | the time column | the end of the source |
| a table that each batch replaces, never run live | the whole table | the end of the source |

Everything else is refused, with the reason and the fix.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from tidemill.backfill.bounds import Bounds
from tidemill.backfill.live_side import LiveSide
from tidemill.backfill.other_writers import OtherWriter
from tidemill.backfill.refusal import refused
from tidemill.backfill.row_origin import EventWindow, RowOrigin
from tidemill.errors import UsageError
from tidemill.spec.delta_sink import DeltaSink
from tidemill.spec.project import Pipeline

By = Literal["record", "window", "time", "everything"]


@dataclass(frozen=True)
class Asked:
    """The request and the known facts.

    Args:
        pipeline: The pipeline.
        bounds: The range.
        origin: Origin of its rows.
        live: Position of its stream; None if it has never begun.
        others: Other writers of its tables.
    """

    pipeline: Pipeline
    bounds: Bounds
    origin: RowOrigin
    live: LiveSide | None
    others: Sequence[OtherWriter] = ()

    @property
    def sinks(self) -> list[DeltaSink]:
        """Return the table sinks."""
        return self.pipeline.spec.delta_sinks

    @property
    def rows(self) -> list[RowOrigin]:
        """Return the origin of each table's rows."""
        return [self.origin.of_table(sink.table) for sink in self.sinks]

    @property
    def reason(self) -> str:
        """Return the reason why nothing is proven about the rows of a table."""
        return next((rows.reason for rows in self.rows if rows.reason), "")


def choose(asked: Asked) -> By:
    """Return the rule by which rows are replaced.

    Raises:
        UsageError: TIDE-BACK-002 to -015, if the range cannot be reprocessed exactly.
    """
    _check_past(asked)
    by = _by(asked)
    _check_range[by](asked)
    check_others(asked.pipeline, asked.others, by)
    return by


def _by(asked: Asked) -> By:
    if asked.sinks[0].mode == "replace":
        return "everything"
    rows = asked.rows
    if asked.pipeline.spec.source.is_kafka and all(of_table.record is not None for of_table in rows):
        return "record"
    return "window" if all(of_table.window is not None for of_table in rows) else "time"


def _again(pipeline: Pipeline) -> str:
    """Return what computes the tables from their source again."""
    reset = f"`tidemill checkpoint reset {pipeline.name} --from earliest`"
    if any(sink.mode == "append" for sink in pipeline.spec.delta_sinks):
        return f"move its tables away, so that no row is duplicated; then {reset} computes them again"
    return f"{reset} computes it again"


def check_one_stream(pipeline: Pipeline) -> None:
    """Raise if the pipeline reads several streams, because a range belongs to one stream.

    Raises:
        UsageError: TIDE-BACK-002.
    """
    if pipeline.spec.has_named_streams:
        raise refused(
            "TIDE-BACK-002",
            pipeline.name,
            "The pipeline reads several streams, and a range of one of them says nothing of the others.",
            {"streams": ", ".join(pipeline.streams)},
            f"go back with all of them: tidemill checkpoint rewind {pipeline.name} --to BATCH",
        )


def _check_past(asked: Asked) -> None:
    source = asked.pipeline.spec.source
    if not source.facts.has_past:
        raise refused(
            "TIDE-BACK-002",
            asked.pipeline.name,
            "This source has no past.",
            {"source": source.kind},
            "backfill a pipeline that reads kafka, eventhubs, iothub, files or delta",
        )
    if source.delta is not None and source.delta.read_changes:
        raise refused(
            "TIDE-BACK-002",
            asked.pipeline.name,
            "A change feed has no past by time: its rows are the changes of commits, not those of a range.",
            {"source": "delta", "read_changes": True},
            _again(asked.pipeline),
        )
    if not asked.sinks:
        raise refused(
            "TIDE-BACK-002",
            asked.pipeline.name,
            "The pipeline writes no table.",
            {},
            "only tables are written again; a topic or the console is not",
        )
    fed = [sink for sink in asked.sinks if sink.cdc is not None]
    if fed:
        raise _merged(asked, fed[0], "send the changes again: the sequence puts them in their place")
    replaces = asked.sinks[0].mode == "replace"
    if replaces != asked.bounds.is_everything:
        raise refused(
            "TIDE-BACK-003",
            asked.pipeline.name,
            "A table that each batch replaces is computed from everything."
            if replaces
            else "A range is missing.",
            {"range": asked.bounds.text(), "table_mode": asked.sinks[0].mode},
            "give no range" if replaces else "give --from and --to, or --from-offsets and --to-offsets",
        )


def _check_everything(asked: Asked) -> None:
    if asked.live is not None:
        raise refused(
            "TIDE-BACK-010",
            asked.pipeline.name,
            "The live stream replaces this table from its own state with each batch, so it would take what a "
            "backfill writes back again.",
            {"generation": asked.live.generation},
            _again(asked.pipeline),
        )


def _check_records(asked: Asked) -> None:
    for sink in asked.sinks:
        record = set((asked.origin.of_table(sink.table).record or {}).values())
        if sink.mode == "merge" and not record <= set(sink.key):
            raise _merged(asked, sink, f"add {', '.join(sorted(record))} to the key")


def _check_windows(asked: Asked) -> None:
    window = asked.origin.window or EventWindow(kind="none")
    _check_told_apart(asked)
    if asked.bounds.times is None:
        raise refused(
            "TIDE-BACK-004",
            asked.pipeline.name,
            "Rows that are made of windows are chosen by time, not by offsets.",
            {"range": asked.bounds.text()},
            "give --from and --to",
        )
    near = window.starts_in(*asked.bounds.times)
    if near != asked.bounds.times:
        raise refused(
            "TIDE-BACK-005",
            asked.pipeline.name,
            "The range cuts through windows, whose rows would be wrong.",
            {"window": window.length, "near_range": f"{near[0].isoformat()} to {near[1].isoformat()}"},
            "use the near range",
        )
    _check_closed(asked, window.last_end(asked.bounds.times[1]))


def _check_told_apart(asked: Asked) -> None:
    """Raise if the rows of a table do not identify their window."""
    windows = [rows.window or EventWindow(kind="none") for rows in asked.rows]
    if any(window.kind == "session" for window in windows):
        raise refused(
            "TIDE-BACK-012",
            asked.pipeline.name,
            "Session windows have no fixed ends: events outside of any range can belong to a session in it.",
            {},
            _again(asked.pipeline),
        )
    if not all(window.columns for window in windows):
        raise refused(
            "TIDE-BACK-012",
            asked.pipeline.name,
            "The rows do not say which window they are of.",
            {},
            "keep `window`, `window.start` or `window.end` as a column of the result",
        )
    for sink, window in zip(asked.sinks, windows, strict=True):
        if sink.mode == "merge" and not window.columns & set(sink.key):
            raise _merged(asked, sink, f"add one of {', '.join(sorted(window.columns))} to the key")


def _check_closed(asked: Asked, end: datetime) -> None:
    live = asked.live
    if live is not None and (live.closed_until is None or end > live.closed_until):
        raise refused(
            "TIDE-BACK-006",
            asked.pipeline.name,
            "The live stream has not closed this range in every table; it would write its windows again.",
            {"end": end.isoformat(), "closed_until": live.closed_until and live.closed_until.isoformat()},
            "end the range earlier, or wait until the watermark has passed its end",
        )


def _check_times(asked: Asked) -> None:
    if any(sink.mode == "merge" for sink in asked.sinks):
        raise _merged(asked, asked.sinks[0], "name the record or the window in the key")
    if asked.live is not None or any(rows.stateful for rows in asked.rows):
        raise refused(
            "TIDE-BACK-007",
            asked.pipeline.name,
            "Nothing proves which rows of the table are made of which records"
            + ("." if asked.live is None else ", and the live stream has written some of them."),
            {"because": asked.reason},
            "keep kafka_topic, kafka_partition and kafka_offset in the result, or aggregate by windows of "
            "the event-time column; or " + _again(asked.pipeline),
        )
    if asked.bounds.times is None or asked.pipeline.spec.event_time is None:
        raise refused(
            "TIDE-BACK-004",
            asked.pipeline.name,
            "Without event time, or by offsets, rows can be chosen only if they name their record.",
            {"range": asked.bounds.text(), "because": asked.reason},
            "declare event_time and give --from and --to",
        )
    for sink in asked.sinks:
        _check_time_kept(asked, sink, sink.time or asked.pipeline.spec.event_time.column)


def _check_time_kept(asked: Asked, sink: DeltaSink, time: str) -> None:
    shaped = asked.origin.sinks.get(sink.table)
    if shaped is not None and time not in shaped.columns.values():
        raise refused(
            "TIDE-BACK-012",
            asked.pipeline.name,
            "The rows of a table do not say when they happened: the sink's transform drops or changes it.",
            {"table": sink.table, "time": time},
            "keep the column of time as it is, or name another one as `time:` of the sink",
        )


_check_range: dict[By, Callable[[Asked], None]] = {
    "record": _check_records,
    "window": _check_windows,
    "time": _check_times,
    "everything": _check_everything,
}


def check_others(pipeline: Pipeline, others: Sequence[OtherWriter], by: By) -> None:
    """Raise if rows of other pipelines could match; only rows of other topics never do.

    Raises:
        UsageError: TIDE-BACK-015.
    """
    mine = pipeline.spec.source.topics_or_pattern
    topics = frozenset(mine) if isinstance(mine, list) else None
    for other in others:
        is_apart = by == "record" and topics and other.topics is not None and not topics & other.topics
        if not is_apart:
            raise refused(
                "TIDE-BACK-015",
                pipeline.name,
                "Another pipeline writes this table, and its rows would be replaced, too.",
                {"table": other.table, "other_pipeline": other.pipeline},
                "give each pipeline a table of its own",
            )


def _merged(asked: Asked, sink: DeltaSink, fix: str) -> UsageError:
    return refused(
        "TIDE-BACK-011",
        asked.pipeline.name,
        "A row of this table stands for all that was merged into it; a range of the past would take the "
        "place of newer values.",
        {"table": sink.table, "key": ", ".join(sink.key), "because": asked.reason},
        f"{fix}, or {_again(asked.pipeline)}",
    )
