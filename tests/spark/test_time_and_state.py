"""Windows, sessions, deduplication and chained aggregates, against the same rows as lists.

All are in one query, each in a separate branch: readings out of order, some sent several times, in four
batches.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from tests.support.lake import Lake, LakePipeline
from tests.support.running_stream import running_stream
from tests.support.transform_corpus import findings_of

START = datetime(2024, 1, 1, tzinfo=UTC)
# A reading that closes what came before; in no expected row.
LAST = {"id": 999, "at": (START + timedelta(days=1)).isoformat(), "type": "clock", "signal": 0.0}
TEN, HOUR = timedelta(minutes=10), timedelta(hours=1)
# Readings have whole seconds: none comes at the end of a session.
GAP = timedelta(minutes=7, milliseconds=500)

CODE = """
from functools import reduce
from pyspark.sql import functions as F

def transform(readings):
    tens = readings.groupBy(F.window("at", "10 minutes").alias("w"), "type").agg(
        F.avg("signal").alias("value"), F.count("*").alias("n")
    )
    sliding = readings.groupBy(F.window("at", "20 minutes", "10 minutes").alias("w"), "type")
    sessions = readings.groupBy(F.session_window("at", "7 minutes 500 milliseconds").alias("w"), "type")
    once = readings.dropDuplicatesWithinWatermark(["id"])
    hours = tens.groupBy(F.window(F.window_time("w"), "1 hour").alias("w"), "type")
    branches = {
        "tumbling": tens.selectExpr("w.start AS at", "type", "value"),
        "sliding": sliding.count().selectExpr("w.start AS at", "type", "double(count) AS value"),
        "session": sessions.count().selectExpr("w.start AS at", "type", "double(count) AS value"),
        "once": once.selectExpr("at", "type", "double(id) AS value"),
        "chained": hours.agg(F.sum("n").alias("n")).selectExpr("w.start AS at", "type", "double(n) AS value"),
    }
    named = [rows.select(F.lit(name).alias("branch"), "*") for name, rows in branches.items()]
    return reduce(lambda one, other: one.unionByName(other), named)
"""

Reading = dict[str, Any]
Found = tuple[str, datetime, str, float]


def readings(chance: random.Random) -> list[Reading]:
    """Return two hours, out of order by less than the watermark; every third reading is sent three times."""
    sent = []
    for number in range(90):
        at = START + timedelta(seconds=80 * number + chance.randrange(60))
        reading = {"id": number, "at": at, "type": chance.choice("ab"), "signal": float(chance.randrange(50))}
        for _ in range(1 if number % 3 else 3):
            sent.append((at + timedelta(seconds=chance.randrange(400)), reading))
    return [reading for _, reading in sorted(sent, key=lambda one: one[0])]


def of_lists(rows: list[Reading]) -> list[Found]:
    tens, sliding = defaultdict(list), Counter()
    for row in rows:
        start = row["at"] - (row["at"] - START) % TEN
        tens[start, row["type"]].append(row["signal"])
        sliding.update([(start, row["type"]), (start - TEN, row["type"])])
    hours = Counter()
    for (start, kind), signals in tens.items():
        hours[start - (start - START) % HOUR, kind] += len(signals)
    return [
        *(("tumbling", *key, sum(signals) / len(signals)) for key, signals in tens.items()),
        *(("sliding", *key, float(count)) for key, count in sliding.items()),
        *(("session", *session) for session in sessions_of(rows)),
        *(
            ("once", at, kind, number)
            for at, kind, number in {(r["at"], r["type"], float(r["id"])) for r in rows}
        ),
        *(("chained", *key, float(count)) for key, count in hours.items()),
    ]


def sessions_of(rows: list[Reading]) -> Iterable[tuple[datetime, str, float]]:
    for kind in "ab":
        times = sorted(row["at"] for row in rows if row["type"] == kind)
        starts = [0, *(n for n, (one, two) in enumerate(pairwise(times), start=1) if two - one >= GAP)]
        for start, end in pairwise([*starts, len(times)]):
            yield times[start], kind, float(end - start)


def test_stateful_steps_give_the_rows_that_lists_give(lake: Lake) -> None:
    sent = readings(random.Random(3))
    for number, part in enumerate((sent[:50], sent[50:90], sent[90:])):
        rows = [{**row, "at": row["at"].isoformat()} for row in part]
        lake.land_rows(f"landing/readings/{number}.json", rows)
    lake.land_rows("landing/readings/last.json", [LAST])
    schema = "id long, at timestamp, type string, signal double"
    files = {"path": "landing/readings", "format": "json", "schema": schema, "max_files_per_batch": 1}
    lake.pipeline(
        "steps",
        source={"files": files},
        event_time={"column": "at", "watermark": "10 minutes"},
        transform=lake.transform("steps", CODE),
        sinks=[{"delta": {"table": "silver/steps"}}],
        run={"mode": "incremental"},
    ).run_incremental()
    rows = [(row["branch"], row["at"], row["type"], row["value"]) for row in lake.rows("silver/steps")]
    found = sorted(row for row in rows if row[2] != LAST["type"])
    expected = sorted(of_lists(sent))
    assert {branch for branch, *_ in expected} == {"tumbling", "sliding", "session", "once", "chained"}
    assert len([row for row in expected if row[0] == "session"]) > 2
    assert found == expected


def test_a_result_that_is_sorted_after_its_aggregation_is_replaced_as_a_whole(lake: Lake) -> None:
    code = """
