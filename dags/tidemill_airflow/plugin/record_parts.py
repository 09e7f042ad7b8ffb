"""Parts of a pipeline's page that show records, for viewers with the permission for records only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tidemill.control.plane import ControlPlane
from tidemill.ledger.newest_rows import Wanted, view_table
from tidemill.ledger.quarantine_rows import count_reasons, newest_rejected
from tidemill.names import Layout
from tidemill.spec.readable import shown
from tidemill_airflow.plugin.answers import LogTail, PlotPoint, ReasonCount, Records, Sample

# Maximum characters of a cell; a record may have megabytes, and a browser shows one line of it.
CELL_CHARACTERS = 2_000


def reasons_of(path: str) -> list[ReasonCount]:
    """Return the number of records in the quarantine at `path` by reason, without their content."""
    return [
        ReasonCount(reason=str(row["reason"]), records=row["records"], newest=row["newest"])
        for row in count_reasons(path)
    ]


def rejected_of(path: str, limit: int) -> Records:
    """Return the newest records in the quarantine at `path`, with their text."""
    rows = newest_rejected(path, limit, raw=True)
    columns = [name for name in (rows[0] if rows else {}) if any(row[name] is not None for row in rows)]
    return _records(columns, rows)


def sample_of(layout: Layout, table: str, wanted: Wanted) -> Sample:
    """Return the newest rows of an existing table, and a plot.

    Raises:
        TidemillError: See `view_table`.
    """
    view = view_table(layout, table, wanted)
    rows = tuple(tuple(_cell(cell) for cell in row) for row in view.rows)
    return Sample(
        table=table,
        version=view.version,
        title=view.title,
        is_ordered=view.axes.is_ordered,
        points=tuple(PlotPoint(label=point.label, value=point.value) for point in view.points),
        records=Records(columns=tuple(view.columns), rows=rows),
    )


def log_of(plane: ControlPlane, pipeline: str) -> LogTail | None:
    """Return the newest lines of the newest driver's log, without secrets; None if no driver has run."""
    driver = plane.runtime.last_start(pipeline)
    if driver is None:
        return None
    lines = plane.runtime.read_log(driver).lines
    return LogTail(run_id=driver.run_id, process=driver.process, lines=tuple(lines))


def _records(columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> Records:
    cells = tuple(tuple(_cell(row[name]) for name in columns) for row in rows)
    return Records(columns=tuple(columns), rows=cells)


def _cell(value: object) -> str | None:
    return None if value is None else shown(value)[:CELL_CHARACTERS]
