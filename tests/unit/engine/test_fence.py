"""A driver that a newer one has fenced off writes no batch any more."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.declared import declared
from tidemill.checkpoint.epochs import claim_epoch
from tidemill.engine.drain import Drain
from tidemill.engine.run_context import RunContext
from tidemill.errors import FencedError
from tidemill.ledger.entry import Code
from tidemill.storage.store import Store


def start(folder: Path) -> RunContext:
    """Return the context of a driver before its first batch."""
    pipeline = declared(folder)
    store = Store(pipeline.layout.root)
    epoch = claim_epoch(store, pipeline.layout, pipeline.name, "test")
    code = Code(tidemill="test", digest="", spec="")
    return RunContext(pipeline, "stream", "run-1", store, Drain(), code, "g0001", epoch)


def test_the_newest_driver_gets_an_entry_for_its_batch(tmp_path: Path) -> None:
    start(tmp_path)
    assert start(tmp_path).entry(0).epoch == 2


def test_an_older_driver_gets_none(tmp_path: Path) -> None:
    older = start(tmp_path)
    assert older.entry(0).epoch == 1
    start(tmp_path)
    with pytest.raises(FencedError) as fenced:
        older.entry(1)
    assert fenced.value.error_id == "TIDE-RUN-001"
    assert (fenced.value.facts["epoch"], fenced.value.facts["newest_epoch"]) == (1, 2)
