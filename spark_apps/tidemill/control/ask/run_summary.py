"""Summary of a finished run: rows of each output, and rows that were read but not written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidemill.checkpoint.status import Status, read_status
from tidemill.control.ask.bounded_run import TableResult, tables_written
from tidemill.control.decide.endings import is_status_of
from tidemill.control.plane import ControlPlane
from tidemill.control.runtime import StartedDriver
from tidemill.errors import TidemillError
from tidemill.ledger.read import open_table, row_count
from tidemill.spec.pipeline import PipelineSpec

# Kinds of rows that a batch's entry repeats in each table. Rows dropped by expectations are counted per
# table.
PER_BATCH = ("quarantined", "late", "without event time")


@dataclass(frozen=True)
class TableNow:
    """A table after a run, with the rows of all writers.

    Args:
        table: Its name.
        rows: Rows in it; None if its files do not contain the number.
        version: Its version; None if there is no table yet.
    """

    table: str
    rows: int | None
    version: int | None


def summarize_run(plane: ControlPlane, driver: StartedDriver) -> list[str]:
    """Return the summary of a finished run: a run by hand, or a link of a chain.

    A read error becomes a line of the summary, so that the result of the run is always shown.
    """
    try:
        return _summary(plane, driver)
    except TidemillError as error:
        return [f"the rows cannot be counted: {error.error_id} {error.problem}"]


def _summary(plane: ControlPlane, driver: StartedDriver) -> list[str]:
    spec = plane.environment.project.load_pipeline(driver.pipeline)
    written = tables_written(plane, driver.pipeline, {driver.run_id}, driver.claimed_at)
    if driver.mode == "backfill":
        # The status counts rows of all attempts; rows that are published later are in no table yet.
        names = {result.table for result in written}
        tables = [now for now in tables_now(plane, spec) if now.table in names]
        return [*table_lines(tables, written), *([aside_line(written, None)] if written else [])]
    status = read_status(plane.store, plane.layout, driver.pipeline)
    own = status if status is not None and is_status_of(status, driver) else None
    return [
        *table_lines(tables_now(plane, spec), written),
        *output_lines(spec, own),
        aside_line(written, own),
    ]


def tables_now(plane: ControlPlane, spec: PipelineSpec) -> list[TableNow]:
    """Return the current tables of a pipeline."""
    found = []
    for sink in spec.delta_sinks:
        table = open_table(plane.layout.table(sink.table))
        now = (None, None) if table is None else (row_count(table), table.version())
        found.append(TableNow(sink.table, *now))
    return found


def table_lines(tables: list[TableNow], written: list[TableResult]) -> list[str]:
    """Return a line for each table: its rows, and how many of these a run wrote."""
    results = {result.table: result for result in written}
    return [_table_line(now, results.get(now.table)) for now in tables]


def _table_line(now: TableNow, result: TableResult | None) -> str:
    if now.version is None:
        return f"{now.table}: no table yet"
    by_run = f"{_rows(0 if result is None else result.rows)} written by this run"
    held = "" if now.rows is None else f"{_rows(now.rows)} in the table, "
    return f"{now.table}: {held}{by_run}, version {now.version}"


def output_lines(spec: PipelineSpec, status: Status | None) -> list[str]:
    """Return a line for each output that is not a table, with its rows by the status of the run."""
    if status is None or spec.run.is_without_batches(status.mode):
        return []
    outputs = [sink.output for sink in spec.sinks if sink.delta is None and sink.console is None]
    return [f"{name}: {_rows(status.rows_by_output.get(name, 0))} written by this run" for name in outputs]


def aside_line(written: list[TableResult], status: Status | None) -> str:
    """Return the line about rows that a run read but wrote to no output.

    The status counts all batches, and the ledger counts those that wrote a table. A killed driver may have
    committed more than its status contains.
    """
    counts = [*(result.aside for result in written), _aside_of(status)]
    of_batches = {kind: max(count.get(kind, 0) for count in counts) for kind in PER_BATCH}
    dropped = sum(count.get("dropped", 0) for count in counts)
    found = {**of_batches, "dropped": dropped}
    return ", ".join(f"{rows} {kind}" for kind, rows in found.items())


def _aside_of(status: Status | None) -> Mapping[str, int]:
    if status is None:
        return {}
    return {
        "quarantined": status.quarantined_rows,
        "late": status.late_rows,
        "without event time": status.no_event_time_rows,
    }


def _rows(count: int) -> str:
    return f"{count} row" if count == 1 else f"{count} rows"
