"""The facts are those of checkpoint and tables: read from real logs, generations and restores included."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.support.checkpoints import write_checkpoint
from tests.support.commits import commit_of, handed_over
from tests.support.declared import declared
from tests.support.gate_facts import refusal_of
from tidemill.checkpoint.current import Base, BaseTable, Current, read_or_create_current, switch_generation
from tidemill.checkpoint.gate import check, check_holds, gather_facts
from tidemill.checkpoint.holds import Hold, drop_hold, take_hold
from tidemill.checkpoint.receipts import Receipt, write_receipt
from tidemill.errors import GateRefusedError
from tidemill.ledger.entry import OffsetRange
from tidemill.ledger.read import FIRST_PAGE, transaction_version
from tidemill.ledger.table_restore import restore_through_delta_rs
from tidemill.names import transaction_id
from tidemill.sinks.table_log import TableLog
from tidemill.spec.project import Pipeline
from tidemill.storage.store import Store, StoredFile

TABLE = "bronze/orders"
COLUMNS = pa.schema([("id", pa.int64())])


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    return declared(tmp_path, "orders")


@pytest.fixture
def store(pipeline: Pipeline) -> Store:
    return Store(pipeline.layout.root)


def write_batches(pipeline: Pipeline, batch_ids: range, generation: str = "g0001") -> None:
    log = TableLog(pipeline.layout.table(TABLE))
    log.create(COLUMNS)
    for batch_id in batch_ids:
        commit = commit_of(batch_id)
        entry = commit.entry.model_copy(update={"generation": generation})
        app_id = transaction_id("orders", generation, TABLE)
        log.commit([], replace(commit, app_id=app_id, entry=entry), COLUMNS)


def checkpoint_of(pipeline: Pipeline, generation: str = "g0001") -> Path:
    return Path(pipeline.layout.checkpoint("orders", generation))


def ends(*batch_ids: int) -> dict[int, Any]:
    return {batch_id: {"source": {"orders": {"0": 10 * (batch_id + 1)}}} for batch_id in batch_ids}


def test_a_new_pipeline_has_nothing_and_may_start(pipeline: Pipeline, store: Store) -> None:
    facts = gather_facts(store, pipeline, "g0001")
    assert (facts.query_id, facts.planned, facts.committed, facts.base) == (None, None, None, None)
    assert (facts.tables[TABLE].last_batch, facts.tables[TABLE].traced) == (None, False)
    assert facts.declared.topics == {"orders"}
    check(facts)


def test_facts_are_those_of_checkpoint_and_table(pipeline: Pipeline, store: Store) -> None:
    write_checkpoint(checkpoint_of(pipeline), range(4), range(3))
    write_batches(pipeline, range(4))
    facts = gather_facts(store, pipeline, "g0001")
    assert (facts.query_id, facts.planned, facts.committed) == ("2f1c", 3, 2)
    assert facts.next_start == {"orders": {"0": 30}}
    found = facts.tables[TABLE]
    assert (found.last_batch, found.query_id, found.transaction) == (3, "2f1c", 3)
    assert found.ends == ends(1, 2, 3)
    check(facts)


def test_a_table_that_was_restored_by_hand_is_refused(pipeline: Pipeline, store: Store) -> None:
    """Delta keeps the transaction version of commits that a RESTORE took back."""
    write_checkpoint(checkpoint_of(pipeline), range(4), range(4))
    write_batches(pipeline, range(4))
    path = pipeline.layout.table(TABLE)
    DeltaTable(path).restore(2)
    assert transaction_version(path, commit_of(0).app_id) == 3
    facts = gather_facts(store, pipeline, "g0001")
    assert (facts.tables[TABLE].last_batch, facts.tables[TABLE].transaction) == (1, 3)
    assert refusal_of(facts).error_id == "TIDE-CKPT-005"


def test_a_table_that_was_restored_to_its_beginning_has_no_batch(pipeline: Pipeline, store: Store) -> None:
    write_checkpoint(checkpoint_of(pipeline), range(2), range(2))
    write_batches(pipeline, range(2))
    DeltaTable(pipeline.layout.table(TABLE)).restore(0)
    facts = gather_facts(store, pipeline, "g0001")
    assert facts.tables[TABLE].last_batch is None
    assert refusal_of(facts).error_id == "TIDE-CKPT-005"


def test_the_newest_batch_is_found_behind_any_number_of_others(pipeline: Pipeline, store: Store) -> None:
    write_checkpoint(checkpoint_of(pipeline), range(2), range(2))
    write_batches(pipeline, range(2))
    for _ in range(FIRST_PAGE):
        write_deltalake(pipeline.layout.table(TABLE), pa.table({"id": [1]}), mode="append")
    facts = gather_facts(store, pipeline, "g0001")
    assert (facts.tables[TABLE].last_batch, facts.tables[TABLE].query_id) == (1, "2f1c")
    check(facts)


def test_another_generation_and_another_pipeline_have_no_part_in_the_facts(
    pipeline: Pipeline, store: Store
) -> None:
    write_batches(pipeline, range(4))
    assert gather_facts(store, pipeline, "g0002").tables[TABLE].last_batch is None
    other = replace(pipeline, name="payments")
    assert gather_facts(store, other, "g0001").tables[TABLE].last_batch is None


def rewound(pipeline: Pipeline, store: Store) -> None:
    """Run batches 0-3, then rewind checkpoint and table to batch 1, into g0002."""
    write_checkpoint(checkpoint_of(pipeline), range(4), range(4))
    write_batches(pipeline, range(4))
    read_or_create_current(store, pipeline.layout, "orders")
    path = pipeline.layout.table(TABLE)
    restore_through_delta_rs(replace(handed_over(path, 2, 4, "77ab"), closes=()))
    write_checkpoint(checkpoint_of(pipeline, "g0002"), range(2), range(2), query_id="77ab")
    tables: dict[str, BaseTable | None] = {
        TABLE: BaseTable(id=str(DeltaTable(path).metadata().id), version=2)
    }
    base = Base(generation="g0001", batch_id=1, lineage={"g0001": 1}, tables=tables)
    record = Current(number=2, pipeline="orders", generation="g0002", why="rewind", base=base)
    assert switch_generation(store, pipeline.layout, record)


def test_a_generation_that_a_verb_made_stands_where_its_base_does(pipeline: Pipeline, store: Store) -> None:
    rewound(pipeline, store)
    facts = gather_facts(store, pipeline, "g0002")
    assert (facts.tables[TABLE].last_batch, facts.tables[TABLE].transaction) == (1, 1)
    assert facts.tables[TABLE].query_id == "77ab"
    check(facts)


def test_a_generation_that_a_verb_made_goes_on_with_its_own_batches(pipeline: Pipeline, store: Store) -> None:
    rewound(pipeline, store)
    write_checkpoint(checkpoint_of(pipeline, "g0002"), range(3), range(2), query_id="2f1c")
    write_batches(pipeline, range(2, 3), "g0002")
    facts = gather_facts(store, pipeline, "g0002")
    assert (facts.tables[TABLE].last_batch, facts.tables[TABLE].transaction) == (2, 2)
    check(facts)


def test_the_parent_that_writes_after_the_verb_is_found(pipeline: Pipeline, store: Store) -> None:
    rewound(pipeline, store)
    write_batches(pipeline, range(4, 5), "g0001")
    error = refusal_of(gather_facts(store, pipeline, "g0002"))
    assert (error.error_id, error.facts["written_by"]) == ("TIDE-CKPT-019", "g0001")


def test_a_base_that_was_restored_away_is_refused(pipeline: Pipeline, store: Store) -> None:
    rewound(pipeline, store)
    DeltaTable(pipeline.layout.table(TABLE)).restore(1)
    facts = gather_facts(store, pipeline, "g0002")
    assert facts.tables[TABLE].last_batch is None
    assert refusal_of(facts).error_id == "TIDE-CKPT-005"


def test_a_table_that_is_restored_beyond_the_base_is_the_parents_again(
    pipeline: Pipeline, store: Store
) -> None:
    """A user undoes the rewind's own RESTORE, so the parent has rows that the new generation will write."""
    rewound(pipeline, store)
    DeltaTable(pipeline.layout.table(TABLE)).restore(4)
    error = refusal_of(gather_facts(store, pipeline, "g0002"))
    assert (error.error_id, error.facts["written_by"]) == ("TIDE-CKPT-019", "g0001")


