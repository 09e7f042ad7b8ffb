"""Each kind of join of two streams, against the join of the same rows as lists."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.support.lake import Lake

START = datetime(2024, 1, 1, tzinfo=UTC)
WITHIN = timedelta(minutes=30)
# Minutes after the start, by id: pairs in time, a pair too far apart, ids of one side, repeated ids.
PUMPS = [(1, 0), (2, 5), (3, 10), (3, 12), (4, 15), (6, 40)]
ALARMS = [(1, 20), (2, 50), (3, 11), (3, 30), (5, 18), (6, 40)]
# Far later, with ids that match nothing: they close what came before.
LAST = (99, 600)

JOIN = """
from pyspark.sql import functions as F

def transform(pumps, alarms):
    alarms = alarms.withColumnRenamed("id", "alarm_id")
    near = F.expr("id = alarm_id AND rang BETWEEN at AND at + INTERVAL 30 MINUTES")
    return {sides}.select({columns})
"""
PAIR = '"id", "at", "alarm_id", "rang"'
KINDS = {
    "inner": ('pumps.join(alarms, near, "inner")', PAIR),
    "left": ('pumps.join(alarms, near, "left")', PAIR),
    "right": ('pumps.join(alarms, near, "right")', PAIR),
    "full": ('pumps.join(alarms, near, "full")', PAIR),
    "semi": ('pumps.join(alarms, near, "left_semi")', '"id", "at"'),
}


def at(minute: int) -> datetime:
    return START + timedelta(minutes=minute)


def joined(kind: str) -> list[tuple[Any, ...]]:
    """The rows that the join has once nothing of the day can come any more."""
    pumps, alarms = ([(number, at(minute)) for number, minute in side] for side in (PUMPS, ALARMS))
    pairs = [(*p, *a) for p in pumps for a in alarms if p[0] == a[0] and p[1] <= a[1] <= p[1] + WITHIN]
    if kind == "semi":
        return [pump for pump in pumps if any(pair[:2] == pump for pair in pairs)]
    alone = [(*p, None, None) for p in pumps if kind in ("left", "full") and p not in {q[:2] for q in pairs}]
    rang = [(None, None, *a) for a in alarms if kind in ("right", "full") and a not in {q[2:] for q in pairs}]
    return [*pairs, *alone, *rang]


@pytest.mark.parametrize("kind", list(KINDS))
def test_streams_are_joined_as_lists_are(lake: Lake, kind: str) -> None:
    for name, column, rows in (("pumps", "at", PUMPS), ("alarms", "rang", ALARMS)):
        for number, part in enumerate((rows[:3], rows[3:], [LAST])):
            found = [{"id": row, column: at(minute).isoformat()} for row, minute in part]
            lake.land_rows(f"landing/{name}/{number}.json", found)
    sides, columns = KINDS[kind]
    pipeline = lake.pipeline(
        "joined",
        sources={
            name: {
                "files": {
                    "path": f"landing/{name}",
                    "format": "json",
                    "schema": f"id long, {column} timestamp",
                    "max_files_per_batch": 1,
                },
                "event_time": {"column": column, "watermark": "5 minutes"},
            }
            for name, column in (("pumps", "at"), ("alarms", "rang"))
        },
        transform=lake.transform("joined", JOIN.format(sides=sides, columns=columns)),
        sinks=[{"delta": {"table": "silver/joined"}}],
        run={"mode": "incremental"},
    )
    pipeline.run_incremental()
    rows = [tuple(row.values()) for row in lake.rows("silver/joined")]
    found = [row for row in rows if LAST[0] not in (row[0], row[-2])]
    assert sorted(found, key=str) == sorted(joined(kind), key=str)
