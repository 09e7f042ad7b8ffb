"""Expectations of a table: every row is in the table, counted as dropped, or in the quarantine, each once."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.support.lake import Lake, LakePipeline
from tests.support.writer_cases import CrashedError
from tidemill.engine.analyse import analyse
from tidemill.engine.plan_check.conditions import why_not_of_one_row
from tidemill.errors import DataError, GateRefusedError, SpecError
from tidemill.ledger.entry import ExpectationCounts, LedgerEntry
from tidemill.sinks.batch_commit import StepDone

HOT = {"expect": "temperature <= 150", "on_violation": "quarantine"}
NAMED = {"expect": "device <> ''", "on_violation": "drop"}
WARM = {"expect": "temperature > 0", "on_violation": "warn"}
ALL = {"not_hot": HOT, "named": NAMED, "warm": WARM}


def readings(lake: Lake, *sinks: dict[str, Any], **declared: Any) -> LakePipeline:
    files = {"path": "landing/readings", "format": "json", "max_files_per_batch": 1}
    return lake.pipeline(
        "readings",
        source={"files": {**files, "schema": "id long, device string, temperature double"}},
        sinks=[{"delta": sink} for sink in sinks],
        run={"mode": "incremental"},
        **declared,
    )


def land(lake: Lake, number: int) -> None:
    """Write readings: good, cold, hot, hot without a name, without a name, a null of each, a broken line."""
    found = [("a", 20), ("a", -5), ("a", 200), ("", 200), ("", 20), (None, 20), ("a", None)]
    rows = [
        {"id": 10 * number + n, "device": device, "temperature": value}
        for n, (device, value) in enumerate(found)
    ]
    lines = [json.dumps(row) for row in rows]
    lake.land(f"landing/readings/{number}.json", "\n".join([*lines, '{"id": broken', ""]))


def crash_after(*steps: str) -> StepDone:
    """Fail once, when these steps were done in this order."""
    left = list(steps)

    def crash(done: str) -> None:
        if left and done == left[0]:
            left.pop(0)
            if not left:
                raise CrashedError(done)

    return crash


def entries(lake: Lake, table: str) -> list[LedgerEntry]:
    """Return the ledger entries of a table, oldest first."""
    return [commit.entry for commit in reversed(lake.ledger(table)) if commit.entry is not None]


def counts(entry: LedgerEntry) -> ExpectationCounts:
    assert entry.expectations is not None
    return entry.expectations


def quarantined(lake: Lake) -> list[tuple[str, int]]:
    """Return reason and id of rows, without broken lines."""
    rows = [row for row in lake.quarantined("readings") if row["reason"].startswith("expectation:")]
    return sorted((row["reason"], json.loads(row["value"])["id"]) for row in rows)


def test_rows_in_are_rows_out_dropped_and_quarantined_also_over_half_written_batches(lake: Lake) -> None:
    """The first batch is killed after the quarantine's commit, the second one between the tables."""
    pipeline = readings(
        lake,
        {"table": "bronze/readings", "expectations": ALL},
        {"table": "silver/readings", "writer": "spark", "expectations": {"hot": {**HOT, "expect": "id < 0"}}},
    )
    for number, crash in enumerate([("quarantined",), ("committed",)]):
        land(lake, number)
        with pytest.raises(CrashedError):
            pipeline.run_incremental(crash_after(*crash))
        pipeline.run_incremental()

    assert sorted(row["id"] for row in lake.rows("bronze/readings")) == [0, 1, 10, 11]
    assert lake.data_files("silver/readings") == []
    hot = [("expectation:bronze/readings:not_hot", 10 * n + i) for n in range(2) for i in (2, 3, 6)]
    assert quarantined(lake)[:6] == sorted(hot)
    assert quarantined(lake)[6:] == [
        ("expectation:silver/readings:hot", 10 * n + i) for n in range(2) for i in range(7)
    ]
    assert len(lake.quarantined("readings")) == 2 * (3 + 7 + 1)
    for entry in entries(lake, "bronze/readings"):
        found = counts(entry)
        # The hot one without a name is in the quarantine, and not dropped as well; null violates.
        assert found == ExpectationCounts(
            checked=7, dropped=2, quarantined=3, violations={"not_hot": 3, "named": 3, "warm": 2}
        )
        assert (found.written, entry.quarantined_rows) == (2, 3 + 7 + 1)
    assert [commit.rows for commit in lake.ledger("bronze/readings") if commit.entry] == [2, 2]
    assert [entry.quarantined_rows for entry in entries(lake, "silver/readings")] == [11, 11]


