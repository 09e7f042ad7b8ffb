"""Changed transforms against the state of the old one, by Spark's own plans; the core of it by real runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.support.lake import Lake, LakePipeline
from tests.support.rewinds import acknowledge
from tests.support.transform_corpus import pipeline_with
from tests.support.upgrade_corpus import (
    CHANGES,
    COUNTS,
    KEPT,
    KEPT_ELSEWHERE,
    KEPT_MORE,
    KEPT_RENAMED,
    KEPT_WIDER,
    ONCE,
    PAIRS,
    Change,
)
from tidemill.checkpoint.upgrade.compare import UpgradeFacts, compare
from tidemill.checkpoint.upgrade.verdict import Verdict, verdict_of
from tidemill.checkpoint.upgrade.version import PlannedVersion
from tidemill.control.upgrade_check import judge, standing_of
from tidemill.engine import checked_flow
from tidemill.engine.planned_version import planned_version
from tidemill.errors import GateRefusedError
from tidemill.ledger.code import code_of

TIMES = {"column": "at", "watermark": "10 minutes"}
JOINED = """
from pyspark.sql import functions as F

def transform(left, right):
    later = right.select(F.col("id").alias("other"), F.col("at").alias("later"))
    near = "id = other AND later BETWEEN at AND at + INTERVAL 1 HOUR"
    return left.join(later, F.expr(near)).select("id", "device")
