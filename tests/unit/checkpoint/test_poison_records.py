"""Records at which code failed: kept once, and only for what they were records of."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from tidemill.checkpoint.poison_records import (
    PoisonRecord,
    add_poison_record,
    poison_folder,
    poison_in,
    poison_records,
)
from tidemill.errors import DataError
from tidemill.ledger.entry import Code, LedgerEntry, OffsetRange
from tidemill.names import Layout
from tidemill.storage.store import Store

CODE = Code(tidemill="1", digest="d", spec="s", rules="r")


def record(offset: int, topic_id: str = "", generation: str = "g0001") -> PoisonRecord:
    return PoisonRecord(
        topic="orders",
        partition=0,
        offset=offset,
        topic_id=topic_id,
        generation=generation,
        error="ValueError",
        message="no",
        batch_id=3,
        run_id="run",
        at=datetime.now(UTC),
    )


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path))


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return poison_folder(Layout(str(tmp_path)), "orders", CODE)


def test_a_record_is_kept_once_and_counts_for_its_topic_only(store: Store, folder: str) -> None:
    assert add_poison_record(store, folder, record(7, "LDtQT/eGRd+S8A")) is True
    assert add_poison_record(store, folder, record(7, "LDtQT/eGRd+S8A")) is False
    # It is the same offset, but of a recreated topic.
    assert add_poison_record(store, folder, record(7, "/DtQT_eGRd-S8A")) is True

    def known(topic_ids: dict[str, str], generation: str = "g0001") -> list[str]:
        return [found.topic_id for found in poison_records(store, folder, generation, topic_ids)]

    assert known({"orders": "LDtQT/eGRd+S8A"}, "g0002") == ["LDtQT/eGRd+S8A"]
    assert known({"orders": "/DtQT_eGRd-S8A"}) == ["/DtQT_eGRd-S8A"]
    assert known({"orders": "third"}) == []


def test_without_ids_of_topics_a_record_counts_for_its_checkpoint_only(store: Store, folder: str) -> None:
    add_poison_record(store, folder, record(7))
    assert len(poison_records(store, folder, "g0001", {})) == 1
    assert poison_records(store, folder, "g0002", {}) == []
    # The broker now reports an id.
    assert len(poison_records(store, folder, "g0001", {"orders": "LDtQT/eGRd+S8A"})) == 1
    assert poison_records(store, folder, "g0002", {"orders": "LDtQT/eGRd+S8A"}) == []


def test_a_damaged_file_is_refused(store: Store, folder: str) -> None:
    store.write(f"{folder}/x.json", b"{")
    with pytest.raises(DataError) as refused:
        poison_records(store, folder, "g0001", {})
    assert (refused.value.error_id, refused.value.facts["file"]) == ("TIDE-STOR-001", f"{folder}/x.json")


def test_a_batch_names_those_of_its_own_range() -> None:
    read = OffsetRange(start={"orders": {"0": 5}}, end={"orders": {"0": 8}})
    entry = LedgerEntry(
        pipeline="orders", output="", mode="stream", run_id="run", sources={"source": read}, code=CODE
    )
    assert poison_in([record(4), record(5), record(7), record(8)], entry) == ("orders-0-5", "orders-0-7")
    assert poison_in([record(8)], entry) is None
