"""The gate next to a stream that commits faster than it can be read: it never contradicts itself."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tests.support.declared import declared
from tests.support.paper_batches import PaperBatches
from tidemill.checkpoint.gate import check, gather_facts, gather_settled
from tidemill.errors import GateRefusedError

BATCHES = [20, pytest.param(200, marks=pytest.mark.soak)]
TWO_TABLES = [{"delta": {"table": "bronze/orders"}}, {"delta": {"table": "silver/orders"}}]


@pytest.fixture
def batches(tmp_path: Path) -> PaperBatches:
    return PaperBatches(declared(tmp_path, environment={"root": str(tmp_path / "data")}, sinks=TWO_TABLES))


@pytest.mark.parametrize("number", BATCHES)
def test_a_stream_that_goes_on_is_never_refused(batches: PaperBatches, number: int) -> None:
    batches.run()
    stream = threading.Thread(target=lambda: [batches.run() for _ in range(number)])
    stream.start()
    looks = 0
    while stream.is_alive():
        check(gather_facts(batches.store, batches.pipeline, "g0001"))
        looks += 1
    stream.join()
    assert looks > 1
    assert batches.batches.last_committed() == number


def test_the_newest_finished_batch_is_what_counts(batches: PaperBatches) -> None:
    for _ in range(3):
        batches.run()
    number = batches.plan()
    batches.write(number, "bronze/orders")
    facts = gather_settled(batches.store, batches.pipeline, "g0001")
    check(facts)
    assert (facts.planned, facts.committed) == (2, 2)
    assert {name: found.last_batch for name, found in facts.tables.items()} == dict.fromkeys(facts.tables, 2)


def test_what_contradicts_itself_is_refused_beside_a_stream_too(batches: PaperBatches) -> None:
    from deltalake import DeltaTable

    for _ in range(3):
        batches.run()
    DeltaTable(batches.pipeline.layout.table("silver/orders")).restore(2)
    with pytest.raises(GateRefusedError) as refused:
        check(gather_settled(batches.store, batches.pipeline, "g0001"))
    assert refused.value.facts["table"] == "silver/orders"
