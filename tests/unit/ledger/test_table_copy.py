"""A copied table: its files are its rows, or there is no copy."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.support.delta_logs import write_log
from tidemill.errors import GateRefusedError
from tidemill.ledger.entry import Code, LedgerEntry
from tidemill.ledger.table_copy import TableCopy, copy_table, size_of
from tidemill.storage.store import Store

MAPPED = json.dumps(
    {
        "type": "struct",
        "fields": [
            {
                "name": "id",
                "type": "long",
                "nullable": True,
                "metadata": {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "col-1"},
            }
        ],
    }
)
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC).replace(tzinfo=None)
BASE = LedgerEntry(
    pipeline="orders",
    output="bronze/orders",
    mode="base",
    run_id="r",
    rows=0,
    code=Code(tidemill="0", digest="d", spec="s"),
)


@pytest.mark.parametrize(("with_rows", "ids"), [(True, [1, 2]), (False, [])])
def test_a_copy_has_the_columns_and_partitions_of_its_origin_and_its_rows_if_they_are_wanted(
    tmp_path: Path, with_rows: bool, ids: list[int]
) -> None:
    origin, target = str(tmp_path / "origin"), str(tmp_path / "copy")
    write_deltalake(origin, pa.table({"id": [1, 2], "day": ["a", "b"]}), partition_by=["day"])
    copy_table(Store(str(tmp_path)), TableCopy(origin, 0, target, BASE, with_rows))
    copied = DeltaTable(target)
    assert sorted(copied.to_pyarrow_table()["id"].to_pylist()) == ids
    assert copied.metadata().partition_columns == ["day"]
    assert [field.name for field in copied.schema().fields] == ["id", "day"]
    assert copied.version() == 1


def test_a_table_with_timestamps_without_a_zone_is_copied(tmp_path: Path) -> None:
    origin, target = str(tmp_path / "origin"), str(tmp_path / "copy")
    write_deltalake(origin, pa.table({"at": [NOON]}))
    assert DeltaTable(origin).protocol().reader_features == ["timestampNtz"]
    copy_table(Store(str(tmp_path)), TableCopy(origin, 0, target, BASE))
    assert DeltaTable(target).to_pyarrow_table()["at"].to_pylist() == [NOON]


@pytest.mark.parametrize(
    ("protocol", "configuration", "named"),
    [
        (
            {"minReaderVersion": 2, "minWriterVersion": 5},
            {"delta.columnMapping.mode": "name"},
            "columnMapping",
        ),
        (
            {
                "minReaderVersion": 3,
                "minWriterVersion": 7,
                "readerFeatures": ["columnMapping", "deletionVectors"],
                "writerFeatures": ["columnMapping", "deletionVectors"],
            },
            {"delta.columnMapping.mode": "name"},
            "columnMapping, deletionVectors",
        ),
    ],
)
def test_a_table_whose_files_are_not_its_rows_is_not_copied(
    tmp_path: Path, protocol: dict[str, object], configuration: dict[str, str], named: str
) -> None:
    origin = tmp_path / "origin"
    write_log(origin, [])
    file = origin / "_delta_log" / f"{0:020}.json"
    actions = [json.loads(line) for line in file.read_text().splitlines()]
    for action in actions:
        if "protocol" in action:
            action["protocol"] = protocol
        if "metaData" in action:
            action["metaData"]["configuration"] = configuration
            action["metaData"]["schemaString"] = MAPPED
    file.write_text("".join(json.dumps(action) + "\n" for action in actions))
    with pytest.raises(GateRefusedError) as refused:
        size_of(str(origin), 0)
    assert (refused.value.error_id, refused.value.facts["features"]) == ("TIDE-CKPT-078", named)
