from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.support.checkpoints import TABLE_ID, track_schema, write_checkpoint
from tests.support.command_line import CommandLine
from tests.support.conf_project import ConfProject
from tests.support.large_checkpoint import LargeCheckpoint
from tidemill.checkpoint.current import Base, Current, switch_generation
from tidemill.checkpoint.procedure.audit import AuditEntry, write_audit
from tidemill.storage.store import Store


@pytest.fixture
def state(project: ConfProject) -> Path:
    return project.folder / ".data" / "state" / "orders"


def record(project: ConfProject, number: int, generation: str, base: Base | None = None) -> None:
    layout = project.load().layout
    new = Current(
        number=number,
        pipeline="orders",
        generation=generation,
        why=f"why of {generation}",
        by="anna",
        base=base,
    )
    assert switch_generation(Store(layout.root), layout, new)


def test_a_pipeline_that_never_ran_has_nothing_to_tell(tidemill: CommandLine, project: ConfProject) -> None:
    found = tidemill.json("checkpoint", "inspect", "orders")
    assert (found["generation"], found["planned"], found["files"]) == ("g0001", None, 0)
    assert tidemill("checkpoint", "inspect", "orders") == 0


def test_json_tells_batch_offsets_and_damages(
    tidemill: CommandLine, project: ConfProject, state: Path
) -> None:
    record(project, 1, "g0001")
    write_checkpoint(state / "g0001", planned=range(6), committed=range(5))
    found = tidemill.json("checkpoint", "inspect", "orders")
    assert (found["query_id"], found["planned"], found["committed"], found["repeats"]) == ("2f1c", 5, 4, 5)
    assert found["sources"] == [
        {"name": "0", "begin": {"orders": {"0": 0}}, "end": {"orders": {"0": 60}}},
    ]
    assert (found["is_live"], found["record"]["by"], found["damages"]) == (True, "anna", [])


def test_words_name_what_a_person_looks_for(tidemill: CommandLine, project: ConfProject, state: Path) -> None:
    record(project, 1, "g0001")
    LargeCheckpoint(batches=3, partitions=2, topic="orders").write(state / "g0001")
    (state / "g0001/offsets/1002").write_bytes(b"v1\n")
    assert tidemill("checkpoint", "inspect", "orders") == 0
    for word in ("g0001", "why of g0001", "anna", "1002", "stateStoreSave", "DAMAGE", "offsets/1002"):
        assert word in tidemill.out


def test_an_older_generation_is_looked_at_by_name(
    tidemill: CommandLine, project: ConfProject, state: Path
) -> None:
    record(project, 1, "g0001")
    record(project, 2, "g0002", Base(generation="g0001", batch_id=3))
    write_checkpoint(state / "g0001", planned=range(6), committed=range(6))
    write_checkpoint(state / "g0002", planned=range(4), committed=range(4))
    live = tidemill.json("checkpoint", "inspect", "orders")
    assert (live["generation"], live["planned"], live["is_live"]) == ("g0002", 3, True)
    assert live["record"]["base"]["batch_id"] == 3
    old = tidemill.json("checkpoint", "inspect", "orders", "--generation", "g0001")
    assert (old["generation"], old["planned"], old["is_live"]) == ("g0001", 5, False)


def test_schemas_that_a_delta_source_has_tracked_are_told(
    tidemill: CommandLine, project: ConfProject, state: Path
) -> None:
    record(project, 1, "g0001")
    write_checkpoint(state / "g0001", planned=[0], committed=[0])
    track_schema(state / "g0001", 0, 4, "id", "amount")
    found = tidemill.json("checkpoint", "inspect", "orders")
    assert found["schemas"] == [
        {"table_id": TABLE_ID, "number": 0, "version": 4, "columns": ["id", "amount"]}
    ]
    assert tidemill("checkpoint", "inspect", "orders") == 0
    assert "id, amount" in tidemill.out
    (state / f"g0001/_schema_log/_schema_log_{TABLE_ID}/0").write_text("v1\n{")
    [damage] = tidemill.json("checkpoint", "inspect", "orders")["damages"]
    assert f"_schema_log_{TABLE_ID}/0" in damage


def test_what_was_done_to_it_is_told_newest_first(
    tidemill: CommandLine, project: ConfProject, state: Path
) -> None:
    layout = project.load().layout
    for hour in range(7):
        for pipeline in ("orders", "orders_copy"):
            entry = AuditEntry(
                verb="rewind",
                pipeline=pipeline,
                request_id=f"rewind-{hour}",
                by="anna",
                why=f"reason {hour} of {pipeline}",
                at=datetime(2026, 1, 1, hour, tzinfo=UTC),
            )
            assert write_audit(Store(layout.root), layout, entry)
    found = tidemill.json("checkpoint", "inspect", "orders")
    assert [action["why"] for action in found["actions"]] == [
        f"reason {h} of orders" for h in range(6, 1, -1)
    ]
    assert tidemill("checkpoint", "inspect", "orders") == 0
    assert "reason 6 of orders" in tidemill.out


@pytest.mark.parametrize("generation", ["g0007", "../../x", "g0001/../g0001", "$(id)", "x" * 10_000])
def test_a_generation_that_is_not_there_is_wrong_usage(
    tidemill: CommandLine, project: ConfProject, state: Path, generation: str
) -> None:
    record(project, 1, "g0001")
    write_checkpoint(state / "g0001", planned=[0], committed=[0])
    assert tidemill("checkpoint", "inspect", "orders", "--generation", generation) == 2
    assert "TIDE-CLI-020" in tidemill.err
