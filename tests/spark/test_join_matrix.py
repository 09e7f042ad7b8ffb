"""Each cell of the join matrix (`spec/join_matrix.py`): it runs, or is refused before a query starts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from tests.support.lake import Lake, LakePipeline
from tests.support.transform_corpus import findings_of
from tidemill.spec.join_matrix import JOINS, KINDS, Join
from tidemill.spec.transform_rules import UNBOUNDED_JOIN

Row = tuple[Any, ...]

START = datetime(2024, 1, 1, tzinfo=UTC)
WITHIN = timedelta(minutes=30)
# Minutes after the start, by id: pairs in time, a pair too far apart, ids of one side, repeated ids.
PUMPS = [(1, 0), (2, 5), (3, 10), (3, 12), (4, 15), (6, 40)]
ALARMS = [(1, 20), (2, 50), (3, 11), (3, 30), (5, 18), (6, 40)]
# Far later, with ids that match nothing: they close what came before.
LAST = (99, 600)
SITES = [(1, "north"), (3, "south"), (7, "east")]
OWNERS = [(1, "ann"), (7, "bob"), (8, "eve")]

STREAMS = """
from pyspark.sql import functions as F

def transform(pumps, alarms):
    alarms = alarms.withColumnRenamed("id", "alarm_id")
    near = F.expr("id = alarm_id AND rang BETWEEN at AND at + INTERVAL 30 MINUTES")
    return pumps.join(alarms, near, "{kind}").select({columns})
"""
TABLES = """
from functools import reduce
from pyspark.sql import functions as F

NAMES = ("left_id", "left_name", "right_id", "right_name")

def transform(pumps, sites, owners):
    tables = {{"left": sites, "right": owners}}
    stream = pumps.select("id", F.lit("pump").alias("name"))

    def joined(left, right, kind):
        sides = [
            (stream if what == "stream" else tables[side]).toDF(f"{{side}}_id", f"{{side}}_name")
            for side, what in (("left", left), ("right", right))
        ]
        rows = sides[0].join(sides[1], F.expr("left_id = right_id"), kind.replace("semi", "left_semi"))
        if (left, right) == ("table", "table"):
            # Beside one row of the stream: two tables alone are no stream.
            rows = rows.crossJoin(pumps.where("id = 2").select("at"))
        columns = [F.col(name) if name in rows.columns else F.expr(f"null AS {{name}}") for name in NAMES]
        return rows.select(F.lit(f"{{left}} {{right}} {{kind}}").alias("cell"), *columns)

    return reduce(lambda one, other: one.unionByName(other), [joined(*cell) for cell in {cells}])
