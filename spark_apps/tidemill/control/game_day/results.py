"""Measurements of game days: a Delta table with one row for each drill."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from tidemill.control.game_day.rule import GameDay
from tidemill.ledger.read import open_table
from tidemill.names import GAME_DAYS_TABLE, Layout
from tidemill.storage.access import access_to

if TYPE_CHECKING:
    import pyarrow as pa

# Maximum characters kept of a proof or an error.
KEPT_CHARACTERS = 1000


@dataclass(frozen=True)
class GameDayRow:
    """A row of the table; `seconds` from the fault to the proof of progress."""

    at: datetime
    run_id: str
    pipeline: str
    by: str
    drill: str
    outcome: str
    seconds: float
    told: str


def rows_of(day: GameDay) -> list[GameDayRow]:
    """Return the rows of one game day."""
    return [
        GameDayRow(
            day.at,
            day.run_id,
            day.pipeline,
            day.by,
            result.drill,
            result.outcome,
            result.seconds,
            result.told[:KEPT_CHARACTERS],
        )
        for result in day.results
    ]


def keep(layout: Layout, day: GameDay) -> None:
    """Append a game day to the table; the first one creates the table."""
    import pyarrow as pa
    from deltalake import write_deltalake

    path = layout.table(GAME_DAYS_TABLE)
    rows = pa.Table.from_pylist([asdict(row) for row in rows_of(day)], schema=_schema())
    write_deltalake(path, rows, mode="append", storage_options=access_to(path).delta_options())


def newest(layout: Layout, pipeline: str = "") -> list[dict[str, Any]]:
    """Return all rows, the newest first, optionally of one pipeline."""
    table = open_table(layout.table(GAME_DAYS_TABLE))
    if table is None:
        return []
    rows = table.to_pyarrow_table().to_pylist()
    found = [row for row in rows if pipeline in ("", row["pipeline"])]
    return sorted(found, key=lambda row: row["at"], reverse=True)


def _schema() -> pa.Schema:
    import pyarrow as pa

    texts = ("run_id", "pipeline", "by", "drill", "outcome")
    return pa.schema(
        [
            ("at", pa.timestamp("us", "UTC")),
            *((name, pa.string()) for name in texts),
            ("seconds", pa.float64()),
            ("told", pa.string()),
        ]
    )
