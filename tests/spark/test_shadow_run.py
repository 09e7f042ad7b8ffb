"""A shadow run: the declared version recomputes the newest batches, and tables are only read."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.errors import SparkRuntimeException
from pyspark.sql import SparkSession

from tests.support.lake import Lake, LakePipeline
from tests.support.rewinds import TRANSFORMS, declare, event, land_events, newest_batch, rows_of
from tidemill.checkpoint.upgrade.shadow import ShadowResult, Stretch, shadow_of
from tidemill.control.plane import ControlPlane, open_control_plane
from tidemill.control.shadow_run import stretch_of
from tidemill.engine.classify import classify
from tidemill.engine.shadow import shadow
from tidemill.errors import GateRefusedError, UsageError

NESTED = """
from pyspark.sql import functions as F

def transform(events):
    return events.select("id", F.struct("kind").alias("of"))
"""
WITH_COLUMNS = """
def transform(events):
    return events.select("id", F.struct("kind", "at").alias("of"), F.lit(1).alias("new"))
"""
WITH_PLACES = """
from pyspark.sql import functions as F

def transform(events, places, notes):
    known = events.join(places, "kind", "left").join(notes, "kind", "left")
    return known.withColumn("seen", F.current_timestamp())
"""

# A partition's folder has characters that mean something in patterns, paths and URIs.
BY_DAY = """
from pyspark.sql import functions as F

def transform(events):
    day = F.concat(F.lit("a b/{[*%"), F.minute("at").cast("string"))
    return events.select("id", "at", "kind").withColumn("day", day)
"""
ONE_MORE = """
right = transform

def transform(events):
    rows = right(events)
    return rows.withColumn("id", rows.id + 100)
"""
FAILING = """
from pyspark.sql import functions as F

def transform(events):
    return events.select("id", "at", F.raise_error(F.lit("not as it should be")).cast("string").alias("kind"))
"""


def plane_of(pipeline: LakePipeline) -> ControlPlane:
    return open_control_plane(pipeline.resolved.environment)


def shadowed(pipeline: LakePipeline, batches: int = 5) -> ShadowResult:
    """Run the shadow as the command does, but in the test's session."""
    stretch = stretch_of(plane_of(pipeline), pipeline.resolved, batches)
    return shadow(pipeline.lake.spark, pipeline.resolved, stretch)


