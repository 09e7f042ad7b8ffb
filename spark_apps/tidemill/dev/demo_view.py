"""View of the demo: input rows, windows, alerts, quarantined rows, lag and batch time, as lines or live."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from tidemill.checkpoint.status import Status, read_status
from tidemill.control.plane import ControlPlane
from tidemill.dev.demo import STREAMS, Demo
from tidemill.errors import UnavailableError
from tidemill.ledger.read import open_table

if TYPE_CHECKING:
    from rich.table import Table

    from tidemill.dev.airflow_standalone import AirflowServer

# The first windows appear within about two minutes with a warm cache on two cores. Later than this limit,
# something is wrong, and the reason is more useful than more waiting.
FIRST_WINDOWS_TIMEOUT_SECONDS = 420

# Seconds between two reads of the status files and tables.
LOOK_SECONDS = 2.0

# Seconds between two printed lines without a terminal.
LINE_SECONDS = 10.0


@dataclass(frozen=True)
class Look:
    """The demo at one time.

    Args:
        statuses: Statuses by pipeline; a stream that has not started yet has none.
        rows: Current rows in each table.
    """

    statuses: dict[str, Status | None]
    rows: dict[str, int]

    @property
    def windows(self) -> int:
        """Return the number of closed windows in the silver table."""
        return self.rows["silver/iot_device_windows"]

    def line(self) -> str:
        """Return one line for a log."""
        bronze, windows = (self.statuses[name] for name in STREAMS)
        states = (
            f"{name} {status.state if status else 'not started'}" for name, status in self.statuses.items()
        )
        return "  ".join(
            [
                f"rows {self.rows['bronze/iot_events']}",
                f"windows {self.windows}",
                f"alerts {self.rows['silver/iot_alerts']}",
                f"quarantined {bronze.quarantined_rows if bronze else 0}",
                f"late {windows.late_rows if windows else 0}",
                f"lag {_lag(bronze)}/{_lag(windows)}",
                *states,
            ]
        )


def look(plane: ControlPlane) -> Look:
    """Return the current state, from status files and table logs."""
    tables = ("bronze/iot_events", "silver/iot_device_windows", "silver/iot_alerts", "gold/iot_daily_summary")
    return Look(
        {name: read_status(plane.store, plane.layout, name) for name in STREAMS},
        {table: _count(plane.layout.table(table)) for table in tables},
    )


def wait_for_windows(demo: Demo, show: Callable[[Look], None]) -> Look:
    """Show the state repeatedly until the first windows are committed.

    Raises:
        UnavailableError: TIDE-DEV-032, with the state of each stream, if no window is committed.
    """
    plane = demo.plane()
    deadline = time.monotonic() + FIRST_WINDOWS_TIMEOUT_SECONDS
    seen = look(plane)
    while seen.windows == 0:
        show(seen)
        if time.monotonic() > deadline:
            raise UnavailableError(
                "TIDE-DEV-032",
                f"No window was committed within {FIRST_WINDOWS_TIMEOUT_SECONDS} s.",
                facts={name: _state(status) for name, status in seen.statuses.items()},
                fix=f"see the drivers' logs below {plane.environment.run_folder / 'logs'}",
            )
        time.sleep(LOOK_SECONDS)
        seen = look(plane)
    show(seen)
    return seen


def every_few_seconds(say: Callable[[str], None]) -> Callable[[Look], None]:
    """Return a function that prints a line for some of the states, at intervals."""
    last = [0.0]

    def show(seen: Look) -> None:
        if seen.windows or time.monotonic() - last[0] >= LINE_SECONDS:
            last[0] = time.monotonic()
            say(seen.line())

    return show


def picture(seen: Look, airflow: AirflowServer, before: Look | None) -> Table:
    """Return the live view: one row per stream, one per table."""
    from rich.table import Table

    table = Table(
        title="Tidemill demo: Kafka -> bronze -> silver -> gold", title_justify="left", expand=False
    )
    for heading in ("", "rows", "per second", "state", "lag", "batch", "quarantined", "late", "committed"):
        table.add_column(heading, justify="left" if heading in ("", "state") else "right")
    for name, status in seen.statuses.items():
        table.add_row(*_stream_cells(name, status))
    table.add_section()
    for name, rows in seen.rows.items():
        gained = (rows - before.rows[name]) / LOOK_SECONDS if before else 0
        table.add_row(name, f"{rows:,}", f"{gained:,.0f}")
    table.caption = (
        f"Airflow {airflow.url}  user {airflow.user}  password {airflow.password}\n"
        "CTRL-C ends this view only; make demo-stop ends all"
    )
    table.caption_justify = "left"
    return table


def _stream_cells(name: str, status: Status | None) -> tuple[str, ...]:
    if status is None:
        return (name, "", "", "not started")
    age = "" if status.batch_committed_at is None else _seconds(datetime.now(UTC) - status.batch_committed_at)
    running = max((status.updated_at - status.started_at).total_seconds(), 1)
    return (
        name,
        f"{status.rows:,}",
        f"{status.rows / running:,.0f}",
        _state(status),
        _lag(status),
        "" if status.batch_milliseconds is None else f"{status.batch_milliseconds} ms",
        str(status.quarantined_rows),
        str(status.late_rows),
        age and f"{age} ago",
    )


def _state(status: Status | None) -> str:
    if status is None:
        return "not started"
    return f"{status.state}: {status.error['id']} {status.error['problem']}" if status.error else status.state


def _lag(status: Status | None) -> str:
    return "?" if status is None or status.lag is None else f"{status.lag:,}"


def _seconds(duration: timedelta) -> str:
    return f"{duration.total_seconds():.0f} s"


def _count(path: str) -> int:
    """Return the rows by the log's statistics, which are exact only without deletion vectors, as here."""
    table = open_table(path)
    return 0 if table is None else int(table.count())