def test_a_row_keeps_what_explains_it(lake: Lake) -> None:
    land(lake, 1)
    readings(
        lake, {"table": "bronze/readings", "expectations": {"a": HOT, "b": HOT, "c": WARM}}
    ).run_incremental()
    found = [row for row in lake.quarantined("readings") if b"200" in row["value"]]
    assert {row["reason"] for row in found} == {"expectation:bronze/readings:a,b"}
    assert min(row["value"] for row in found) == b'{"id":12,"device":"a","temperature":200.0}'
    assert {(row["batch_id"], row["topic"], row["file"]) for row in found} == {(0, None, None)}
    assert all(row["run_id"].startswith("in-session-") and row["quarantined_at"] for row in found)


def test_a_violation_that_is_not_allowed_writes_nothing_and_names_the_expectation(lake: Lake) -> None:
    fail = {"expect": "temperature < 150", "on_violation": "fail"}
    sinks = [
        {"table": "bronze/readings"},
        {"table": "silver/readings", "writer": "spark", "expectations": {"sane": fail, "not_hot": HOT}},
    ]
    land(lake, 1)
    pipeline = readings(lake, *sinks)
    with pytest.raises(DataError) as failed:
        pipeline.run_incremental()
    error = failed.value
    assert (error.error_id, error.exit_code, error.runbook) == ("TIDE-EXP-001", 65, "expectation-failed")
    told = {name: error.facts[name] for name in ("pipeline", "table", "expectation", "violations", "checked")}
    assert told == {
        "pipeline": "readings",
        "table": "silver/readings",
        "expectation": "sane",
        "violations": 3,
        "checked": 7,
    }
    assert (error.facts["batch_id"], error.facts["read_to"]) == (0, '{"source": {"logOffset": 0}}')
    assert (lake.data_files("bronze/readings"), lake.quarantined("readings")) == ([], [])
    # The batch was never begun, so another declaration may write it.
    sinks[1]["expectations"] = {"sane": {**fail, "on_violation": "warn"}, "not_hot": HOT}
    readings(lake, *sinks).run_incremental()
    assert len(lake.rows("bronze/readings")) == 7
    assert len(lake.rows("silver/readings")) == 4


def test_other_expectations_do_not_finish_a_batch_whose_quarantine_is_written(lake: Lake) -> None:
    land(lake, 1)
    sink = {"table": "bronze/readings", "expectations": {"not_hot": HOT}}
    with pytest.raises(CrashedError):
        readings(lake, sink).run_incremental(crash_after("quarantined"))
    with pytest.raises(GateRefusedError) as refused:
        readings(lake, {"table": "bronze/readings"}).run_incremental()
    assert (refused.value.error_id, refused.value.facts["written"]) == ("TIDE-SINK-007", ["quarantine"])
    readings(lake, sink).run_incremental()
    assert (len(lake.rows("bronze/readings")), len(quarantined(lake))) == (4, 3)


BY_DEVICE = """
from pyspark.sql import functions as F

def transform(orders):
    return orders.groupBy("device").agg(F.count("*").alias("readings"), F.max("temperature").alias("peak"))
"""
UNSURE = """
from pyspark.sql import functions as F

def transform(rows):
    return rows.withColumn("draw", F.rand())
"""


@pytest.mark.soak
def test_from_bronze_to_gold_each_zone_keeps_out_what_it_does_not_expect(lake: Lake) -> None:
    """Records go aside from bronze, groups are dropped on their way into gold."""
    enough = {"enough": {"expect": "readings > 2", "on_violation": "drop"}}
    chain = [
        readings(lake, {"table": "bronze/readings", "expectations": {"not_hot": HOT}}),
        lake.pipeline(
            "silver",
            source={"delta": {"table": "bronze/readings"}},
            sinks=[
                {
                    "delta": {
                        "table": "silver/readings",
                        "expectations": {"warm": WARM, "known": {"expect": "id > 0"}},
                    }
                },
            ],
            run={"mode": "incremental"},
        ),
        lake.pipeline(
            "gold",
            source={"delta": {"table": "silver/readings"}},
            transform=lake.transform("summary", BY_DEVICE),
            sinks=[{"delta": {"table": "gold/devices", "mode": "replace", "expectations": enough}}],
            run={"mode": "incremental"},
        ),
    ]
    land(lake, 1)
    lake.land_rows("landing/readings/2.json", [{"id": 20, "device": "a", "temperature": 30.0}])
    for pipeline in chain:
        pipeline.run_incremental()
    # The hot ones and the null stay behind, then groups of one.
    assert sorted(row["id"] for row in lake.rows("bronze/readings")) == [10, 11, 14, 15, 20]
    assert sorted(row["id"] for row in lake.rows("silver/readings")) == [10, 11, 14, 15, 20]
    assert [(row["device"], row["readings"]) for row in lake.rows("gold/devices")] == [("a", 3)]
    assert counts(*entries(lake, "gold/devices")).dropped == 2
    assert counts(*entries(lake, "silver/readings")).violations == {"warm": 1, "known": 0}