def files_below(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def with_batches(lake: Lake, kind: str, **sink: Any) -> LakePipeline:
    """Return a pipeline with five batches of a file each, and perhaps one without rows."""
    land_events(lake, 0, 5)
    pipeline = declare(lake, kind, kind, **sink)
    pipeline.run_incremental()
    return pipeline


@pytest.fixture(scope="module")
def landed(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> LakePipeline:
    """Return a pipeline for tests that do not change it."""
    return with_batches(Lake(tmp_path_factory.mktemp("stateless") / "lake", spark), "stateless")


@pytest.fixture
def stateless(landed: LakePipeline) -> Iterator[LakePipeline]:
    """Five batches, of which four have one before them."""
    declared = landed.lake.folder / "conf/pipelines/stateless.yaml"
    text, before = declared.read_text(), files_below(landed.lake.root)
    yield landed
    declared.write_text(text)
    landed.lake.transform("stateless", TRANSFORMS["stateless"])
    assert_untouched(landed.lake, before)


def assert_untouched(lake: Lake, before: dict[str, bytes]) -> None:
    assert files_below(lake.root) == before


@pytest.mark.parametrize("kind", ["windows", pytest.param("joined", marks=pytest.mark.soak)])
def test_the_version_in_use_makes_the_same_rows_and_nothing_of_the_pipeline_changes(
    lake: Lake, kind: str
) -> None:
    pipeline = with_batches(lake, kind)
    before, last = files_below(lake.root), newest_batch(pipeline)
    found = shadowed(pipeline, 3)
    assert (found.first, found.last) == (last - 2, last)
    [table] = found.differences
    assert found.is_same
    assert 0 < table.rows <= len(rows_of(pipeline))
    assert_untouched(lake, before)
    assert not any((lake.root / "shadows").rglob("*"))
    # The pipeline continues as if there had been no shadow run.
    land_events(lake, 5, 7)
    pipeline.run_incremental()
    control = declare(lake, "control", kind)
    control.run_incremental()
    assert rows_of(pipeline) == rows_of(control)


def test_another_version_differs_in_what_it_makes_of_the_same_records(stateless: LakePipeline) -> None:
    # The new version is neither accepted nor started, because a shadow run changes nothing.
    stateless.lake.transform("stateless", TRANSFORMS["stateless"] + ONE_MORE)
    found = shadowed(stateless, 2)
    [table] = found.differences
    assert (table.rows, table.missing, table.surplus) == (8, 8, 8)
    assert json.loads(table.missing_rows[0])["id"] == json.loads(table.surplus_rows[0])["id"] + 100
    assert list(found.lines())[:2] == [
        "stateless: batches 3-4 of g0001, made again by the declared version",
        "  differs   silver/stateless: 8 rows made, 8 of them not in the table, 8 in the table alone",
    ]


@pytest.mark.soak
def test_new_columns_are_told_also_in_structs_and_the_others_compared(lake: Lake) -> None:
    land_events(lake, 0, 3)
    declare(lake, "nested", "stateless", schema_evolution="add_columns")
    lake.transform("nested", NESTED)
    pipeline = LakePipeline(lake, "nested")
    pipeline.run_incremental()
    lake.transform("nested", NESTED + WITH_COLUMNS)
    found = shadowed(pipeline, 2)
    of = "silver/nested"
    assert found.added == {of: ("of struct<kind:string,at:timestamp>", "new")}
    assert found.dropped == {of: ("of struct<kind:string>",)}
    assert [(table.rows, table.missing, table.surplus) for table in found.differences] == [(8, 0, 0)]
    assert not found.is_same


@pytest.mark.soak
def test_a_table_that_one_of_the_versions_alone_writes_is_a_difference(lake: Lake) -> None:
    land_events(lake, 0, 3)
    declare(lake, "orders", "stateless")
    file = lake.folder / "conf/pipelines/orders.yaml"
    one = file.read_text()
    both = yaml.safe_load(one)
    both["sinks"].append({"delta": {"table": "silver/copy"}})
    file.write_text(yaml.safe_dump(both))
    pipeline = LakePipeline(lake, "orders")
    pipeline.run_incremental()
    file.write_text(one)
    found = shadowed(pipeline, 1)
    assert (found.added, found.dropped, found.is_same) == ({}, {"silver/copy": ("the whole table",)}, False)
    both["sinks"].append({"delta": {"table": "silver/third"}})
    file.write_text(yaml.safe_dump(both))
    found = shadowed(pipeline, 1)
    assert (found.added, found.dropped, found.is_same) == ({"silver/third": ("the whole table",)}, {}, False)


@pytest.mark.soak
def test_a_batch_has_its_clock_and_is_joined_with_the_rows_that_it_was_joined_with(lake: Lake) -> None:
    """The table has others by now, and it is later; the batch's clock is that of then."""
    places = {"path": "landing/places", "format": "json", "schema": "kind string, place string"}
    dimension = lake.pipeline(
        "places",
        source={"files": places},
        sinks=[{"delta": {"table": "silver/places", "mode": "merge", "key": ["kind"]}}],
        run={"mode": "incremental"},
    )
    lake.land_rows("landing/places/1.json", [{"kind": "a", "place": "Kiel"}, {"kind": "b", "place": "Rom"}])
    dimension.run_incremental()
    notes = {"path": "landing/notes", "format": "json"}
    lake.land_rows("landing/notes/1.json", [{"kind": "a", "note": "first"}])
    land_events(lake, 0, 3)
    events = {
        "files": {
            "path": "landing/events",
            "format": "json",
            "schema": "id long, at timestamp, kind string",
            "max_files_per_batch": 1,
        }
    }
    pipeline = lake.pipeline(
        "joined",
        sources={
            "events": events,
            "places": {"delta": {"table": "silver/places"}, "as": "table"},
            "notes": {"files": {**notes, "schema": "kind string, note string"}, "as": "table"},
        },
        transform=lake.transform("joined", WITH_PLACES),
        sinks=[{"delta": {"table": "silver/joined"}}],
        run={"mode": "incremental"},
    )
    pipeline.run_incremental()
    lake.land_rows("landing/places/2.json", [{"kind": "a", "place": "Wien"}])
    dimension.run_incremental()
    lake.land_rows("landing/notes/2.json", [{"kind": "b", "note": "late"}])
    found = shadowed(pipeline, 2)
    assert [(table.name, table.rows) for table in found.differences] == [("silver/joined", 8)]
    assert found.is_same, list(found.lines())
    lake.land_rows("landing/notes/1.json", [{"kind": "a", "note": "new"}])
    with pytest.raises(GateRefusedError) as refused:
        shadowed(pipeline, 2)
    assert refused.value.error_id == "TIDE-CTRL-095"


def test_a_link_in_its_place_is_refused_and_nothing_behind_it_deleted(stateless: LakePipeline) -> None:
    root = stateless.lake.root
    before = files_below(root)
    for link in ("shadows", "shadows/stateless", "shadows/stateless/tables"):
        place = root / link
        shutil.rmtree(root / "shadows", ignore_errors=True)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(root / "tables")
        with pytest.raises(GateRefusedError) as refused:
            stretch_of(plane_of(stateless), stateless.resolved, 2)
        assert refused.value.error_id == "TIDE-CTRL-094"
        # And where Spark is, should it come there by then.
        with pytest.raises(GateRefusedError) as refused:
            shadow(stateless.lake.spark, stateless.resolved, Stretch("g0001", 2, 4))
        assert refused.value.error_id == "TIDE-CTRL-094"
        place.unlink()
        assert files_below(root) == before


def test_files_that_lie_where_it_would_are_not_touched(stateless: LakePipeline) -> None:
    document = yaml.safe_load((stateless.lake.folder / "conf/pipelines/stateless.yaml").read_text())
    document["source"]["files"]["path"] = "shadows/stateless"
    pipeline = stateless.lake.pipeline("stateless", **document)
    with pytest.raises(UsageError) as refused:
        stretch_of(plane_of(pipeline), pipeline.resolved, 2)
    assert refused.value.error_id == "TIDE-CTRL-096"


@pytest.mark.soak
@pytest.mark.parametrize(("more", "missing", "surplus"), [("", 0, 0), (ONE_MORE, 9, 6)])
def test_rows_that_replace_others_are_compared_with_the_tables_own(
    lake: Lake, more: str, missing: int, surplus: int
) -> None:
    for number in range(6):
        rows = [event(number % 3, "a", number), event(10 + number, "b", number)]
        lake.land_rows(f"landing/events/{number}.json", rows)
    declare(lake, "by_day", "stateless", mode="merge", key=["id"], partition_by=["day"])
    lake.transform("by_day", BY_DAY)
    pipeline = LakePipeline(lake, "by_day")
    pipeline.run_incremental()
    lake.transform("by_day", BY_DAY + more)
    before = files_below(lake.root)
    [table] = shadowed(pipeline, 3).differences
    # The other version leaves three old rows unchanged, and adds six rows.
    assert (table.missing, table.surplus) == (missing, surplus)
    assert_untouched(lake, before)


@pytest.mark.soak
def test_rejected_records_are_compared_by_place_reason_and_content(lake: Lake) -> None:
    source = {"path": "landing/orders", "format": "json", "schema": "id long, at string"}
    for number in range(4):
        lines = [json.dumps({"id": number, "at": "now"}), "{broken"]
        lake.land(f"landing/orders/{number}.json", "\n".join(lines) + "\n")
    pipeline = lake.pipeline(
        "orders",
        source={"files": {**source, "max_files_per_batch": 1}},
        sinks=[{"delta": {"table": "bronze/orders"}}],
        run={"mode": "incremental"},
    )
    pipeline.run_incremental()
    found = shadowed(pipeline, 2)
    assert [(d.name, d.rows, d.is_none) for d in found.differences] == [
        ("bronze/orders", 2, True),
        ("quarantine", 2, True),
    ]


def test_a_version_that_fails_says_why_and_leaves_nothing(stateless: LakePipeline) -> None:
    stateless.lake.transform("stateless", FAILING)
    with pytest.raises(SparkRuntimeException) as failed:
        shadowed(stateless, 1)
    error = classify(failed.value)
    assert error.error_id == "TIDE-DATA-003"
    assert error.facts["reason"] == "[USER_RAISED_EXCEPTION]"


def test_what_a_killed_one_has_left_is_gone_after_the_next(stateless: LakePipeline) -> None:
    layout = shadow_of(stateless.resolved, ["silver/stateless"]).layout
    place = stateless.lake.store
    place.write_json(layout.current("stateless") + "/00000001.json", {"v": 1, "pipeline": "stateless"})
    place.write_json(layout.table("silver/stateless") + "/_delta_log/00000000000000000000.json", {})
    assert shadowed(stateless, 1).is_same


def test_batches_that_are_purged_or_another_generations_by_then_are_refused(stateless: LakePipeline) -> None:
    for stretch in (Stretch("g0001", 3, 9), Stretch("g0002", 2, 4)):
        with pytest.raises(GateRefusedError) as refused:
            shadow(stateless.lake.spark, stateless.resolved, stretch)
        assert refused.value.error_id == "TIDE-CTRL-095"


@pytest.mark.soak
def test_batches_before_a_commit_of_someone_else_are_not_compared(lake: Lake) -> None:
    pipeline = with_batches(lake, "stateless")
    lake.spark.sql(f"DELETE FROM delta.`{lake.root}/tables/silver/stateless` WHERE id = 0")
    # The batches before it are as they were.
    assert shadowed(pipeline, 1).is_same
    land_events(lake, 5, 6)
    pipeline.run_incremental()
    with pytest.raises(GateRefusedError) as refused:
        shadowed(pipeline)
    assert refused.value.error_id == "TIDE-CTRL-095"
    land_events(lake, 6, 7)
    pipeline.run_incremental()
    found = shadowed(pipeline)
    assert (found.first, found.last, found.is_same) == (6, 6, True)