def test_the_state_folder_of_another_pipeline_is_refused(pipeline: Pipeline, store: Store) -> None:
    read_or_create_current(store, pipeline.layout, "payments")
    Path(pipeline.layout.state("payments")).rename(pipeline.layout.state("orders"))
    with pytest.raises(GateRefusedError) as refused:
        gather_facts(store, pipeline, "g0001")
    assert refused.value.error_id == "TIDE-CKPT-006"
    assert refused.value.facts["belongs_to"] == "payments"


def test_a_hold_forbids_the_start_until_it_is_dropped(pipeline: Pipeline, store: Store) -> None:
    hold = Hold(
        id="rewind-1", by="anna", why="rewind to 3", to_do="tidemill checkpoint rewind orders --apply"
    )
    take_hold(store, pipeline.layout, "orders", hold)
    with pytest.raises(GateRefusedError) as refused:
        check_holds(store, pipeline.layout, "orders")
    assert (refused.value.error_id, refused.value.runbook) == ("TIDE-CKPT-029", "hold")
    assert (refused.value.facts["hold"], refused.value.facts["by"]) == ("rewind-1", "anna")
    assert refused.value.fix == hold.to_do
    # The operation that holds asks the gate at its end.
    check(gather_facts(store, pipeline, "g0001"))
    drop_hold(store, pipeline.layout, "orders", "rewind-1")
    check_holds(store, pipeline.layout, "orders")