def test_rows_that_a_sink_makes_anew_each_time_are_counted_as_they_are_written(lake: Lake) -> None:
    lake.transform("unsure", UNSURE)
    half = {"half": {"expect": "draw < 0.5", "on_violation": "quarantine"}}
    pipeline = readings(
        lake,
        {
            "table": "bronze/readings",
            "transform": "unsure:transform",
            "where": "id > 0",
            "expectations": half,
        },
    )
    lake.land_rows(
        "landing/readings/1.json", ({"id": n, "device": "a", "temperature": 1} for n in range(401))
    )
    pipeline.run_incremental()
    kept, aside = lake.rows("bronze/readings"), quarantined(lake)
    assert sorted([row["id"] for row in kept] + [number for _, number in aside]) == list(range(1, 401))
    assert all(row["draw"] < 0.5 for row in kept)
    (entry,) = entries(lake, "bronze/readings")
    assert counts(entry) == ExpectationCounts(
        checked=400, quarantined=len(aside), violations={"half": len(aside)}
    )


def test_rows_that_come_out_otherwise_after_a_kill_do_not_finish_a_batch_whose_quarantine_is_written(
    lake: Lake,
) -> None:
    """Without this, a row would be in the table and in the quarantine, and another one in neither."""
    lake.transform("unsure", UNSURE)
    half = {"half": {"expect": "draw < 0.5", "on_violation": "quarantine"}}
    sink = {"table": "bronze/readings", "transform": "unsure:transform", "expectations": half}
    pipeline = readings(lake, sink)
    lake.land_rows("landing/readings/1.json", ({"id": n, "device": "a", "temperature": 1} for n in range(40)))
    with pytest.raises(CrashedError):
        pipeline.run_incremental(crash_after("quarantined"))
    aside = quarantined(lake)
    with pytest.raises(GateRefusedError) as refused:
        pipeline.run_incremental()
    facts = refused.value.facts
    assert (refused.value.error_id, facts["rows_differ_of"]) == ("TIDE-SINK-007", ["bronze/readings"])
    assert (facts["written"], facts["left"]) == (["quarantine"], ["bronze/readings"])
    assert (lake.data_files("bronze/readings"), quarantined(lake)) == ([], aside)


@pytest.mark.parametrize(
    ("condition", "reason"),
    [
        ("id < 3 AND (device IS NULL OR device LIKE 'a%')", ""),
        ("exists(array(id), i -> i > 0)", ""),
        ("at < timestamp'2030-01-01'", ""),
        ("some(id > 0)", "not of one row: Aggregate"),
        ("row_number() OVER (ORDER BY id) < 3", "not of one row: Window"),
        ("explode(array(true))", "not of one row: Generate"),
        ("id > (SELECT 1)", "subquery"),
        ("id IN (SELECT 1)", "subquery"),
        ("at < now()", "the current time, Now"),
        ("at < current_date", "the current time, CurrentDate"),
        ("unix_timestamp() > 0", "the current time, CurrentTimestamp"),
        ("rand() < 0.5", "not deterministic"),
        ("uuid() > device", "not deterministic"),
        ("id + 1", "it is bigint, not a condition"),
        ("missing > 1", "UNRESOLVED_COLUMN"),
        ("id >", "PARSE_SYNTAX_ERROR"),
    ],
)
def test_a_condition_is_of_one_row_and_always_the_same(
    spark: SparkSession, condition: str, reason: str
) -> None:
    found = why_not_of_one_row(spark.createDataFrame([], "id long, device string, at timestamp"), condition)
    assert reason in found
    assert bool(reason) == bool(found)


def test_what_cannot_be_checked_is_refused_before_a_query_starts_and_in_a_plan(lake: Lake) -> None:
    land(lake, 1)
    pipeline = readings(lake, {"table": "bronze/readings", "expectations": {"x": {"expect": "temp > 1"}}})
    with pytest.raises(SpecError) as refused:
        pipeline.run_incremental()
    (found,) = analyse(lake.spark, pipeline.resolved)
    assert refused.value.error_id == found["id"] == "TIDE-EXP-002"
    for facts in (refused.value.facts, found["facts"]):
        assert facts["key"] == "sinks[0].delta.expectations.x"
        assert "temp" in str(facts["reason"])
    assert lake.data_files("bronze/readings") == []
