"""Several streams in one pipeline: by their names in checkpoint, ledger, quarantine and gate."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.command_line import CommandLine
from tests.support.followed_fixes import typed
from tests.support.lake import Lake, LakePipeline
from tests.support.rewinds import acknowledge
from tests.support.transform_corpus import findings_of
from tests.support.writer_cases import CrashedError, crash_at
from tidemill.checkpoint.inspect import inspect_checkpoint
from tidemill.checkpoint.reading.reader import CheckpointReader
from tidemill.checkpoint.verbs.repair import gather_repair, plan_repair
from tidemill.errors import GateRefusedError, UsageError

UNION = """
def transform({names}):
    named = [{named}]
    first, *others = named
    for other in others:
        first = first.unionByName(other)
    return first
"""
TABLES = ("bronze/seen", "silver/seen")


def files(name: str) -> dict[str, Any]:
    return {
        "files": {"path": f"landing/{name}", "format": "json", "schema": "id long", "max_files_per_batch": 1}
    }


def declare(lake: Lake, *names: str) -> LakePipeline:
    """Return all rows of all streams, with the stream's name."""
    named = ", ".join(f"{name}.selectExpr('id', \"'{name}' AS stream\")" for name in names)
    transform = lake.transform("seen", UNION.format(names=", ".join(names), named=named))
    return lake.pipeline(
        "seen",
        sources={name: files(name) for name in names},
        transform=transform,
        sinks=[{"delta": {"table": table}} for table in TABLES],
        run={"mode": "incremental", "shuffle_partitions": 2},
    )


def land(lake: Lake, stream: str, *ids: int, broken: str = "") -> None:
    rows = "".join(json.dumps({"id": number}) + "\n" for number in ids)
    lake.land(f"landing/{stream}/{ids[0]}.json", rows + broken)


def seen(lake: Lake, table: str = TABLES[0]) -> list[tuple[str, int]]:
    return sorted((row["stream"], row["id"]) for row in lake.rows(table))


def refused(pipeline: LakePipeline) -> GateRefusedError:
    with pytest.raises(GateRefusedError) as error:
        pipeline.run_incremental()
    return error.value


def goes_back_instead_of_a_backfill(pipeline: LakePipeline, batch_id: int) -> None:
    """Rewind, as the refusal of a backfill range for several streams advises."""
    with pytest.raises(UsageError) as no_range:
        pipeline.plan("2026-01-01", "2026-01-02")
    assert no_range.value.error_id == "TIDE-BACK-002"
    tidemill = CommandLine(pipeline.lake.folder, lambda: SimpleNamespace(out="", err=""))
    assert tidemill(*typed(no_range.value.fix, "checkpoint rewind", {"BATCH": str(batch_id)})) == 0


def test_each_row_of_each_stream_once_whatever_their_order_and_through_crashes(lake: Lake) -> None:
    land(lake, "north", 1, 2, broken="{broken\n")
    land(lake, "south", 1, 3, broken="{broken, too\n")
    with pytest.raises(CrashedError):
        declare(lake, "north", "south").run_incremental(crash_at("committed"))
    expected = [("north", 1), ("north", 2), ("south", 1), ("south", 3)]
    assert (seen(lake), lake.ledger(TABLES[1])) == (expected, [])
    pipeline = declare(lake, "north", "south")
    pipeline.run_incremental()
    land(lake, "south", 4)
    # The same two streams with exchanged roles; only one of them has new rows.
    pipeline = declare(lake, "south", "north")
    with pytest.raises(CrashedError):
        pipeline.run_incremental(crash_at("committed"))
    pipeline.run_incremental()
    for table in TABLES:
        assert seen(lake, table) == [*expected, ("south", 4)]
    # Spark keeps by itself what state is made with only for one stream.
    planned = CheckpointReader(lake.store, str(pipeline.checkpoint)).offsets(1)
    assert planned is not None
    assert (planned.is_named, planned.conf["spark.sql.shuffle.partitions"]) == (True, "2")
    newest, first = (commit.entry for commit in lake.ledger(TABLES[0]))
    assert newest is not None
    assert first is not None
    assert {name: read.end for name, read in first.sources.items()} == {
        "north": {"logOffset": 0},
        "south": {"logOffset": 0},
    }
    assert (newest.sources["north"].end, newest.sources["south"].end) == ({"logOffset": 0}, {"logOffset": 1})
    rejected = [(row["value"], row["line"], row["batch_id"]) for row in lake.quarantined("seen")]
    assert sorted(rejected) == [(b"{broken", 3, 0), (b"{broken, too", 3, 0)]
    inspected = inspect_checkpoint(lake.store, pipeline.resolved, "g0001", None, None)
    assert {source.name: source.end for source in inspected.sources} == newest.ends
    assert not inspected.damages
    offsets = pipeline.checkpoint / "offsets/1"
    whole = offsets.read_bytes()
    offsets.with_name(".1.crc").unlink()
    offsets.write_bytes(whole.rpartition(b"\n")[0])
    cut = refused(pipeline)
    assert "lacks a stream" in str(cut.facts)
    [repair] = plan_repair(gather_repair(lake.store, pipeline.resolved))["files"]
    assert repair["content"].encode() == whole
    offsets.write_bytes(whole)
    goes_back_instead_of_a_backfill(pipeline, 0)
    assert seen(lake) == seen(lake, TABLES[1]) == expected
    pipeline.run_incremental()
    assert seen(lake) == seen(lake, TABLES[1]) == [*expected, ("south", 4)]