class BusyStore(Store):
    """A live stream: just after its checkpoint was listed for the first time, it runs another batch."""

    def __init__(self, root: str, run_batch: Callable[[], None]) -> None:
        super().__init__(root)
        self._batches = [run_batch]

    def list_files(self, folder: str) -> list[StoredFile]:
        files = super().list_files(folder)
        if self._batches:
            self._batches.pop()()
        return files


def test_beside_a_live_stream_checkpoint_and_tables_are_of_one_moment(pipeline: Pipeline) -> None:
    def run_batch(number: int) -> None:
        write_checkpoint(checkpoint_of(pipeline), [number], [number])
        write_batches(pipeline, range(number, number + 1))

    for number in range(3):
        run_batch(number)
    busy = BusyStore(pipeline.layout.root, lambda: run_batch(3))
    facts = gather_facts(busy, pipeline, "g0001")
    assert (facts.planned, facts.committed, facts.tables[TABLE].last_batch) == (3, 3, 3)
    check(facts)


def test_a_damaged_status_keeps_nobody_from_starting(pipeline: Pipeline, store: Store) -> None:
    store.write(pipeline.layout.status("orders"), b"{")
    facts = gather_facts(store, pipeline, "g0001")
    assert facts.last_driver is None
    check(facts)


def test_a_lost_checkpoint_without_tables_is_refused_at_every_start(tmp_path: Path) -> None:
    """Each refused driver leaves a separate status and receipt, which have no facts about batches."""
    pipeline = declared(tmp_path, sinks=[{"kafka": {"topic": "copies"}}])
    store = Store(pipeline.layout.root)
    for second, batch_id in enumerate((7, None, None)):
        write_receipt(store, pipeline.layout, receipt_of(second, batch_id))
        assert refusal_of(gather_facts(store, pipeline, "g0001")).error_id == "TIDE-CKPT-004"
        check(gather_facts(store, pipeline, "g0002"))


