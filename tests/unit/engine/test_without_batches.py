"""Decisions about a query without batches, before it starts and while it runs; without Spark."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from tests.support.checkpoints import write_checkpoint, write_note
from tests.support.declared import declared
from tidemill.checkpoint.current import read_or_create_current
from tidemill.checkpoint.epochs import claim_epoch
from tidemill.checkpoint.gate import TopicFacts, check, gather_facts
from tidemill.checkpoint.gate.checksum import checksum_of
from tidemill.checkpoint.inspect import inspect_checkpoint
from tidemill.checkpoint.reading.batches import CheckpointBatches
from tidemill.checkpoint.status import Status
from tidemill.checkpoint.verbs.backup import BackupRequest, take_backup
from tidemill.checkpoint.verbs.backup_manifest import backup_folder
from tidemill.engine.admission import admit
from tidemill.engine.commit_watch import LOOK_SECONDS, CommitWatch
from tidemill.engine.drain import Drain
from tidemill.engine.reporter import Reporter
from tidemill.engine.run_context import RunContext
from tidemill.engine.source_watch import SILENCE_SECONDS, SourceWatch
from tidemill.engine.unbatched import beginning, check_cores
from tidemill.engine.unfinished_notes import forget_unfinished
from tidemill.errors import FencedError, GateRefusedError, SpecError, TidemillError, UnavailableError
from tidemill.ledger.entry import Code
from tidemill.storage.store import Store

CONTINUOUS = {"continuous": "1 second"}


def a_run(folder: Path, trigger: Any = CONTINUOUS, **keys: Any) -> RunContext:
    pipeline = declared(folder, sinks=[{"kafka": {"topic": "copies"}}], run={"trigger": trigger}, **keys)
    store, code = Store(pipeline.layout.root), Code(tidemill="test", digest="", spec="")
    epoch = claim_epoch(store, pipeline.layout, pipeline.name, "run-1")
    return RunContext(pipeline, "stream", "run-1", store, Drain(), code, "g0001", epoch)


def batches_of(run: RunContext) -> CheckpointBatches:
    return CheckpointBatches(run.store, run.checkpoint)


def noted_ahead(run: RunContext, *numbers: int, committed: list[int]) -> None:
    """Write a checkpoint of killed continuous processing, in which some notes are not committed."""
    folder = Path(run.checkpoint)
    write_checkpoint(folder, planned=[], committed=committed)
    for number in (*committed, *numbers):
        write_note(folder, number, {"orders": {"0": 10 * (number + 1)}})
        content = (folder / f"offsets/{number}").read_bytes()
        (folder / f"offsets/.{number}.crc").write_bytes(checksum_of(content))


def test_notes_ahead_of_the_commits_are_healthy_and_are_taken_out(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    noted_ahead(run, 6, 7, 8, committed=[3, 4, 5])
    check(gather_facts(run.store, run.pipeline, run.generation))
    for _ in range(2):
        forget_unfinished(run)
        assert batches_of(run).offset_ids() == [3, 4, 5]
        check(gather_facts(run.store, run.pipeline, run.generation))
    trash = run.store.list_files(run.pipeline.layout.trash("orders"))
    names = sorted(file.path.rpartition("/")[2] for file in trash)
    assert names == [".6.crc", ".7.crc", ".8.crc", "6", "7", "8"]


@pytest.mark.parametrize("trigger", ["1 second", {"real_time": "5 minutes"}])
def test_batches_do_not_go_on_from_notes_and_the_refusal_says_where_to_begin(
    tmp_path: Path, trigger: Any
) -> None:
    noted_ahead(a_run(tmp_path), 6, committed=[4, 5])
    run = a_run(tmp_path, trigger)
    with pytest.raises(GateRefusedError) as refused:
        check(gather_facts(run.store, run.pipeline, run.generation))
    assert refused.value.error_id == "TIDE-CKPT-098"
    assert """reset orders --from '{"orders": {"0": 60}}'""" in refused.value.fix


def test_nor_does_a_run_by_hand_in_the_other_mode(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    noted_ahead(run, committed=[4, 5])
    with pytest.raises(GateRefusedError) as refused:
        admit(replace(run, mode="incremental"))
    assert refused.value.error_id == "TIDE-CKPT-098"


def test_what_is_noted_of_the_clock_is_no_topic_s(tmp_path: Path) -> None:
    run = a_run(tmp_path, source={"rate": {}})
    write_checkpoint(Path(run.checkpoint), planned=[], committed=[0])
    write_note(Path(run.checkpoint), 0, {"0": {"value": 18, "runTimeMs": 1_700_000_000_000}})
    check(gather_facts(run.store, run.pipeline, run.generation))
    of_a_topic = a_run(tmp_path, source={"kafka": {"pattern": ".*"}})
    with pytest.raises(GateRefusedError) as refused:
        check(gather_facts(run.store, of_a_topic.pipeline, run.generation))
    assert refused.value.error_id == "TIDE-CKPT-025"


def test_inspect_and_a_backup_end_with_the_newest_commit(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    layout = run.pipeline.layout
    live = read_or_create_current(run.store, layout, "orders")
    noted_ahead(run, 6, 7, committed=[3, 4, 5])
    found = inspect_checkpoint(run.store, run.pipeline, "g0001", live, live)
    assert (found.is_noted, found.committed, found.repeats, found.damages) == (True, 5, None, ())
    assert [source.end for source in found.sources] == [{"orders": {"0": 60}}]
    manifest = take_backup(run.store, run.pipeline, BackupRequest("ann", "before a try", datetime.now(UTC)))
    assert manifest.batch_id == 5
    copied = f"{backup_folder(layout, 'orders', manifest.backup)}/checkpoint"
    assert CheckpointBatches(run.store, copied).offset_ids() == [3, 4, 5]


def test_a_commit_whose_offsets_are_gone_is_refused_although_later_notes_are_there(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    noted_ahead(run, 6, 7, committed=[4, 5])
    for name in ("5", ".5.crc"):
        (Path(run.checkpoint) / "offsets" / name).unlink()
    with pytest.raises(GateRefusedError) as refused:
        check(gather_facts(run.store, run.pipeline, run.generation))
    assert refused.value.error_id == "TIDE-CKPT-011"


def test_a_first_note_that_was_never_finished_is_taken_out(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    noted_ahead(run, 0, committed=[])
    forget_unfinished(run)
    assert batches_of(run).offset_ids() == []


def test_where_it_begins_is_kept_at_the_first_start_and_holds_for_the_next(tmp_path: Path) -> None:
    offsets = {"orders": {"0": 17, "1": 4}}
    source = {"kafka": {"topic": "orders", "starting_offsets": offsets}}
    assert beginning(a_run(tmp_path, source=source)) == offsets
    # Declared otherwise by now; and what a reset has written counts in the same way.
    later = {"kafka": {"topic": "orders", "starting_offsets": {"orders": {"0": 99, "1": 99}}}}
    run = a_run(tmp_path, source=later)
    assert beginning(run) == offsets
    noted_ahead(run, committed=[0])
    assert beginning(run) is None


def test_each_partition_needs_a_core_of_its_own(tmp_path: Path) -> None:
    ends = {"orders": {"0": 5, "1": 5}, "returns": {"0": 5}}
    run = replace(a_run(tmp_path), topics={"source": TopicFacts({}, ends)})
    check_cores(run, 3)
    with pytest.raises(SpecError) as refused:
        check_cores(run, 2)
    assert refused.value.error_id == "TIDE-RUN-006"
    assert (refused.value.facts["partitions"], refused.value.facts["cores"]) == (3, 2)


class Watched:
    """A watch over a checkpoint that the test writes, with its clock."""

    def __init__(self, run: RunContext) -> None:
        now = datetime.now(UTC)
        status = Status(
            pipeline="orders",
            mode="stream",
            state="starting",
            run_id="r",
            started_at=now,
            updated_at=now,
            trigger="continuous",
        )
        self.reporter = Reporter(run.store, run.pipeline.layout.status("orders"), status)
        self.seconds = time.monotonic()
        self.source = SourceWatch(run.pipeline, self.reporter, lambda: self.seconds)
        self._watch = CommitWatch(run, self.reporter, "kafka:copies", lambda: self.seconds)

    def source_is(self, error: TidemillError | None) -> None:
        """Let the driver see its source with or without an error."""
        with mock.patch("tidemill.engine.source_watch.check_source", autospec=True, side_effect=error):
            self.seconds += SILENCE_SECONDS
            self.source.look()

    def look(self, after: float = LOOK_SECONDS) -> Status:
        self.seconds += after
        self._watch.look()
        return self.reporter.status


def test_a_note_is_progress_and_what_was_there_before_the_start_is_none(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    noted_ahead(run, committed=[0, 1])
    watched = Watched(run)
    assert (watched.look().state, watched.look().batch_id) == ("starting", None)
    noted_ahead(run, committed=[0, 1, 2, 3])
    assert watched.look(LOOK_SECONDS / 2).batch_id is None
    status = watched.look(LOOK_SECONDS / 2)
    assert (status.state, status.batch_id, status.batches) == ("running", 3, 2)
    assert status.progressed_at == status.batch_committed_at is not None
    assert watched.reporter.progressed()


def test_notes_are_no_progress_while_the_source_is_unavailable(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    watched = Watched(run)
    noted_ahead(run, committed=[0])
    progressed_at = watched.look().progressed_at
    watched.source_is(UnavailableError("TIDE-SRC-001", "No broker answers."))
    noted_ahead(run, committed=[0, 1])
    status = watched.look()
    assert (status.state, status.batch_id, status.progressed_at) == ("waiting", 1, progressed_at)
    watched.source_is(None)
    assert (watched.reporter.status.state, watched.reporter.status.error) == ("running", None)
    noted_ahead(run, committed=[0, 1, 2])
    assert watched.look().progressed_at != progressed_at


def test_a_newer_driver_ends_the_watch(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    watched = Watched(run)
    watched.look()
    claim_epoch(run.store, run.pipeline.layout, "orders", "run-2")
    with pytest.raises(FencedError) as fenced:
        watched.look()
    assert fenced.value.error_id == "TIDE-RUN-001"
