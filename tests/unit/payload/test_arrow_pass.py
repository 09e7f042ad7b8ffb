"""State that a pass of Python leaves in its worker."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pyarrow as pa
import pytest

from tidemill.payload import arrow_pass


@pytest.fixture(autouse=True)
def thawed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(arrow_pass._FROZEN, "modules", 0)
    yield
    gc.unfreeze()


def test_a_task_freezes_the_modules_of_its_worker_once_it_has_given_all_rows() -> None:
    batch = pa.record_batch({"id": [1]})
    rows = arrow_pass._settling(lambda batches: batches)(iter([batch]))
    assert next(rows) is batch
    assert gc.get_freeze_count() == 0
    assert list(rows) == []
    assert gc.get_freeze_count() > 0


def test_what_later_tasks_make_is_still_collected(monkeypatch: pytest.MonkeyPatch) -> None:
    arrow_pass.freeze_modules()
    frozen = gc.get_freeze_count()
    made: list[object] = [[]]
    arrow_pass.freeze_modules()
    assert any(one is made for one in gc.get_objects())
    # Frozen objects may have been released since.
    assert gc.get_freeze_count() <= frozen
    # A task has imported a module more.
    monkeypatch.setitem(arrow_pass._FROZEN, "modules", arrow_pass._FROZEN["modules"] - 1)
    before = gc.get_freeze_count()
    arrow_pass.freeze_modules()
    assert gc.get_freeze_count() > before