"""

# Old versions, by body: several changes begin with the same one, and a plan takes half a second.
PLANNED: dict[tuple[str, int], PlannedVersion] = {}

# Cases for which CI has time; the others run with `-m soak`.
SEEN_EACH_TIME = (
    "a filter before the windows",
    "an aggregate renamed",
    "values computed in another way",
    "a grouping column more",
    "longer windows",
    "another aggregate of the same type",
    "duplicates by another column of the same type",
    "no state any more",
    "more partitions",
    "a state of its own with other columns",
)
CASES = [
    pytest.param(change, id=name, marks=() if name in SEEN_EACH_TIME else (pytest.mark.soak,))
    for name, change in CHANGES.items()
]


def planned(lake: Lake, body: str, partitions: int = 2) -> PlannedVersion:
    key = (body, partitions)
    if key not in PLANNED:
        pipeline = pipeline_with(lake, body).resolved
        session = lake.spark.newSession()
        session.conf.set("spark.sql.shuffle.partitions", str(partitions))
        PLANNED[key] = planned_version(session, pipeline)
    return PLANNED[key]


@pytest.mark.parametrize("change", CASES)
def test_a_change_is_judged_before_the_old_version_stops(lake: Lake, change: Change) -> None:
    before, after = planned(lake, change.before), planned(lake, change.after, change.partitions)
    verdict = verdict_of(compare(UpgradeFacts("readings", before.operators, after, before.meanings)))
    assert (verdict.answer, tuple(f.finding_id for f in verdict.findings)) == (change.answer, change.found)


def test_a_version_of_several_streams_is_planned_with_the_state_of_their_join(lake: Lake) -> None:
    """And what is planned for it is what a query of it leaves."""
    source = {"format": "json", "schema": "id long, device string, at timestamp"}
    for name in ("left", "right"):
        lake.land_rows(f"landing/{name}/1.json", [{"id": 1, "device": "a", "at": "2024-01-01T00:00:00Z"}])
    pipeline = lake.pipeline(
        "joined",
        sources={
            name: {"files": {"path": f"landing/{name}", **source}, "event_time": TIMES}
            for name in ("left", "right")
        },
        transform=lake.transform("joined", JOINED),
        sinks=[{"delta": {"table": "gold/joined"}}],
        run={"mode": "incremental"},
    )
    version = planned_version(lake.spark, pipeline.resolved)
    assert [(state.name, len(state.tables)) for state in version.operators] == [("symmetricHashJoin", 4)]
    assert [meaning.kind for meaning in version.meanings] == ["Join"]
    pipeline.run_incremental()
    verdict = judge(lake.store, pipeline.resolved, standing_of(lake.store, pipeline.resolved), version)
    assert verdict.answer == "compatible"
    assert [finding for finding in verdict.findings if finding.finding_id.startswith("TIDE-CTRL")] == []


def reading(number: int, minute: int) -> Mapping[str, Any]:
    at = f"2024-01-01T{minute // 60:02}:{minute % 60:02}:00Z"
    return {"id": number, "device": "a", "value": 1.0, "at": at}


def changed(lake: Lake, before: str, after: str) -> tuple[LakePipeline, Verdict]:
    """Run a pipeline with the old code, deploy the new code, and return pipeline and verdict of the gate."""
    lake.land_rows("landing/1.json", [reading(number, number) for number in range(1, 8)])
    pipeline_with(lake, before).run_incremental()
    pipeline = pipeline_with(lake, after)
    store, resolved = lake.store, pipeline.resolved
    standing = standing_of(store, resolved)
    # Accept the change as a release that did not compare the state would. Then only the driver can refuse it.
    acknowledge(pipeline)
    verdict = judge(store, resolved, standing, planned_version(lake.spark, resolved))
    store.delete(resolved.layout.meanings(pipeline.name, code_of(resolved).digest))
    lake.land_rows("landing/2.json", [reading(number, number) for number in (7, 8, 60, 61)])
    return pipeline, verdict


def check_refused(pipeline: LakePipeline, verdict: Verdict) -> None:
    """See that the driver refuses the change as the upgrade check does, although it was accepted."""
    assert verdict.answer == "needs new generation"
    rows = pipeline.lake.rows("gold/readings")
    with pytest.raises(GateRefusedError) as refused:
        pipeline.run_incremental()
    assert refused.value.error_id in {f.finding_id for f in verdict.findings if f.severity == "error"}
    assert pipeline.lake.rows("gold/readings") == rows


ONE_RESULT = COUNTS + ".select('device', 'n')"
SPARK_REFUSES = {
    "an aggregate more": (
        ONE_RESULT,
        COUNTS.replace(".agg(", ".agg(F.max('id').alias('m'), ")
        + ".select('device', (F.col('n') + F.col('m')).alias('n'))",
    ),
    "a grouping column more": (ONE_RESULT, ONE_RESULT.replace("'device').", "'device', 'id').")),
    "other operators": (
        ONE_RESULT,
        ONE_RESULT.replace("rows.", "rows.dropDuplicatesWithinWatermark(['id']).", 1),
    ),
    "sliding windows": (ONE_RESULT, ONE_RESULT.replace("MINUTES", "F.window('at', '5 minutes', '1 minute')")),
    # A count is never null, and a minimum may be.
    "another function": (ONE_RESULT, ONE_RESULT.replace("F.count('*')", "F.min('id')")),
    "a state of its own with other columns": (KEPT, KEPT_WIDER),
    "a join that keeps more": (
        PAIRS + ".select('id', 'device')",
        PAIRS.replace("'device'", "'device', 'value'")
        + ".select('id', F.concat('device', F.col('value').cast('string')).alias('device'))",
    ),
}
SPARK_GOES_WRONG = {
    "longer windows": (ONE_RESULT, ONE_RESULT.replace("MINUTES", "F.window('at', '10 minutes')")),
    "another function of the same type": (
        ONE_RESULT.replace("F.count('*')", "F.max('id')"),
        ONE_RESULT.replace("F.count('*')", "F.min('id')"),
    ),
    "another grouping column": (
        ONE_RESULT,
        ONE_RESULT.replace("'device').agg", "F.upper('device').alias('device')).agg"),
    ),
    "a state of its own under another name": (KEPT, KEPT_RENAMED),
    "a state of its own by another key": (KEPT_ELSEWHERE, KEPT),
    "another key": (
        ONCE + ".select('id')",
        ONCE.replace("rows.", "rows.withColumn('id', F.col('id') % 7).", 1) + ".select('id')",
    ),
}
# The window of the minutes 5 to 9 got readings of both versions.
IN_WINDOWS = (4, 5)
GOES_WELL = {
    "a filter": (ONE_RESULT, ONE_RESULT.replace("rows.", "rows.where('value > 0').", 1), IN_WINDOWS),
    "an aggregate renamed": (ONE_RESULT, ONE_RESULT.replace("'v'", "'w'"), IN_WINDOWS),
    "an aggregate that nobody needs": (
        ONE_RESULT,
        ONE_RESULT.replace(".agg(", ".agg(F.max('id').alias('m'), "),
        IN_WINDOWS,
    ),
    "a column that nobody needs": (
        ONE_RESULT,
        ONE_RESULT.replace("rows.", "rows.drop('id').", 1),
        IN_WINDOWS,
    ),
    "a state of its own more": (KEPT, KEPT_MORE, (7, 11)),
    "a state of its own less": (KEPT_MORE, KEPT, (7, 11)),
}


def _cases(changes: Mapping[str, tuple[Any, ...]]) -> list[Any]:
    """Return the cases, of which only the first one runs in CI."""
    first = next(iter(changes))
    return [
        pytest.param(*change, id=name, marks=() if name == first else (pytest.mark.soak,))
        for name, change in changes.items()
    ]


@pytest.mark.parametrize(("before", "after"), _cases(SPARK_REFUSES))
def test_what_spark_refuses_at_the_first_batch_is_refused_before(
    lake: Lake, before: str, after: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline, verdict = changed(lake, before, after)
    check_refused(pipeline, verdict)
    monkeypatch.setattr(checked_flow, "check_state", lambda *_: None)
    with pytest.raises(Exception, match=r"STATE_STORE|STATEFUL_OPERATOR|STDS|state"):
        pipeline.run_incremental()


@pytest.mark.parametrize(("before", "after"), _cases(SPARK_GOES_WRONG))
def test_what_spark_takes_without_a_word_and_gets_wrong_is_refused(
    lake: Lake, before: str, after: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline, verdict = changed(lake, before, after)
    check_refused(pipeline, verdict)
    monkeypatch.setattr(checked_flow, "check_state", lambda *_: None)
    pipeline.run_incremental()
    mixed = sorted(map(str, lake.rows("gold/readings")))
    control = Lake(lake.folder / "control", lake.spark)
    for file in (lake.root / "landing").glob("*.json"):
        control.land(f"landing/{file.name}", file.read_text())
    pipeline_with(control, after).run_incremental()
    assert mixed != sorted(map(str, control.rows("gold/readings")))


@pytest.mark.parametrize(("before", "after", "counts"), _cases(GOES_WELL))
def test_what_is_compatible_goes_on_and_counts_on(
    lake: Lake, before: str, after: str, counts: tuple[int, ...]
) -> None:
    pipeline, verdict = changed(lake, before, after)
    assert (verdict.answer, verdict.must_be_accepted) == ("compatible", True)
    pipeline.run_incremental()
    assert sorted(row["n"] for row in lake.rows("gold/readings")) == list(counts)
