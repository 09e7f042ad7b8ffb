"""Frames of `tidemill watch`: the state of the query and the newest version of one of its tables."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tidemill.cli.output import table
from tidemill.cli.plot import bars, columns, sparkline
from tidemill.cli.query_tables import progress_table, total_rate
from tidemill.control.queries import QueryState, query_of
from tidemill.ledger.newest_rows import TableView, Wanted, table_version, view_table
from tidemill.spec.readable import plain

if TYPE_CHECKING:
    from tidemill.checkpoint.query_report import QueryReport
    from tidemill.control.plane import ControlPlane
    from tidemill.ledger.table_query import Copied

# Lines of a plot over time, and maximum cells of a bar in a plot by key.
PLOT_LINES = 8
BAR_CELLS = 40
# Maximum number of keys in a plot. The keys with the highest values are drawn.
MOST_BARS = 15

# Minimum pause between two reads of a table, as a multiple of the duration of the last read. Watching a large
# table must not load its store.
REST_AFTER_READING = 5.0


class Watched:
    """A watched pipeline and its last observed state.

    Args:
        plane: Its control plane.
        pipeline: Name of the pipeline.
        table: One of its tables; None if it has none.
        wanted: Columns and rows of the table to show.
        others: Its folders and in-memory tables by their names in a query.
    """

    def __init__(
        self,
        plane: ControlPlane,
        pipeline: str,
        table: str | None,
        wanted: Wanted,
        others: Mapping[str, Copied] = MappingProxyType({}),
    ) -> None:
        self._others = others
        self._plane = plane
        self._pipeline = pipeline
        self._table = table
        self._wanted = wanted
        self._query: QueryState | None = None
        self._view: TableView | None = None
        self._read_again_at = 0.0

    def look(self) -> bool:
        """Update the state and return True if it has changed.

        Raises:
            TidemillError: See `view_table`.
        """
        query, view = query_of(self._plane, self._pipeline), self._newest_view()
        is_new = self._query is None or view is not self._view or _batch(query) != _batch(self._query)
        self._query, self._view = query, view
        return is_new

    def frame(self) -> Any:
        """Return the frame of the last observed state."""
        from rich.console import Group
        from rich.text import Text

        parts = [] if self._query is None else frame(self._query, self._table, self._view)
        return Group(*(Text(part) if isinstance(part, str) else part for part in parts))

    def _newest_view(self) -> TableView | None:
        if self._table is None or (self._view is not None and time.monotonic() < self._read_again_at):
            return self._view
        version = table_version(self._plane.layout, self._table, self._others)
        if version is None or (self._view is not None and version == self._view.version):
            return self._view
        began = time.monotonic()
        view = view_table(self._plane.layout, self._table, self._wanted, self._others)
        now = time.monotonic()
        self._read_again_at = now + REST_AFTER_READING * (now - began)
        return view


def frame(query: QueryState, name: str | None, view: TableView | None) -> Iterator[Any]:
    """Yield the parts of a frame: lines of text and tables."""
    yield _headline(query)
    if name is None:
        yield from _progress(query.report)
    elif view is None:
        yield f"{name}: there is no such table yet"
    elif not view.points:
        yield f"{name} version {view.version}: no rows"
    else:
        yield f"{name} version {view.version}: {view.title}"
        yield ""
        if view.axes.is_ordered:
            yield "\n".join(columns(view.points, PLOT_LINES))
        else:
            yield "\n".join(bars(view.points[:MOST_BARS], BAR_CELLS))
        yield ""
        yield view.axes.rows_title
        yield table([plain(column) for column in view.columns], view.rows)


def _headline(query: QueryState) -> str:
    words = [query.pipeline, query.state]
    status, report = query.status, query.report
    if status is not None and status.batch_id is not None:
        words.append(f"batch {status.batch_id}")
    if report is not None and report.active:
        incoming = total_rate(source.input_rows_per_second for source in report.sources)
        done = total_rate(source.processed_rows_per_second for source in report.sources)
        words.append(f"in {incoming or '-'} rows/s, done {done or '-'} rows/s")
    if status is not None and status.lag is not None:
        words.append(f"lag {status.lag}")
    if query.exception is not None:
        words.append(f"{query.exception.get('id')} {query.exception.get('problem')}")
    return "  ".join(words)


def _progress(report: QueryReport | None) -> Iterator[Any]:
    """Yield the progress of a pipeline without a table, such as one that writes to the console."""
    if report is None or not report.recent_progress:
        yield "its driver has told of no batch yet"
        return
    rates = [float(progress.get("processedRowsPerSecond") or 0.0) for progress in report.recent_progress]
    yield f"rows done per second: {sparkline(rates)}"
    yield ""
    yield progress_table(report)


def _batch(query: QueryState) -> tuple[object, ...]:
    """Return a key that differs between two frames of a query."""
    progress = None if query.report is None else query.report.last_progress
    return (query.state, None if progress is None else progress.get("batchId"), query.exception)