@pytest.mark.soak
def test_a_stream_is_added_if_that_is_meant_and_none_is_taken_away(lake: Lake) -> None:
    for name in ("north", "south", "west"):
        land(lake, name, 1)
    declare(lake, "north", "south").run_incremental()
    added = declare(lake, "north", "south", "west")
    asks = refused(added)
    assert (asks.error_id, asks.facts["changed"]) == (
        "TIDE-CKPT-093",
        {"streams": "north, south -> north, south, west"},
    )
    acknowledge(added)
    land(lake, "north", 2)
    added.run_incremental()
    assert seen(lake) == [("north", 1), ("north", 2), ("south", 1), ("west", 1)]
    with pytest.raises(UsageError) as range_of_one:
        added.plan("2026-01-01", "2026-01-02")
    assert range_of_one.value.error_id == "TIDE-BACK-002"
    gone = refused(declare(lake, "north", "west"))
    assert (gone.error_id, gone.facts["gone"], gone.facts["added"]) == ("TIDE-CKPT-096", ["south"], [])
    other = refused(declare(lake, "north", "east", "west"))
    assert (other.facts["gone"], other.facts["added"]) == (["south"], ["east"])
    assert refused(declare(lake, "north")).error_id == "TIDE-CKPT-096"


@pytest.mark.soak
def test_what_became_of_one_stream_is_said_with_its_name(lake: Lake) -> None:
    land(lake, "north", 1)
    land(lake, "south", 1)
    pipeline = declare(lake, "north", "south")
    with pytest.raises(CrashedError):
        pipeline.run_incremental(crash_at("committed"))
    gone = lake.root / "landing/south/1.json"
    content = gone.read_text()
    gone.unlink()
    error = refused(pipeline)
    assert (error.error_id, error.facts["stream"]) == ("TIDE-CKPT-024", "south")
    gone.write_text(content)
    pipeline.run_incremental()
    assert seen(lake, TABLES[1]) == [("north", 1), ("south", 1)]


@pytest.mark.parametrize(
    ("body", "error_id", "detail"),
    [
        ("return north.unionByName(north.where('id > 1')).unionByName(south)", "TIDE-PLAN-005", "north"),
        ("return north", "TIDE-PLAN-006", "south"),
        ("return north.join(south, 'id')", "TIDE-PLAN-016", "both"),
    ],
)
def test_each_of_several_streams_is_used_once(lake: Lake, body: str, error_id: str, detail: str) -> None:
    for name in ("north", "south"):
        (lake.root / f"landing/{name}").mkdir(parents=True)
    pipeline = declare(lake, "north", "south")
    lake.transform("seen", f"def transform(north, south):\n    {body}\n")
    [finding] = findings_of(pipeline)
    assert finding.error.error_id == error_id
    assert detail in str(finding.error.facts["reason"]) or detail == "both"
