"""New columns become the next version before their batch is committed, whichever driver finds them first."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import create_autospec

import pytest
from pyspark import SparkContext
from pyspark.accumulators import Accumulator

from tests.support.conf_project import ConfProject
from tidemill.checkpoint.source_schemas import add_source_schema, next_source_schema, source_schemas
from tidemill.engine.discovery import Discovery, known_columns
from tidemill.engine.half_written import StartAgainError
from tidemill.errors import DataError
from tidemill.ledger.entry import Code, LedgerEntry
from tidemill.payload.discovered import MAX_COLUMNS, DiscoveredColumns
from tidemill.payload.schema_hints import hinted_columns
from tidemill.spec.files_source import Evolution
from tidemill.spec.project import Pipeline
from tidemill.storage.store import Store

PIPELINE = """
description: Orders as they come.
owner: tests
source:
  files: {path: landing, format: json, schema_evolution: add_columns}
sinks:
  - delta: {table: bronze/orders, schema_evolution: add_columns}
"""
ENTRY = LedgerEntry(
    pipeline="orders",
    output="",
    mode="stream",
    run_id="run",
    batch_id=7,
    code=Code(tidemill="1", digest="d", spec="s"),
)


def found_of(ddl: str) -> Accumulator[dict[str, Any] | None]:
    told = create_autospec(Accumulator, instance=True)
    told.value = hinted_columns(ddl) if ddl else None
    return told


class Found:
    """A stream with version 1, `id long`, and the new columns of a batch."""

    def __init__(self, folder: Path) -> None:
        project = ConfProject(folder)
        project.write("conf/pipelines/orders.yaml", PIPELINE)
        self.pipeline: Pipeline = project.resolve()
        self.store = Store(self.pipeline.layout.root)
        self.keep("id long")

    def keep(self, ddl: str) -> None:
        before = self.versions()[-1] if self.versions() else None
        schema = next_source_schema(before, hinted_columns(ddl), ["by another driver"], "other", None)
        folder = self.pipeline.layout.source_schemas("orders", "source")
        assert add_source_schema(self.store, folder, schema)

    def versions(self) -> list[Any]:
        return source_schemas(self.store, self.pipeline.layout, "orders", "source")

    def discovery(self, ddl: str, evolution: Evolution = "add_columns") -> Discovery:
        columns = DiscoveredColumns(evolution, hinted_columns("id long"), 1, found_of(ddl))
        return Discovery(self.pipeline, self.store, "run", {"source": columns})


@pytest.fixture
def found(tmp_path: Path) -> Found:
    return Found(tmp_path)


@pytest.mark.parametrize("ddl", ["", "id string", "ID long"])
def test_a_batch_without_new_columns_is_committed(found: Found, ddl: str) -> None:
    found.discovery(ddl).check(ENTRY)
    assert len(found.versions()) == 1


def test_new_columns_are_kept_once_and_the_query_starts_again(found: Found) -> None:
    for _ in range(2):
        # Repeated by a driver that has not seen the new version: what is kept counts.
        with pytest.raises(StartAgainError):
            found.discovery("zone string").check(ENTRY)
        assert [(version.version, version.batch_id) for version in found.versions()] == [(1, None), (2, 7)]
    assert found.versions()[1].columns == hinted_columns("id long, zone string")


def test_what_another_driver_has_kept_is_not_passed_over(found: Found) -> None:
    found.keep("id long, floor long")
    with pytest.raises(StartAgainError):
        found.discovery("zone string").check(ENTRY)
    assert [version.run_id for version in found.versions()] == ["other", "other"]


@pytest.mark.parametrize("evolution", ["rescue", "none"])
def test_columns_that_are_not_wanted_are_not_added(found: Found, evolution: Evolution) -> None:
    found.discovery("zone string", evolution).check(ENTRY)
    assert len(found.versions()) == 1


def test_names_that_are_data_do_not_make_a_table_of_thousands_of_columns(found: Found) -> None:
    many = ", ".join(f"day{number} long" for number in range(MAX_COLUMNS))
    with pytest.raises(DataError) as refused:
        found.discovery(many).check(ENTRY)
    assert (refused.value.error_id, refused.value.facts["columns"]) == ("TIDE-DATA-007", MAX_COLUMNS + 1)
    assert len(found.versions()) == 1


def test_a_pipeline_that_never_ran_has_no_columns_to_plan_with(tmp_path: Path) -> None:
    project = ConfProject(tmp_path)
    project.write("conf/pipelines/orders.yaml", PIPELINE)
    pipeline = project.resolve()
    context = create_autospec(SparkContext, instance=True)
    with pytest.raises(DataError) as refused:
        known_columns(context, Store(pipeline.layout.root), pipeline)
    assert refused.value.error_id == "TIDE-DATA-008"


def test_a_backfill_adds_no_columns(found: Found) -> None:
    with pytest.raises(DataError) as refused:
        found.discovery("zone string").refuse_new()
    assert (refused.value.error_id, refused.value.facts["new"]) == ("TIDE-DATA-009", ["zone"])
    found.discovery("zone string", "rescue").refuse_new()
    found.discovery("").refuse_new()
    assert len(found.versions()) == 1
