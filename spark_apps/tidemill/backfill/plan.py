"""What a backfill would read and replace. Pure but for looking at the broker and the ledger."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tidemill.backfill.bounds import Bounds, misaligned
from tidemill.backfill.positions import choose_offsets, look_up, offsets_condition
from tidemill.errors import UsageError
from tidemill.ledger.entry import LedgerEntry
from tidemill.ledger.read import read_ledger
from tidemill.sources.offsets import Positions, records_between
from tidemill.spec.project import Pipeline
from tidemill.spec.sinks import DeltaSink

# Commits looked at for the newest batch of the live stream; backfills and maintenance stand between.
LEDGER_LOOK_BACK = 200


@dataclass(frozen=True)
class TablePlan:
    """What happens to one table.

    Args:
        table: Its name.
        action: `replace_where`, `merge` or `replace`.
        condition: Rows that are replaced; None where the action needs none.
    """

    table: str
    action: str
    condition: str | None


@dataclass(frozen=True)
class BackfillPlan:
    """A backfill, decided.

    Args:
        pipeline: Its name.
        backfill_id: Deterministic id.
        bounds: What was asked for.
        start_offsets: First offsets read, for Kafka sources.
        end_offsets: End offsets: the seam, where the live stream begins, or the topic's end.
        at_seam: Whether the end is where a live stream began.
        condition: Which decoded rows take part; None for all.
        tables: What happens to each table.
        left_out: Sinks that a backfill does not write again.
    """

    pipeline: str
    backfill_id: str
    bounds: Bounds
    start_offsets: Positions | None
    end_offsets: Positions | None
    at_seam: bool
    condition: str | None
    tables: tuple[TablePlan, ...]
    left_out: tuple[str, ...]

    @property
    def records(self) -> int | None:
        """Records to read; None if the source does not tell."""
        if self.start_offsets is None or self.end_offsets is None:
            return None
        return records_between(self.start_offsets, self.end_offsets)

    def lines(self) -> list[str]:
        """The plan as a person reads it."""
        lines = [f"Backfill {self.backfill_id}", f"  range     {_range_text(self.bounds)}"]
        if self.end_offsets is not None:
            until = "where the live stream goes on" if self.at_seam else "the end of the topic"
            lines.append(f"  read      {self.records} records, up to {until}")
        lines.append(f"  rows      {self.condition or 'all'}")
        for table in self.tables:
            lines.append(
                f"  {table.action:13} {table.table}"
                + (f" where {table.condition}" if table.condition else "")
            )
        lines += [f"  left out      {name}: not sent again" for name in self.left_out]
        return lines

    def as_document(self) -> dict[str, Any]:
        """The plan as plain data."""
        return {
            "backfill_id": self.backfill_id,
            "pipeline": self.pipeline,
            "range": _range_text(self.bounds),
            "start_offsets": self.start_offsets,
            "end_offsets": self.end_offsets,
            "at_seam": self.at_seam,
            "records": self.records,
            "condition": self.condition,
            "tables": [vars(table) for table in self.tables],
            "left_out": list(self.left_out),
        }


def plan_backfill(pipeline: Pipeline, bounds: Bounds) -> BackfillPlan:
    """Decide what a backfill reads and replaces; writes nothing.

    Raises:
        UsageError: TIDE-BACK-002 to -009, if the range cannot be processed again exactly.
        UnavailableError: If the broker does not answer.
    """
    _check_pipeline(pipeline, bounds)
    live = _newest_live_entry(pipeline)
    _check_windows(pipeline, bounds, live)
    start, end, read = None, None, None
    if pipeline.spec.source.is_kafka:
        start, end = choose_offsets(pipeline, bounds, live, look_up(pipeline, bounds))
        read = offsets_condition(start, end)
    return BackfillPlan(
        pipeline.name,
        bounds.backfill_id(pipeline.name),
        bounds,
        start,
        end,
        live is not None and pipeline.spec.source.is_kafka and bounds.end_offsets is None,
        _row_condition(pipeline, bounds),
        tuple(_table_plan(pipeline, sink, bounds, read) for sink in pipeline.spec.delta_sinks),
        tuple(
            f"{s.kind} {getattr(s.chosen, 'topic', '')}".strip()
            for s in pipeline.spec.sinks
            if s.delta is None
        ),
    )


def _check_pipeline(pipeline: Pipeline, bounds: Bounds) -> None:
    source = pipeline.spec.source
    if source.kind in ("rate", "rate_per_batch"):
        raise _refused("TIDE-BACK-002", "This source has no past.", pipeline, {"source": source.kind})
    if not pipeline.spec.delta_sinks:
        raise _refused("TIDE-BACK-002", "The pipeline writes no table.", pipeline, {})
    replaces = pipeline.spec.delta_sinks[0].mode == "replace"
    if replaces != bounds.is_everything and pipeline.spec.delta_sinks[0].mode != "merge":
        raise _refused(
            "TIDE-BACK-003",
            "A table that each batch replaces is computed from everything; give no range."
            if replaces
            else "A range is missing.",
            pipeline,
            {"range": _range_text(bounds), "table_mode": pipeline.spec.delta_sinks[0].mode},
        )
    if bounds.start is not None and pipeline.spec.event_time is None and not source.is_kafka:
        raise _refused("TIDE-BACK-004", "The pipeline has no event time to select by.", pipeline, {})
    if bounds.start_offsets is not None and (not source.is_kafka or pipeline.spec.transform is not None):
        raise _refused(
            "TIDE-BACK-004",
            "Offsets select rows only where each record becomes one row of its own.",
            pipeline,
            {"source": source.kind, "transform": pipeline.spec.transform},
        )


def _check_windows(pipeline: Pipeline, bounds: Bounds, live: LedgerEntry | None) -> None:
    """Rows of a range are final only if windows lie in it as a whole and the live stream has closed them."""
    event_time = pipeline.spec.event_time
    if event_time is None or bounds.end is None:
        return
    if event_time.window is not None and (near := misaligned(bounds, event_time.window)):
        raise _refused(
            "TIDE-BACK-005",
            "The range cuts through windows, whose rows would be wrong.",
            pipeline,
            {"window": event_time.window, "near_range": f"{near[0].isoformat()} to {near[1].isoformat()}"},
        )
    if live is None:
        return
    if pipeline.spec.transform is None:
        _check_seam(pipeline)
    elif live.watermark is None or bounds.end > live.watermark:
        raise _refused(
            "TIDE-BACK-006",
            "The live stream has not closed this range; it would write the same windows again.",
            pipeline,
            {"end": bounds.end.isoformat(), "closed_until": live.watermark and live.watermark.isoformat()},
        )


def _check_seam(pipeline: Pipeline) -> None:
    """Without a transform, the live stream may still append rows of the range; only offsets tell which."""
    if not pipeline.spec.source.is_kafka:
        raise _refused(
            "TIDE-BACK-007",
            "The pipeline has run live, and its source does not tell which rows are already in the table.",
            pipeline,
            {"source": pipeline.spec.source.kind},
        )


def _newest_live_entry(pipeline: Pipeline) -> LedgerEntry | None:
    path = pipeline.layout.table(pipeline.spec.delta_sinks[0].table)
    entries = (commit.entry for commit in read_ledger(path, LEDGER_LOOK_BACK))
    return next((e for e in entries if e and e.pipeline == pipeline.name and e.mode != "backfill"), None)


def _row_condition(pipeline: Pipeline, bounds: Bounds) -> str | None:
    if bounds.start is None or bounds.end is None:
        return None
    column = pipeline.spec.event_time.column if pipeline.spec.event_time else "kafka_timestamp"
    return _between(column, bounds.start, bounds.end)


def _table_plan(pipeline: Pipeline, sink: DeltaSink, bounds: Bounds, read: str | None) -> TablePlan:
    """Rows of the range are replaced; where rows tell their record, only those whose record is read.

    So rows that the live stream adds after the plan stay, and rows whose records have expired.
    """
    if sink.mode != "append":
        return TablePlan(sink.table, sink.mode, None)
    conditions = []
    if bounds.start is not None and bounds.end is not None:
        default = pipeline.spec.event_time.column if pipeline.spec.event_time else "kafka_timestamp"
        conditions.append(_between(sink.time or default, bounds.start, bounds.end))
    if read is not None and pipeline.spec.transform is None:
        conditions.append(f"({read})")
    return TablePlan(sink.table, "replace_where", " AND ".join(conditions))


def _between(column: str, start: datetime, end: datetime) -> str:
    return f"`{column}` >= timestamp'{_sql(start)}' AND `{column}` < timestamp'{_sql(end)}'"


def _sql(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S.%f}Z"


def _range_text(bounds: Bounds) -> str:
    if bounds.start is not None and bounds.end is not None:
        return f"{bounds.start.isoformat()} to {bounds.end.isoformat()}"
    if bounds.start_offsets is not None:
        return f"offsets {bounds.start_offsets} to {bounds.end_offsets}"
    return "everything"


def _refused(error_id: str, problem: str, pipeline: Pipeline, facts: dict[str, object]) -> UsageError:
    return UsageError(
        error_id,
        f"{problem} Nothing was read or written.",
        facts={"pipeline": pipeline.name, **facts},
        fix="choose another range or pipeline; the runbook says which ranges can be processed again",
        runbook="backfill",
    )
