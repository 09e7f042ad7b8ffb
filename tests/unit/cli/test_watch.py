"""The output of `tidemill watch`, line by line."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from rich.console import Console

from tests.support.command_line import CommandLine
from tests.support.conf_project import ConfProject
from tidemill.checkpoint.query_report import QueryReport, SourceReport, write_query_report
from tidemill.checkpoint.status import Status, write_status
from tidemill.cli.plot import bars, columns, sparkline
from tidemill.cli.watch_frame import Watched
from tidemill.control.plane import open_control_plane
from tidemill.errors import UsageError
from tidemill.ledger.newest_rows import Point, Wanted, choose_axes, drawable
from tidemill.storage.store import Store

START = datetime(2026, 1, 1, tzinfo=UTC)
PIPELINE = """
description: Orders by the minute.
owner: tests
source: {rate: {}}
sinks:
  - %s
"""


def orders(first: int, last: int) -> pa.Table:
    minutes = range(first, last)
    return pa.table(
        {
            "kafka_offset": list(minutes),
            "at": [START + timedelta(minutes=minute) for minute in minutes],
            "customer": ["ann" if minute % 2 else "bo\x1b[2J" for minute in minutes],
            "amount": [float(minute) for minute in minutes],
        }
    )


@pytest.fixture
def stream(project: ConfProject) -> ConfProject:
    """Return a stream that has run, with a table of ten rows."""
    project.write("conf/pipelines/sales.yaml", PIPELINE % "delta: {table: silver/orders}")
    layout = project.load().layout
    write_deltalake(layout.table("silver/orders"), orders(0, 10))
    tell(project, 3, rows=10)
    return project


def tell(project: ConfProject, batch_id: int, rows: int) -> None:
    """Write the status and the query report of a driver."""
    layout = project.load().layout
    store = Store(layout.root)
    now = datetime.now(UTC)
    base = {"pipeline": "sales", "run_id": "r", "started_at": now, "updated_at": now}
    status = Status(mode="stream", state="stopped", batch_id=batch_id, lag=7, **base)
    write_status(store, layout.status("sales"), status)
    progress = {
        "batchId": batch_id,
        "numInputRows": rows,
        "processedRowsPerSecond": float(rows),
        "timestamp": "2026-01-01T00:10:00.000Z",
        "durationMs": {"triggerExecution": 1000},
    }
    report = QueryReport(
        id="i",
        query_run_id="q",
        name="sales",
        active=False,
        sources=(SourceReport(name="source", rows=rows),),
        last_progress=progress,
        recent_progress=({**progress, "processedRowsPerSecond": 0.0}, progress),
        **base,
    )
    write_query_report(store, layout, report)


def test_a_frame_has_the_progress_a_plot_and_the_newest_rows(
    tidemill: CommandLine, stream: ConfProject
) -> None:
    assert tidemill("watch", "sales", "--once", "--rows", "2") == 0, tidemill.err
    assert [line.rstrip() for line in tidemill.out.splitlines()] == [
        "sales  stopped  batch 3  lag 7",
        "silver/orders version 0: mean amount by at",
        "",
        "9 ┤        ▁█",
        "  ┤       ▂██",
        "  ┤      ▃███",
        "  ┤     ▄████",
        "  ┤    ▅█████",
        "  ┤   ▆██████",
        "  ┤  ▇███████",
        "0 ┤▁█████████",
        "  └──────────",
        "   2026-01-01 00:00:00 … 2026-01-01 00:09:00",
        "",
        "newest rows by at",
        "kafka_offset   at                    customer   amount",
        "──────────────────────────────────────────────────────",
        "9              2026-01-01 00:09:00   ann        9",
        "8              2026-01-01 00:08:00   bo\ufffd[2J     8",
    ]


def test_by_key_the_highest_values_come_first(tidemill: CommandLine, stream: ConfProject) -> None:
    assert tidemill("watch", "sales", "--once", "--x", "customer", "--rows", "1") == 0, tidemill.err
    lines = tidemill.out.splitlines()
    assert [line.rstrip() for line in lines[1:5]] == [
        "silver/orders version 0: mean amount by customer",
        "",
        f"ann    {'█' * 40} 5",
        f"bo\ufffd[2J {'█' * 32:<40} 4",
    ]
    assert lines[-1].split()[0] == "9"


def test_only_what_is_new_makes_a_new_frame(stream: ConfProject) -> None:
    plane = open_control_plane(stream.load(), {})
    watched = Watched(plane, "sales", "silver/orders", Wanted(rows=1))

    def last_line() -> str:
        screen = Console(record=True, width=100)
        screen.print(watched.frame())
        return screen.export_text().split("\n")[-2]

    assert [watched.look(), watched.look()] == [True, False]
    assert last_line().split()[-1] == "9"
    write_deltalake(plane.layout.table("silver/orders"), orders(10, 12), mode="append")
    watched._read_again_at = 0.0
    assert [watched.look(), watched.look()] == [True, False]
    assert last_line().split()[-1] == "11"
    tell(stream, 4, rows=2)
    assert watched.look()


def test_a_pipeline_without_a_table_shows_its_progress(tidemill: CommandLine, stream: ConfProject) -> None:
    stream.write("conf/pipelines/sales.yaml", PIPELINE % "console: {}")
    assert tidemill("watch", "sales", "--once") == 0, tidemill.err
    lines = [" ".join(line.split()) for line in tidemill.out.splitlines()]
    assert lines[:2] == ["sales stopped batch 3 lag 7", "rows done per second: ▁█"]
    assert lines[-1] == "3 2026-01-01 00:10:00 10 10.0 1000"


@pytest.mark.parametrize(
    ("name", "words"),
    [("sales", "sales never ran"), ("sales", "silver/orders: there is no such table yet")],
)
def test_a_pipeline_that_never_ran_has_a_frame_too(
    tidemill: CommandLine, project: ConfProject, name: str, words: str
) -> None:
    project.write("conf/pipelines/sales.yaml", PIPELINE % "delta: {table: silver/orders}")
    assert tidemill("watch", name, "--once") == 0, tidemill.err
    assert words in [" ".join(line.split()) for line in tidemill.out.splitlines()]


@pytest.mark.parametrize(
    ("words", "error", "fix"),
    [
        (("--x", "amout"), "TIDE-QUERY-005", "did you mean amount?"),
        (("--y", "customer"), "TIDE-QUERY-006", "fitting=kafka_offset, amount"),
        (("--table", "silver/order"), "Usage", "sales writes silver/orders"),
        (("--every", "often"), "Usage", "expected a duration"),
    ],
)
def test_what_cannot_be_shown_is_refused_with_what_can(
    tidemill: CommandLine, stream: ConfProject, words: tuple[str, ...], error: str, fix: str
) -> None:
    assert tidemill("watch", "sales", "--once", *words) == 2
    assert tidemill.err.startswith(error)
    assert fix in tidemill.err


FLOAT, TIME, TEXT, LONG = pa.float64(), pa.timestamp("us", "UTC"), pa.string(), pa.int64()
WINDOW = pa.struct({"start": TIME, "end": TIME})


@pytest.mark.parametrize(
    ("schema", "wanted", "expected"),
    [
        ({"made": TIME, "at": TIME, "v": FLOAT}, Wanted(event_time="at"), ("at", "v", True)),
        ({"made": TIME, "v": FLOAT}, Wanted(event_time="at"), ("made", "v", True)),
        ({"word": TEXT, "count": LONG}, Wanted(), ("word", "count", False)),
        ({"word": TEXT}, Wanted(), ("word", "count(*)", False)),
        ({"value": LONG}, Wanted(), ("value", "count(*)", True)),
        ({"kafka_offset": LONG, "value": LONG, "v": FLOAT}, Wanted(), ("value", "v", True)),
        ({"at": TIME, "price": pa.decimal128(9, 2)}, Wanted(), ("at", "price", True)),
        ({"at": TIME, "device": TEXT, "v": FLOAT}, Wanted(x="device"), ("device", "v", False)),
        ({"word": TEXT, "window": WINDOW, "v": FLOAT}, Wanted(), ("window.start", "v", True)),
        ({"window": WINDOW, "at": TIME, "v": FLOAT}, Wanted(), ("at", "v", True)),
        ({"word": TEXT, "window": WINDOW}, Wanted(x="window.end"), ("window.end", "count(*)", True)),
    ],
)
def test_the_columns_to_draw_follow_from_their_types(
    schema: dict[str, Any], wanted: Wanted, expected: tuple[str, str, bool]
) -> None:
    axes = choose_axes(drawable(schema), wanted)
    assert (axes.x, axes.y, axes.is_ordered) == expected


def test_a_table_of_lists_cannot_be_drawn() -> None:
    with pytest.raises(UsageError) as caught:
        choose_axes(drawable({"times": pa.list_(TIME)}), Wanted())
    assert (caught.value.error_id, caught.value.facts["fitting"]) == ("TIDE-QUERY-006", "none")


def test_columns_rise_from_the_lowest_to_the_highest_value() -> None:
    points = [Point(label, value) for label, value in zip("abcdef", [-2, 0, 6, 2, 2, -1], strict=True)]
    assert columns(points, 2) == [
        " 6 ┤  █▁▁",
        "-2 ┤▁▅███▃",
        "   └──────",
        "    a    f",
    ]
    assert columns([Point("a", 5.0), Point("b", 5.0)], 2)[:2] == ["5 ┤", "5 ┤██"]


def test_bars_begin_at_zero() -> None:
    assert bars([Point("up", 3.0), Point("down", -1.0), Point("none", 0.0)], 8) == [
        "up     ██████ 3",
        "down ██       -1",
        "none          0",
    ]
    assert bars([Point("x" * 30, 0.0)], 4) == [f"{'x' * 24}      0"]


def test_a_sparkline_begins_at_zero() -> None:
    assert sparkline([0.0, 5.0, 10.0]) == "▁▅█"
    assert sparkline([]) == ""
