"""A stream's asset events of a table: all commits since its last event, once, and none without commits."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import deltalake
import pyarrow
import pytest

from tests.support.commits import TABLE, commit_of
from tidemill.control.stream_events import StreamEvent, Told, last_told, look
from tidemill.names import Layout

NOON = datetime(2026, 11, 23, 12, 0, tzinfo=UTC)


class Table:
    """A table to which batches of `orders` are committed.

    Args:
        root: Storage root.
    """

    def __init__(self, root: Path) -> None:
        self.layout = Layout(str(root))

    def commit(self, batch_id: int, rows: int = 3, **changed: Any) -> None:
        entry = commit_of(batch_id).entry.model_copy(update={"rows": rows, **changed})
        deltalake.write_deltalake(
            self.layout.table(TABLE),
            pyarrow.table({"value": list(range(rows))}, schema=pyarrow.schema([("value", pyarrow.int64())])),
            mode="append",
            commit_properties=deltalake.CommitProperties(custom_metadata={"userMetadata": entry.to_text()}),
        )

    def event(self, told: Told | None = None) -> StreamEvent | None:
        return look(self.layout, "orders", TABLE, told)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path)


def told_of(event: StreamEvent | None, at: datetime = NOON) -> Told | None:
    assert event is not None
    return last_told([event.as_document(at)])


def offsets(event: StreamEvent | None) -> tuple[int, int]:
    assert event is not None
    read = event.sources["source"]
    return read["start"]["orders"]["0"], read["end"]["orders"]["0"]


def test_a_table_that_is_not_there_yet_tells_nothing(table: Table) -> None:
    assert table.event() is None


def test_one_event_tells_all_that_was_committed_since_the_last_one(table: Table) -> None:
    table.commit(0)
    first = table.event()
    assert first is not None
    assert (first.version, first.after_version, first.rows, first.batches) == (0, None, 3, 1)
    for batch_id in (1, 2, 3):
        table.commit(batch_id, rows=batch_id)
    event = table.event(told_of(first))
    assert event is not None
    assert (event.version, event.after_version, event.rows, event.batches) == (3, 0, 6, 3)
    assert offsets(event) == (10, 40)
    assert table.event(told_of(event)) is None


def test_what_others_commit_is_no_news_of_the_stream(table: Table) -> None:
    table.commit(0)
    told = told_of(table.event())
    table.commit(1, mode="backfill", plan="1f2e")
    table.commit(0, pipeline="visits")
    table.commit(0, mode="base", generation="g0002")
    deltalake.DeltaTable(table.layout.table(TABLE)).optimize.compact()
    assert table.event(told) is None


def test_batches_without_rows_are_told_with_the_next_ones(table: Table) -> None:
    table.commit(0)
    told = told_of(table.event())
    table.commit(1, rows=0)
    assert table.event(told) is None
    table.commit(2)
    event = table.event(told)
    assert event is not None
    assert (event.version, event.batches, offsets(event)) == (2, 2, (10, 30))


def test_after_a_rewind_the_offsets_are_those_of_the_new_generation(table: Table) -> None:
    for batch_id in (0, 1, 2):
        table.commit(batch_id)
    told = told_of(table.event())
    table.commit(3)
    table.commit(1, generation="g0002")
    event = table.event(told)
    assert event is not None
    assert (event.generation, event.batches, offsets(event)) == ("g0002", 2, (10, 20))


def test_a_table_that_was_made_anew_is_told_from_its_beginning(table: Table) -> None:
    table.commit(0)
    event = table.event(Told(mode="stream", version=7, told_at=NOON))
    assert event is not None
    assert (event.version, event.after_version) == (0, None)


def test_the_last_event_is_that_of_the_stream(table: Table) -> None:
    table.commit(0)
    event = table.event()
    assert event is not None
    backfilled = {"mode": "backfill", "version": 9}
    assert last_told([backfilled, {}, event.as_document(NOON)]) == Told(
        mode="stream", version=0, told_at=NOON
    )
    by_hand = [{"mode": "stream", "version": "x"}, {"mode": "stream", "version": 1, "told_at": "2026-11-23"}]
    assert last_told([backfilled, *by_hand]) is None


def test_an_event_is_due_by_the_schedule_and_no_earlier() -> None:
    told = Told(mode="stream", version=1, told_at=NOON)
    assert told.is_due(timedelta(minutes=15), NOON + timedelta(minutes=15))
    assert not told.is_due(timedelta(minutes=20), NOON + timedelta(minutes=15))
