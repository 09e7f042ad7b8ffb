"""A transform that joins its source with itself reads it once for each side, and the ledger says so."""

from __future__ import annotations

from tests.support.lake import Lake
from tests.support.rewinds import declare, land_events
from tidemill.checkpoint.gate import check, gather_facts
from tidemill.checkpoint.reading.batches import CheckpointBatches
from tidemill.checkpoint.verbs.repair import RepairFacts, plan_repair


def test_each_side_of_a_self_join_is_in_the_ledger_as_in_the_checkpoint(lake: Lake) -> None:
    land_events(lake, 0, 3)
    pipeline = declare(lake, "joined", "joined")
    pipeline.run_incremental()
    resolved, store = pipeline.resolved, lake.store
    batches = CheckpointBatches(store, resolved.layout.checkpoint("joined", "g0001"))
    entries = [commit.entry for commit in lake.ledger("silver/joined") if commit.entry is not None]
    assert entries
    for entry in entries:
        assert entry.batch_id is not None
        planned = batches.planned(entry.batch_id)
        assert planned is not None
        assert list(entry.sources) == ["source", "source.1"]
        told = [(read.start, read.end) for read in entry.sources.values()]
        assert told == list(batches.ranges_of(planned).values())
    facts = gather_facts(store, resolved, "g0001")
    check(facts)
    newest = batches.offset_ids()[-3:]
    files = {n: store.read(f"{batches.path}/offsets/{n}") or b"" for n in newest}
    assert plan_repair(RepairFacts("g0001", files, tuple(entries), facts))["files"] == []
