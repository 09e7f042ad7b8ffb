"""Output of `tidemill queries`: one line per query, or all details of one."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from tidemill.cli.output import table
from tidemill.spec.readable import plain

if TYPE_CHECKING:
    from tidemill.checkpoint.query_report import QueryReport, SinkReport
    from tidemill.control.queries import QueryState

# Digits of an id in the list, which are unique in practice and enough to identify a query.
SHORT_ID = 8

HEADINGS = (
    *("query", "id", "run id", "state", "batch", "data", "rows in/s", "rows done/s", "sources", "sinks"),
    "message",
)


def queries_table(queries: Iterable[QueryState]) -> Any:
    """Return a table with one line per query."""
    return table(HEADINGS, map(_row, queries))


def document_of(query: QueryState, *, whole: bool = False) -> dict[str, Any]:
    """Return a query as a JSON document; `whole` includes recent progress and the plan."""
    report, driver = query.report, query.driver
    told = None
    if report is not None:
        told = report.model_dump(mode="json") if whole else report.summary()
    return {
        "pipeline": query.pipeline,
        "state": query.state,
        "active": driver is not None and report is not None and report.active,
        "driver": None
        if driver is None
        else {"run_id": driver.run_id, "mode": driver.mode, "process": driver.process, "log": driver.log},
        "exception": query.exception,
        "query": told,
    }


def details(query: QueryState) -> Iterator[Any]:
    """Yield all details of one query, part by part."""
    yield "\n".join(f"{name:<10} {value}" for name, value in _lines(query) if value)
    report = query.report
    if report is None:
        return
    yield ""
    yield _sources(report)
    yield ""
    yield _sinks(report)
    if report.recent_progress:
        yield ""
        yield progress_table(report)
        yield "\nLast progress"
        yield json.dumps(report.last_progress, indent=2)
    if report.explain:
        yield "\n".join(["", *map(plain, report.explain.strip().splitlines())])


def progress_table(report: QueryReport) -> Any:
    """Return a table of the newest batches, oldest first."""
    return table(
        ("batch", "at", "rows", "rows in/s", "rows done/s", "ms", "state rows", "watermark"),
        map(_progress_row, report.recent_progress),
    )


def rate(value: float | None) -> str:
    """Return rows per second as text; empty if Spark reports none, as for a first batch."""
    return "" if value is None else f"{value:.1f}"


def total_rate(values: Iterable[float | None]) -> str:
    """Return the sum of the rates of all sources as text."""
    told = [value for value in values if value is not None]
    return rate(sum(told)) if told else ""


def _row(query: QueryState) -> tuple[object, ...]:
    report = query.report
    batch = None if query.status is None else query.status.batch_id
    if report is None:
        return (query.pipeline, None, None, query.state, batch, *[None] * 5, _message(query))
    return (
        query.pipeline,
        report.id[:SHORT_ID],
        report.query_run_id[:SHORT_ID],
        query.state,
        batch,
        "yes" if report.is_data_available else "no",
        total_rate(source.input_rows_per_second for source in report.sources),
        total_rate(source.processed_rows_per_second for source in report.sources),
        ", ".join(source.name or source.description for source in report.sources),
        ", ".join(_with_rows(sink) for sink in report.sinks),
        _message(query),
    )


def _with_rows(sink: SinkReport) -> str:
    """Return the name of an output with its rows, if it counts them."""
    return f"{sink.name} ({sink.total_rows})" if sink.total_rows else sink.name


def _message(query: QueryState) -> str:
    error = query.exception
    if error is not None:
        return f"{error.get('id')} {error.get('problem')}"
    return "" if query.report is None else query.report.message


def _lines(query: QueryState) -> Iterator[tuple[str, str]]:
    driver, report = query.driver, query.report
    runs = "" if driver is None else f", {driver.mode} run {driver.run_id}, {driver.process}"
    yield query.pipeline, f"{query.state}{runs}"
    if report is not None:
        yield "id", report.id
        yield "run id", f"{report.query_run_id}, since {report.started_at:%Y-%m-%d %H:%M:%S}"
        available = "new data" if report.is_data_available else "no new data"
        works = "a batch at work" if report.is_trigger_active else "no batch at work"
        yield "status", f"{report.message} ({available}, {works})" if report.message else ""
        yield "port", report.http if report.active else ""
        yield "Spark UI", report.spark_ui if report.active else ""
    if (error := query.exception) is not None:
        facts = error.get("facts")
        said = " ".join(f"{name}={value}" for name, value in facts.items()) if isinstance(facts, dict) else ""
        yield "exception", f"{error.get('id')} {error.get('problem')} {said}".strip()


def _sources(report: QueryReport) -> Any:
    return table(
        ("source", "rows", "rows in/s", "rows done/s", "read up to", "newest", "description"),
        (
            (
                source.name,
                source.rows,
                rate(source.input_rows_per_second),
                rate(source.processed_rows_per_second),
                _offset(source.end_offset),
                _offset(source.latest_offset),
                source.description,
            )
            for source in report.sources
        ),
    )


def _sinks(report: QueryReport) -> Any:
    newest = report.sink_times[-1].milliseconds if report.sink_times else {}
    return table(
        ("sink", "batch", "written", "rows", "rows in all", "ms", "table version"),
        (
            (
                sink.name,
                sink.batch_id,
                "yes" if sink.committed else "had it already",
                sink.rows,
                sink.total_rows or None,
                newest.get(sink.name),
                sink.version,
            )
            for sink in report.sinks
        ),
    )


def _progress_row(progress: dict[str, Any]) -> tuple[object, ...]:
    states = [operator.get("numRowsTotal", 0) for operator in progress.get("stateOperators", [])]
    watermark = progress.get("eventTime", {}).get("watermark", "")
    return (
        progress.get("batchId"),
        str(progress.get("timestamp", ""))[:19].replace("T", " "),
        progress.get("numInputRows"),
        rate(progress.get("inputRowsPerSecond")),
        rate(progress.get("processedRowsPerSecond")),
        progress.get("durationMs", {}).get("triggerExecution"),
        sum(states) if states else None,
        "" if watermark.startswith("1970") else watermark[:19].replace("T", " "),
    )


def _offset(offset: Any) -> str:
    return "" if offset is None else offset if isinstance(offset, str) else json.dumps(offset)
