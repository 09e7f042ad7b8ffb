"""Rows of a plot: all of a small table, and of a large one as many as fit into memory."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from tidemill.ledger.newest_rows import TableView, Wanted, view_table
from tidemill.names import Layout

START = datetime(2026, 1, 1, tzinfo=UTC)


def view(folder: Path, rows: dict[str, Sequence[Any]], wanted: Wanted) -> TableView:
    """Return the view of a table with one file per two rows."""
    layout, table = Layout(str(folder)), pa.table(rows)
    for begin in range(0, table.num_rows, 2):
        write_deltalake(layout.table("silver/t"), table.slice(begin, 2), mode="append")
    return view_table(layout, "silver/t", wanted)


MINUTES = [START + timedelta(minutes=minute) for minute in (4, 0, 1, 5, 5, 2, 3)]
AMOUNTS = [4.0, 0.0, 1.0, 5.0, 7.0, 2.0, 3.0]
KEYS = ["b", "a", "a", "b", "c", "a", "b"]


@pytest.mark.parametrize(
    ("rows", "wanted", "title", "points"),
    [
        (
            {"at": MINUTES, "amount": AMOUNTS},
            Wanted(drawn_rows=4),
            "mean amount by at, of the 4 rows with the highest at",
            [("03", 3.0), ("04", 4.0), ("05", 6.0)],
        ),
        (
            {"at": MINUTES, "amount": AMOUNTS},
            Wanted(),
            "mean amount by at",
            [("00", 0.0), ("01", 1.0), ("02", 2.0), ("03", 3.0), ("04", 4.0), ("05", 6.0)],
        ),
        (
            {"at": MINUTES, "amount": AMOUNTS, "key": KEYS},
            Wanted(x="key", drawn_rows=3),
            "mean amount by key, of the 3 rows with the highest at",
            [("c", 7.0), ("b", 4.5)],
        ),
        (
            {"x": MINUTES, "amount": AMOUNTS, "key": KEYS},
            Wanted(x="key", drawn_rows=3),
            "mean amount by key, of the 3 rows with the highest x",
            [("c", 7.0), ("b", 4.5)],
        ),
        (
            {"key": KEYS, "amount": AMOUNTS},
            Wanted(drawn_rows=2),
            "mean amount by key, of the 2 rows with the highest amount",
            [("c", 7.0), ("b", 5.0)],
        ),
        ({"key": ["a"] * 7}, Wanted(drawn_rows=5), "rows by key, of 5 rows of the table", [("a", 5.0)]),
        ({"key": ["a"] * 7}, Wanted(), "rows by key", [("a", 7.0)]),
    ],
)
def test_a_plot_of_a_large_table_is_of_some_of_its_rows_and_says_of_which(
    tmp_path: Path,
    rows: dict[str, Sequence[Any]],
    wanted: Wanted,
    title: str,
    points: list[tuple[str, float]],
) -> None:
    found = view(tmp_path, rows, wanted)
    # The minute is enough to identify a time.
    told = [(point.label[14:16] or point.label, point.value) for point in found.points]
    assert (found.title, told) == (title, points)