"""


def at(minute: int) -> datetime:
    return START + timedelta(minutes=minute)


def cells(*, stateful: bool) -> list[Join]:
    return [join for join in JOINS if join.stateful is stateful]


def stream(name: str, column: str, *, watermark: bool) -> dict[str, Any]:
    files = {"path": f"landing/{name}", "format": "json", "schema": f"id long, {column} timestamp"}
    times = {"event_time": {"column": column, "watermark": "5 minutes"}} if watermark else {}
    return {"files": {**files, "max_files_per_batch": 1}, **times}


def land(lake: Lake, name: str, column: str, rows: list[tuple[int, int]]) -> None:
    for number, part in enumerate((rows[:3], rows[3:], [LAST])):
        found = [{"id": row, column: at(minute).isoformat()} for row, minute in part]
        lake.land_rows(f"landing/{name}/{number}.json", found)


def of_lists(kind: str, left: list[Row], right: list[Row], pairs: list[tuple[Row, Row]]) -> list[Row]:
    """Return the join of two lists, of which the matching pairs are given."""
    nothing = (None, None)
    matched = {one for one, _ in pairs}, {other for _, other in pairs}
    if kind == "semi":
        return [(*row, *nothing) for row in left if row in matched[0]]
    return [
        *((*one, *other) for one, other in pairs),
        *((*row, *nothing) for row in left if kind in ("left", "full") and row not in matched[0]),
        *((*nothing, *row) for row in right if kind in ("right", "full") and row not in matched[1]),
    ]


def test_the_matrix_has_each_kind_of_join_of_each_pair_of_inputs() -> None:
    found = {
        sides: [join.kind for join in group] for sides, group in groupby(JOINS, lambda j: (j.left, j.right))
    }
    inputs = ("stream", "table")
    assert found == {(left, right): list(KINDS) for left in inputs for right in inputs}


@pytest.mark.parametrize(
    "join",
    [
        pytest.param(join, id=join.kind, marks=() if join.kind in ("inner", "full") else pytest.mark.soak)
        for join in cells(stateful=True)
    ],
)
def test_two_streams_are_joined_as_lists_are(lake: Lake, join: Join) -> None:
    for name, column, rows in (("pumps", "at", PUMPS), ("alarms", "rang", ALARMS)):
        land(lake, name, column, rows)
    pipeline = two_streams(lake, join, {"pumps", "alarms"})
    pipeline.run_incremental()
    rows = [(*row.values(), None, None)[:4] for row in lake.rows("silver/joined")]
    pumps, alarms = ([(number, at(minute)) for number, minute in side] for side in (PUMPS, ALARMS))
    pairs = [(p, a) for p in pumps for a in alarms if p[0] == a[0] and p[1] <= a[1] <= p[1] + WITHIN]
    found = [row for row in rows if LAST[0] not in (row[0], row[2])]
    assert sorted(found, key=str) == sorted(of_lists(join.kind, pumps, alarms, pairs), key=str)
    assert (pipeline.checkpoint / "state").exists()


def two_streams(lake: Lake, join: Join, watermarks: set[str]) -> LakePipeline:
    columns = '"id", "at"' if join.kind == "semi" else '"id", "at", "alarm_id", "rang"'
    kind = "left_semi" if join.kind == "semi" else join.kind
    for name in ("pumps", "alarms"):
        (lake.root / "landing" / name).mkdir(parents=True, exist_ok=True)
    return lake.pipeline(
        "joined",
        sources={
            name: stream(name, column, watermark=name in watermarks)
            for name, column in (("pumps", "at"), ("alarms", "rang"))
        },
        transform=lake.transform("joined", STREAMS.format(kind=kind, columns=columns)),
        sinks=[{"delta": {"table": "silver/joined"}}],
        run={"mode": "incremental"},
    )


def test_without_a_watermark_on_either_side_two_streams_are_not_joined(lake: Lake) -> None:
    """Either Spark requires that side's watermark, or Tidemill does, because the state grows."""
    sides = {"pumps": "left", "alarms": "right"}
    wrong = []
    for join in cells(stateful=True):
        for watermarks in (set(), {"pumps"}, {"alarms"}):
            [finding] = [
                one for one in findings_of(two_streams(lake, join, watermarks)) if not one.rule.warns
            ]
            by_spark = str(finding.error.facts["reason"]).startswith("Stream-stream")
            enough = not join.needs or {sides[name] for name in watermarks} & set(join.needs)
            if finding.rule is not UNBOUNDED_JOIN or by_spark is bool(enough):
                wrong.append((join.kind, watermarks, finding))
    assert not wrong


def with_tables(lake: Lake, joins: list[Join]) -> LakePipeline:
    for name, rows in (("sites", SITES), ("owners", OWNERS)):
        columns = {"id": [number for number, _ in rows], "name": [text for _, text in rows]}
        write_deltalake(str(lake.root / f"tables/silver/{name}"), pa.table(columns), mode="overwrite")
    (lake.root / "landing/pumps").mkdir(parents=True, exist_ok=True)
    named = [(join.left, join.right, join.kind) for join in joins]
    return lake.pipeline(
        "cells",
        sources={
            "pumps": stream("pumps", "at", watermark=False),
            **{name: {"delta": {"table": f"silver/{name}"}, "as": "table"} for name in ("sites", "owners")},
        },
        transform=lake.transform("cells", TABLES.format(cells=named)),
        sinks=[{"delta": {"table": "silver/cells"}}],
        run={"mode": "incremental"},
    )


def test_a_stream_and_tables_are_joined_as_lists_are_without_state(lake: Lake) -> None:
    joins = [join for join in cells(stateful=False) if join.refused is None]
    lake.land_rows("landing/pumps/1.json", [{"id": number} for number, _ in PUMPS])
    pipeline = with_tables(lake, joins)
    pipeline.run_incremental()
    found = sorted((tuple(row.values()) for row in lake.rows("silver/cells")), key=str)
    lists = {"stream": [(number, "pump") for number, _ in PUMPS]}
    expected = []
    for join in joins:
        left, right = lists.get(join.left, SITES), lists.get(join.right, OWNERS)
        pairs = [(one, other) for one in left for other in right if one[0] == other[0]]
        rows = of_lists(join.kind, left, right, pairs)
        expected += [(f"{join.left} {join.right} {join.kind}", *row) for row in rows]
    assert found == sorted(expected, key=str)
    assert not (pipeline.checkpoint / "state").exists()


@pytest.mark.parametrize(
    "join", [j for j in JOINS if j.refused], ids=lambda j: f"{j.left}-{j.right}-{j.kind}"
)
def test_what_would_keep_rows_of_the_table_is_refused(lake: Lake, join: Join) -> None:
    [finding] = findings_of(with_tables(lake, [join]))
    assert (finding.rule, finding.error.error_id) == (join.refused, "TIDE-PLAN-018")
    assert finding.error.facts["reason"]
    assert finding.error.fix
