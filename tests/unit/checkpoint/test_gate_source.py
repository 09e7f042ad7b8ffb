"""G6: the source still has what comes next: offsets, topic ids, partitions; table id and log; files."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.support.checkpoints import write_checkpoint, write_planned
from tests.support.declared import declared
from tests.support.gate_facts import TABLES, errors_of, facts_of, refusal_of, table_of
from tidemill.checkpoint.gate import CheckpointFacts, TopicFacts, check, gather_facts
from tidemill.checkpoint.gate.facts import SourceFacts
from tidemill.names import CHANGE_FEED
from tidemill.spec.project import Pipeline
from tidemill.storage.store import Store


def asked(facts: CheckpointFacts, oldest: int, end: int, **ids: str) -> CheckpointFacts:
    """Return the same with what the broker says of partition 0 of `orders`."""
    topics = TopicFacts({"orders": {"0": oldest}}, {"orders": {"0": end}}, ids)
    return replace(facts, source=replace(facts.source, topics=topics))


@pytest.mark.parametrize(
    ("planned", "committed", "oldest", "end"),
    [
        # Batch 7 ends at 80: read to the end, some behind, all that was read expired.
        (7, 7, 0, 80),
        (7, 7, 0, 500),
        (7, 7, 80, 80),
        # Batch 7 must be repeated: it reads from 70 on.
        (7, 6, 70, 80),
        # Batch 0 must be repeated: it reads from the beginning, which was 0.
        (0, None, 0, 10),
        (None, None, 300, 400),
    ],
)
def test_offsets_inside_the_topic_may_start(
    planned: int | None, committed: int | None, oldest: int, end: int
) -> None:
    facts = facts_of(planned, committed)
    if planned is None:
        facts = replace(facts, source=SourceFacts())
    check(asked(facts, oldest, end))


@pytest.mark.parametrize(
    ("planned", "committed", "oldest", "lost"),
    [(7, 7, 81, "80..80"), (7, 7, 100, "80..99"), (7, 6, 71, "70..70"), (0, None, 1, "0..0")],
)
def test_records_that_expired_before_they_were_read_are_refused(
    planned: int, committed: int | None, oldest: int, lost: str
) -> None:
    error = refusal_of(asked(facts_of(planned, committed), oldest, 500))
    assert (error.error_id, error.runbook) == ("TIDE-CKPT-020", "retention-expired")
    assert error.facts["lost"] == {"orders-0": lost}


def test_a_topic_that_ends_before_the_checkpoint_is_refused() -> None:
    """Recreated with fewer records, or truncated."""
    error = refusal_of(asked(facts_of(7, 7), 0, 79))
    assert (error.error_id, error.runbook) == ("TIDE-CKPT-021", "topic-recreated")
    assert error.facts["offsets_beyond_end"] == {"orders-0": "80 > 79"}


def test_a_topic_made_again_with_more_records_is_refused_by_its_id() -> None:
    """Spark would notice nothing."""
    facts = facts_of(7, 7, tables={TABLES[0]: table_of(7, topic_ids={"orders": "old"})})
    error = refusal_of(asked(facts, 0, 500, orders="new"))
    assert (error.error_id, error.facts["topic_ids"]) == ("TIDE-CKPT-021", {"orders": "old -> new"})


@pytest.mark.parametrize(
    ("known", "now"),
    [({"orders": "a"}, {"orders": "a"}), ({}, {"orders": "a"}), ({"orders": "a"}, {}), ({"gone": "a"}, {})],
)
def test_ids_that_are_equal_or_unknown_are_no_reason(known: dict[str, str], now: dict[str, str]) -> None:
    """Entries of older drivers have no ids, and not every broker reports them."""
    facts = facts_of(7, 7, tables={TABLES[0]: table_of(7, topic_ids=known)})
    check(asked(facts, 0, 500, **now))


def test_partitions_that_are_gone_are_refused_and_new_ones_are_not() -> None:
    facts = facts_of(7, 7)
    both = TopicFacts({"orders": {"0": 0, "1": 0}}, {"orders": {"0": 80, "1": 5}})
    check(replace(facts, source=replace(facts.source, topics=both)))
    none = TopicFacts({"orders": {}}, {"orders": {}})
    error = refusal_of(replace(facts, source=replace(facts.source, topics=none)))
    assert (error.error_id, error.facts["partitions"]) == ("TIDE-CKPT-022", ["orders-0"])


def reading_table(folder: Path, **keys: Any) -> Pipeline:
    """Return a pipeline that reads `bronze/orders`, which has versions 0 to 4."""
    source = {"delta": {"table": "bronze/orders", **keys}}
    pipeline = declared(folder, source=source, sinks=[{"delta": {"table": "silver/orders"}}])
    for number in range(5):
        write_deltalake(pipeline.layout.table("bronze/orders"), pa.table({"id": [number]}), mode="append")
    return pipeline


def read_to(pipeline: Pipeline, version: int, table_id: str | None = None, snapshot: bool = False) -> None:
    """Write the checkpoint of one batch that has read the table up to before `version`."""
    path = pipeline.layout.table("bronze/orders")
    folder = Path(pipeline.layout.checkpoint("orders", "g0001"))
    write_checkpoint(folder, [], [0])
    end = {
        "sourceVersion": 1,
        "reservoirId": table_id or str(DeltaTable(path).metadata().id),
        "reservoirVersion": version,
        "index": 3 if snapshot else -1,
        "isStartingVersion": snapshot,
    }
    write_planned(folder, 0, end)


def source_errors(pipeline: Pipeline) -> list[tuple[str, Any]]:
    facts = gather_facts(Store(pipeline.layout.root), pipeline, "g0001")
    found = replace(facts, tables={})
    return [(finding.finding_id, finding.facts.get("missing_versions")) for finding in errors_of(found)]


def log_file(pipeline: Pipeline, version: int) -> Path:
    return Path(pipeline.layout.table("bronze/orders")) / "_delta_log" / f"{version:020}.json"


@pytest.mark.parametrize("version", [0, 3, 4, 5])
def test_a_table_to_read_that_has_what_comes_next_may_start(tmp_path: Path, version: int) -> None:
    pipeline = reading_table(tmp_path)
    read_to(pipeline, version)
    assert source_errors(pipeline) == []


def test_a_table_whose_first_snapshot_is_being_read_may_start(tmp_path: Path) -> None:
    pipeline = reading_table(tmp_path)
    read_to(pipeline, 3, snapshot=True)
    assert source_errors(pipeline) == []


def test_a_table_to_read_that_was_made_again_is_refused(tmp_path: Path) -> None:
    pipeline = reading_table(tmp_path)
    read_to(pipeline, 3, table_id="another")
    assert source_errors(pipeline) == [("TIDE-CKPT-023", [])]


def test_a_table_to_read_that_is_gone_is_refused(tmp_path: Path) -> None:
    pipeline = reading_table(tmp_path)
    read_to(pipeline, 3)
    Path(pipeline.layout.table("bronze/orders")).rename(tmp_path / "moved")
    assert source_errors(pipeline) == [("TIDE-CKPT-023", [])]


def test_a_table_to_read_that_is_older_than_what_was_read_is_refused(tmp_path: Path) -> None:
    pipeline = reading_table(tmp_path)
    read_to(pipeline, 6)
    assert source_errors(pipeline) == [("TIDE-CKPT-023", [])]


@pytest.mark.parametrize("missing", [2, 4])
def test_a_commit_that_comes_next_and_is_gone_is_refused(tmp_path: Path, missing: int) -> None:
    pipeline = reading_table(tmp_path)
    read_to(pipeline, 2)
    DeltaTable(pipeline.layout.table("bronze/orders")).create_checkpoint()
    log_file(pipeline, missing).unlink()
    assert source_errors(pipeline) == [("TIDE-CKPT-023", [missing])]


def test_a_table_that_cannot_be_opened_is_refused(tmp_path: Path) -> None:
    pipeline = reading_table(tmp_path)
    read_to(pipeline, 2)
    log_file(pipeline, 1).unlink()
    assert source_errors(pipeline) == [("TIDE-CKPT-023", [2])]


def test_files_that_vacuum_took_from_a_lagging_stream_are_refused(tmp_path: Path) -> None:
    pipeline = reading_table(tmp_path)
    read_to(pipeline, 2)
    added = [json.loads(line) for line in log_file(pipeline, 3).read_text().splitlines()]
    name = next(action["add"]["path"] for action in added if "add" in action)
    (Path(pipeline.layout.table("bronze/orders")) / name).unlink()
    assert missing_files(pipeline) == [name]


def test_changes_that_vacuum_took_from_a_lagging_stream_are_refused(tmp_path: Path) -> None:
    """Of a commit with stored changes only these are read, of other commits the files that they touched."""
    pipeline = reading_table(tmp_path, read_changes=True)
    path = Path(pipeline.layout.table("bronze/orders"))
    DeltaTable(str(path)).alter.set_table_properties({CHANGE_FEED: "true"})
    DeltaTable(str(path)).update({"id": "10"}, predicate="id = 4")
    read_to(pipeline, 6)
    actions = [json.loads(line) for line in log_file(pipeline, 6).read_text().splitlines()]
    kept, added = (
        next(action[kind]["path"] for action in actions if kind in action) for kind in ("cdc", "add")
    )
    (path / added).unlink()
    assert source_errors(pipeline) == []
    (path / kept).unlink()
    assert missing_files(pipeline) == [kept]
    read_to(pipeline, 7)
    # Removes whole files, and keeps no changes.
    DeltaTable(str(path)).delete()
    assert missing_files(pipeline) == [added]


def missing_files(pipeline: Pipeline) -> object:
    facts = gather_facts(Store(pipeline.layout.root), pipeline, "g0001")
    error = refusal_of(replace(facts, tables={}))
    assert error.error_id == "TIDE-CKPT-023"
    return error.facts["missing_files"]


def reading_files(folder: Path) -> Pipeline:
    """Return a pipeline over a folder. Batch 0 has read a.txt; batch 1 of b.txt and c.txt is unfinished."""
    source = {"files": {"path": "in", "format": "text"}}
    pipeline = declared(folder, source=source, sinks=[{"console": {}}])
    checkpoint = Path(pipeline.layout.checkpoint("orders", "g0001"))
    write_checkpoint(checkpoint, [], [0])
    (Path(pipeline.layout.root) / "in").mkdir()
    for number, names in enumerate((["a.txt"], ["b c.txt", "d.txt"])):
        write_planned(checkpoint, number, {"logOffset": number})
        entries = [_entry(pipeline, name, number) for name in names]
        (checkpoint / f"sources/0/{number}").write_text("\n".join(["v1", *entries]))
    return pipeline


def _entry(pipeline: Pipeline, name: str, number: int) -> str:
    file = Path(pipeline.layout.root) / "in" / name
    file.write_text("x")
    return json.dumps({"path": file.as_uri(), "timestamp": 1_700_000_000_000, "batchId": number})


def test_files_of_the_batch_to_repeat_that_are_there_may_start(tmp_path: Path) -> None:
    pipeline = reading_files(tmp_path)
    (Path(pipeline.layout.root) / "in/a.txt").unlink()
    check(gather_facts(Store(pipeline.layout.root), pipeline, "g0001"))


def test_a_file_of_the_batch_to_repeat_that_is_gone_is_refused(tmp_path: Path) -> None:
    pipeline = reading_files(tmp_path)
    file = Path(pipeline.layout.root) / "in/b c.txt"
    file.unlink()
    error = refusal_of(gather_facts(Store(pipeline.layout.root), pipeline, "g0001"))
    assert (error.error_id, error.runbook) == ("TIDE-CKPT-024", "source-files-gone")
    assert error.facts["missing"] == [file.as_uri()]


def test_entries_of_the_file_log_that_are_gone_are_refused(tmp_path: Path) -> None:
    """Spark would read their files again."""
    pipeline = reading_files(tmp_path)
    (Path(pipeline.layout.checkpoint("orders", "g0001")) / "sources/0/0").unlink()
    error = refusal_of(gather_facts(Store(pipeline.layout.root), pipeline, "g0001"))
    assert (error.error_id, error.facts["missing"]) == ("TIDE-CKPT-024", ["sources/0/0"])