def receipt_of(second: int, batch_id: int | None) -> Receipt:
    return Receipt(
        pipeline="orders",
        run_id=f"run-{second}",
        mode="stream",
        result="failed",
        exit_code=66,
        stopped_at=datetime(2026, 1, 1, 0, 0, second, tzinfo=UTC),
        generation="g0001",
        batch_id=batch_id,
    )


@pytest.mark.parametrize(
    ("source", "mode", "to"),
    [
        ({"topic": "orders"}, {}, 10),
        ({"topic": "orders", "starting_offsets": {"orders": {"0": 7}}}, {}, 10),
        ({"topic": "orders", "starting_offsets": {"orders": {"0": -2}}}, {}, 10),
        ({"topic": "orders", "starting_offsets": {"orders": {"0": 10}}}, {}, None),
        ({"topic": "orders", "starting_offsets": "2026-03-01T00:00:00Z"}, {}, 10),
        ({"topic": "orders", "starting_offsets": "latest"}, {}, None),
        ({"topic": "orders"}, {"mode": "merge", "key": ["id"]}, None),
    ],
)
def test_the_ledger_tells_of_backfills_before_the_first_start(
    tmp_path: Path, source: dict[str, Any], mode: dict[str, Any], to: int | None
) -> None:
    """The fact is the end of the backfill that went furthest; a later one repeated a part of it."""
    pipeline = declared(tmp_path, source={"kafka": source}, sinks=[{"delta": {"table": TABLE, **mode}}])
    backfilled(pipeline, 0, 10)
    backfilled(pipeline, 2, 4)
    facts = gather_facts(Store(pipeline.layout.root), pipeline, "g0001").tables[TABLE]
    assert facts.backfilled_to == (None if to is None else {"orders": {"0": to}})


@pytest.mark.parametrize(("born", "to"), [(0, 10), (10, None)])
def test_a_checkpoint_begins_where_it_was_born_whatever_is_declared_by_now(
    tmp_path: Path, born: int, to: int | None
) -> None:
    """A driver that was fenced off has written this file, and planned no batch yet."""
    now = {"topic": "orders", "starting_offsets": {"orders": {"0": 10 - born}}}
    pipeline = declared(tmp_path, source={"kafka": now}, sinks=[{"delta": {"table": TABLE}}])
    backfilled(pipeline, 0, 10)
    store = Store(pipeline.layout.root)
    initial = b'\0v1\n{"orders":{"0":%d}}' % born
    store.write(f"{checkpoint_of(pipeline)}/sources/0/0", initial)
    facts = gather_facts(store, pipeline, "g0001")
    assert facts.tables[TABLE].backfilled_to == (None if to is None else {"orders": {"0": to}})
    if to is not None:
        assert "checkpoint reset" in refusal_of(facts).fix


def test_of_windows_no_offset_says_where_their_records_end(tmp_path: Path) -> None:
    pipeline = declared(tmp_path, source={"kafka": {"topic": "orders"}}, sinks=[{"delta": {"table": TABLE}}])
    backfilled(pipeline)
    facts = gather_facts(Store(pipeline.layout.root), pipeline, "g0001").tables[TABLE]
    assert facts.backfilled_to == {}


def backfilled(pipeline: Pipeline, *offsets: int) -> None:
    log = TableLog(pipeline.layout.table(TABLE))
    log.create(COLUMNS)
    commit = commit_of(0, pipeline=pipeline.name)
    start, end = ({"orders": {"0": offset}} for offset in offsets or (0, 0))
    sources = {"source": OffsetRange(start=start, end=end)} if offsets else {}
    changes = {"mode": "backfill", "generation": None, "query_id": None, "sources": sources}
    entry = commit.entry.model_copy(update=changes)
    log.commit([], replace(commit, app_id=f"none-{offsets}", entry=entry), COLUMNS)
