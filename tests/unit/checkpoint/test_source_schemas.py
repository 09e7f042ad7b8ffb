"""Versions of discovered columns: each is made once, and never changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.declared import declared
from tidemill.checkpoint.inspect import inspect_checkpoint
from tidemill.checkpoint.source_schemas import (
    add_source_schema,
    copy_source_schemas,
    newest_source_schema,
    next_source_schema,
    source_schemas,
)
from tidemill.errors import DataError
from tidemill.names import Layout
from tidemill.storage.store import Store

COLUMNS = {"type": "object", "properties": {"id": {"type": "integer"}}}


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return declared(tmp_path).layout


@pytest.fixture
def store(layout: Layout) -> Store:
    return Store(layout.root)


def test_the_next_version_is_made_once_and_the_newest_counts(store: Store, layout: Layout) -> None:
    folder = layout.source_schemas("orders", "source")
    assert newest_source_schema(store, layout, "orders", "source") is None
    first = next_source_schema(None, COLUMNS, ["id"], "run-1", None)
    assert add_source_schema(store, folder, first)
    second = next_source_schema(first, COLUMNS, ["zone"], "run-1", 7)
    assert add_source_schema(store, folder, second)
    late = next_source_schema(first, COLUMNS, ["other"], "run-0", 7)
    assert not add_source_schema(store, folder, late)
    assert newest_source_schema(store, layout, "orders", "source") == second
    assert source_schemas(store, layout, "orders", "source") == [first, second]


def test_a_fork_gets_the_versions_of_its_origin_once(store: Store, layout: Layout) -> None:
    first = next_source_schema(None, COLUMNS, ["id"], "run-1", None)
    add_source_schema(store, layout.source_schemas("orders", "source"), first)
    for _ in range(2):
        copy_source_schemas(store, (layout, "orders"), (layout, "rehearsal"))
    assert source_schemas(store, layout, "rehearsal", "source") == [first]


def test_inspect_tells_the_versions(tmp_path: Path, store: Store, layout: Layout) -> None:
    first = next_source_schema(None, COLUMNS, ["id"], "run-1", None)
    add_source_schema(store, layout.source_schemas("orders", "source"), first)
    found = inspect_checkpoint(store, declared(tmp_path), "g0001", None, None)
    assert [(told.stream, told.version, told.added) for told in found.discovered] == [("source", 1, ("id",))]


@pytest.mark.parametrize("content", [b"", b"[]", b'{"v": 1, "version": "one"}'])
def test_a_damaged_version_is_an_error_and_no_other_columns(
    store: Store, layout: Layout, content: bytes
) -> None:
    store.write(f"{layout.source_schemas('orders', 'source')}/00000001.json", content)
    with pytest.raises(DataError) as damaged:
        newest_source_schema(store, layout, "orders", "source")
    assert damaged.value.error_id == "TIDE-STOR-001"
