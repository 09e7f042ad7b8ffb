"""Position of the live stream: from its checkpoint and all tables, not from one ledger."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from deltalake import CommitProperties, DeltaTable

from tests.support.checkpoints import write_planned
from tests.support.declared import declared
from tests.support.paper_batches import PaperBatches
from tidemill.backfill.live_side import LiveSide, read_live_side
from tidemill.checkpoint.current import read_or_create_current
from tidemill.errors import GateRefusedError, UsageError
from tidemill.sources.offsets import Positions

TWO_TABLES = [{"delta": {"table": "bronze/orders"}}, {"delta": {"table": "silver/orders"}}]


@pytest.fixture
def batches(tmp_path: Path) -> PaperBatches:
    return PaperBatches(declared(tmp_path, environment={"root": str(tmp_path / "data")}, sinks=TWO_TABLES))


def live(batches: PaperBatches) -> LiveSide | None:
    return read_live_side(batches.store, batches.pipeline)


def at(offset: int) -> Positions:
    return {"orders": {"0": offset}}


def table(batches: PaperBatches, name: str = "bronze/orders") -> DeltaTable:
    return DeltaTable(batches.pipeline.layout.table(name))


def test_a_pipeline_that_never_ran_has_none(batches: PaperBatches) -> None:
    assert live(batches) is None


def test_a_start_that_came_to_nothing_is_none(batches: PaperBatches) -> None:
    """For example, the gate has refused the start."""
    read_or_create_current(batches.store, batches.pipeline.layout, "orders")
    assert live(batches) is None


def test_it_stands_where_its_newest_batch_ended(batches: PaperBatches) -> None:
    batches.run()
    batches.run()
    assert live(batches) == LiveSide(generation="g0001", batch_id=1, offsets=at(20))


def test_before_its_first_batch_it_stands_where_its_checkpoint_began(batches: PaperBatches) -> None:
    batches.plan()
    assert live(batches) == LiveSide(generation="g0001", offsets=at(0))


def test_a_batch_counts_once_it_is_finished(batches: PaperBatches) -> None:
    batches.run()
    number = batches.plan()
    for table_name in ("bronze/orders", "silver/orders"):
        batches.write(number, table_name)
        assert live(batches) == LiveSide(generation="g0001", batch_id=0, offsets=at(10))
    batches.finish(number)
    assert live(batches) == LiveSide(generation="g0001", batch_id=1, offsets=at(20))


def test_windows_are_closed_up_to_the_watermark_of_that_batch(batches: PaperBatches) -> None:
    batches.run()
    number = batches.plan()
    noon = datetime(2024, 1, 1, 12, tzinfo=UTC)
    write_planned(batches.checkpoint, number, at(20), watermark_ms=int(noon.timestamp() * 1000))
    before = live(batches)
    for table_name in ("bronze/orders", "silver/orders"):
        batches.write(number, table_name)
    batches.finish(number)
    after = live(batches)
    assert (before and before.closed_until, after and after.closed_until) == (None, noon)


def test_after_a_restore_by_hand_nobody_knows_what_it_will_write_again(batches: PaperBatches) -> None:
    for _ in range(3):
        batches.run()
    table(batches).restore(2)
    with pytest.raises(GateRefusedError) as refused:
        live(batches)
    assert refused.value.error_id == "TIDE-CKPT-005"


def test_commits_of_others_do_not_hide_it(batches: PaperBatches) -> None:
    """More of them than anybody looks back."""
    batches.run()
    log = table(batches)
    for _ in range(201):
        log.create_write_transaction(
            [], mode="append", schema=log.schema(), partition_by=[], commit_properties=CommitProperties()
        )
        log.update_incremental()
    assert live(batches) == LiveSide(generation="g0001", batch_id=0, offsets=at(10))


def test_a_checkpoint_without_its_beginning_is_waited_for(batches: PaperBatches) -> None:
    batches.plan()
    (batches.checkpoint / "sources/0/0").unlink()
    (batches.checkpoint / "sources/0/1").write_text("v1")
    with pytest.raises(UsageError) as refused:
        live(batches)
    assert refused.value.error_id == "TIDE-BACK-006"
