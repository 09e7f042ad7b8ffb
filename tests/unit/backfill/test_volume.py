"""Bytes of a plan: exact if files have them, otherwise estimated or unknown."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.support.declared import declared
from tidemill.backfill.bounds import Bounds
from tidemill.backfill.plan import BackfillPlan
from tidemill.backfill.rule import By
from tidemill.backfill.volume import TableSize, Volume, volume_of
from tidemill.spec.readable import readable_size

PLAN = BackfillPlan(pipeline="orders", definition="d", bounds=Bounds(), by="record")


def test_a_table_is_as_large_as_the_files_of_its_newest_version(tmp_path: Path) -> None:
    path = str(tmp_path / "data/tables/bronze/orders")
    for first in (0, 100):
        write_deltalake(path, pa.table({"id": list(range(first, first + 100))}), mode="append")
    DeltaTable(path).optimize.compact()
    pipeline = declared(tmp_path)
    sizes = [file.stat().st_size for file in map(Path, DeltaTable(path).file_uris())]
    positions = {"start_offsets": {"orders": {"0": 0}}, "end_offsets": {"orders": {"0": 50}}}
    found = volume_of(pipeline, PLAN.model_copy(update=positions))
    assert found == Volume(None, 50, (TableSize("bronze/orders", 200, sum(sizes)),))
    document = found.as_document()
    assert document["write_bytes_estimate"] == round(50 * sum(sizes) / 200)
    assert document["read_bytes_at_most"] is None
    (line,) = found.lines()
    assert "estimated" in line


@pytest.mark.parametrize("by", ["window", "everything"])
def test_rows_of_many_records_are_not_counted_by_their_records(tmp_path: Path, by: By) -> None:
    write_deltalake(str(tmp_path / "data/tables/bronze/orders"), pa.table({"id": list(range(10))}))
    positions = {"start_offsets": {"orders": {"0": 0}}, "end_offsets": {"orders": {"0": 100_000}}}
    found = volume_of(declared(tmp_path), PLAN.model_copy(update={"by": by, **positions}))
    (table,) = found.tables
    assert found.lines() == [
        f"  bytes     write: bronze/orders: {readable_size(table.size)} for all of its 10 rows now"
    ]
    assert found.as_document()["write_bytes_estimate"] is None


def test_files_and_tables_tell_how_much_there_is_to_read(tmp_path: Path) -> None:
    landing = tmp_path / "data/landing"
    landing.mkdir(parents=True)
    (landing / "0.json").write_bytes(b"x" * 1500)
    files = {"files": {"path": "landing", "format": "json", "schema": "id long"}}
    pipeline = declared(tmp_path, source=files)
    found = volume_of(pipeline, PLAN)
    assert (found.read, found.tables) == (1500, (TableSize("bronze/orders", None, 0),))
    assert found.as_document()["write_bytes_estimate"] is None
    assert "read: 1.5 kB at most" in found.lines()[0]
    assert "unknown" in found.lines()[1]