from pyspark.sql import functions as F

def transform(readings):
    return readings.groupBy("type").count().orderBy(F.desc("count"), "type").limit(2)
"""
    for number, kinds in enumerate(("aabc", "ccc")):
        lake.land_rows(f"landing/readings/{number}.json", [{"type": kind} for kind in kinds])
    files = {"path": "landing/readings", "format": "json", "schema": "type string", "max_files_per_batch": 1}
    lake.pipeline(
        "most",
        source={"files": files},
        transform=lake.transform("most", code),
        sinks=[{"delta": {"table": "gold/most", "mode": "replace"}}],
        run={"mode": "incremental"},
    ).run_incremental()
    assert [(row["type"], row["count"]) for row in lake.rows("gold/most")] == [("c", 4), ("a", 2)]


TTL = """
from datetime import timedelta
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor

def transform(readings):
    counts = "type string, kept long, forgotten long"
    return readings.groupBy("type").transformWithState(Counts(), counts, "Append", "ProcessingTime")

class Counts(StatefulProcessor):
    def init(self, handle):
        self._kept = handle.getValueState("kept", "n long", ttlDurationMs=3_600_000)
        self._forgotten = handle.getValueState("forgotten", "n long", ttlDurationMs=1)

    def handleInputRows(self, key, rows, timerValues):
        more = len(list(rows))
        counts = [(state.get() or (0,))[0] + more for state in (self._kept, self._forgotten)]
        for state, count in zip((self._kept, self._forgotten), counts):
            state.update((count,))
        yield Row(type=key[0], kept=counts[0], forgotten=counts[1])

    def close(self):
        pass
"""


@pytest.mark.soak
def test_state_with_a_time_to_live_is_forgotten_after_it_and_not_before(lake: Lake) -> None:
    """The time to live follows the clock, so the test runs a stream. An incremental run would have none."""
    rows = [{"type": "a"}, {"type": "a"}]
    lake.land_rows("landing/readings/0.json", rows)

    def pipeline_of(lake: Lake, **run: str) -> LakePipeline:
        return lake.pipeline(
            "counts",
            source={"files": {"path": "landing/readings", "format": "json", "schema": "type string"}},
            transform=lake.transform("counts", TTL),
            sinks=[{"delta": {"table": "silver/counts"}}],
            run={"mode": "stream", "trigger": "0 seconds", "shuffle_partitions": 1, **run},
        )

    pipeline = pipeline_of(lake)
    assert [finding.error.error_id for finding in findings_of(pipeline)] == ["TIDE-PLAN-040"]
    in_memory = pipeline_of(lake, state_store="memory")
    assert [f.error.error_id for f in findings_of(in_memory)] == ["TIDE-PLAN-031", "TIDE-PLAN-040"]
    pipeline = pipeline_of(lake)

    def counts() -> list[tuple[int, int]]:
        rows = lake.rows("silver/counts") if lake.ledger("silver/counts") else []
        return sorted((row["kept"], row["forgotten"]) for row in rows)

    with running_stream(pipeline) as stream:
        stream.wait_until(lambda: counts() == [(2, 2)], "the first are counted")
        lake.land_rows("landing/readings/1.json", rows)
        stream.wait_until(lambda: len(counts()) == 2, "the next are counted")
        stream.drain()
    assert counts() == [(2, 2), (4, 2)]
