"""`tidemill ledger`, `query` and `watch` of a pipeline whose sink is a folder of files."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.command_line import CommandLine
from tests.support.conf_project import ConfProject
from tests.support.files_folders import claim_of, entry_of

LAYOUT = "{} by (day) of id int64, name string, at timestamp[us, tz=UTC], day date32[day]"


def declare(project: ConfProject, kind: str, more: str = "", path: str = "exports/orders") -> None:
    project.replace(
        "  - delta: {table: bronze/orders}",
        f"  - files: {{path: '{path}', format: {kind}, partition_by: [day]{more}}}",
    )


def folder_of(project: ConfProject, kind: str, more: str = "") -> Path:
    declare(project, kind, more)
    folder = project.folder / ".data/exports/orders"
    for day in ("2026-01-01", "2026-01-02"):
        (folder / f"day={day}").mkdir(parents=True)
    return folder


@pytest.fixture
def parquet(project: ConfProject) -> Path:
    """Return two batches in the log, and a file of a batch that is being written."""
    folder = folder_of(project, "parquet")
    times = pa.array([datetime(2026, 1, 1, tzinfo=UTC)], pa.timestamp("us", "UTC"))
    for file, number in (("day=2026-01-01/a", 1), ("day=2026-01-02/b", 2), ("day=2026-01-02/c", 3)):
        rows = pa.table({"id": [number], "name": [f"n{number}"], "at": times})
        pq.write_table(rows, folder / f"{file}.parquet", use_deprecated_int96_timestamps=True)
    entry_of(folder, "0", "day=2026-01-01/a.parquet")
    entry_of(folder, "1", "day=2026-01-02/b.parquet")
    claim_of(folder, LAYOUT.format("parquet"))
    return folder


def test_a_query_reads_the_files_that_the_log_names(tidemill: CommandLine, parquet: Path) -> None:
    sql = 'SELECT id, name, at, day FROM files."exports/orders" ORDER BY id'
    assert tidemill.json("query", sql) == [
        {"id": 1, "name": "n1", "at": "2026-01-01T00:00:00+00:00", "day": "2026-01-01"},
        {"id": 2, "name": "n2", "at": "2026-01-01T00:00:00+00:00", "day": "2026-01-02"},
    ]
    assert tidemill("query", sql) == 0
    assert tidemill.out.splitlines()[-1] == "2 rows of files.exports/orders v1"
    assert tidemill.json("query", "SELECT 'files.orders' AS said") == [{"said": "files.orders"}]


def test_a_folder_that_no_pipeline_writes_is_refused_with_the_near_one(
    tidemill: CommandLine, parquet: Path
) -> None:
    assert tidemill("query", 'SELECT * FROM files."exports/order"') == 2
    assert "TIDE-QUERY-002" in tidemill.err
    assert "did you mean files.exports/orders?" in tidemill.err


def test_the_ledger_has_each_batch_with_its_files(tidemill: CommandLine, parquet: Path) -> None:
    newest, first = tidemill.json("ledger", "orders")
    assert (newest["table"], newest["batch_id"], newest["generation"]) == ("files:exports/orders", 1, "g0001")
    assert newest["files"] == ["day=2026-01-02/b.parquet"]
    assert (first["batch_id"], first["bytes"]) == (0, (parquet / "day=2026-01-01/a.parquet").stat().st_size)
    assert tidemill("ledger", "orders") == 0
    assert "files:exports/orders" in tidemill.out


@pytest.mark.parametrize("spelled", ["file://{root}/exports/orders", "./exports//orders/"])
def test_a_folder_is_found_however_its_path_is_spelled(
    tidemill: CommandLine, project: ConfProject, parquet: Path, spelled: str
) -> None:
    path = spelled.format(root=project.folder / ".data")
    declare(project, "parquet", path=path)
    assert tidemill.json("ledger", "orders")[0]["table"] == f"files:{path}"
    assert tidemill.json("query", f'SELECT count(*) AS n FROM files."{path}"') == [{"n": 2}]


def test_of_batches_that_spark_has_compacted_the_ledger_has_one_line(
    tidemill: CommandLine, parquet: Path
) -> None:
    entry_of(parquet, "9.compact", "day=2026-01-01/a.parquet", "day=2026-01-02/b.parquet")
    entry_of(parquet, "10", "day=2026-01-02/c.parquet")
    # While the old entries exist, each batch has its own files.
    assert [one["batch_id"] for one in tidemill.json("ledger", "orders")] == [10, 9, 1, 0]
    for old in ("0", "1"):
        (parquet / "_spark_metadata" / old).unlink()
    newest, before = tidemill.json("ledger", "orders")
    assert (newest["batch_id"], newest["first_batch"], len(newest["files"])) == (10, 10, 1)
    assert (before["batch_id"], before["first_batch"], len(before["files"])) == (9, 0, 2)


def test_watch_shows_the_newest_rows_of_a_folder(tidemill: CommandLine, parquet: Path) -> None:
    assert tidemill("watch", "orders", "--once", "--x", "id") == 0
    assert "files:exports/orders version 1" in tidemill.out
    assert "n2" in tidemill.out
    assert "n3" not in tidemill.out


def test_json_and_csv_are_read_as_spark_writes_them(tidemill: CommandLine, project: ConfProject) -> None:
    folder = folder_of(project, "json")
    (folder / "day=2026-01-01/a.json").write_text(
        '{"id":1,"at":"2026-01-01T00:00:00.000Z"}\n{"id":2,"name":""}\n'
    )
    entry_of(folder, "0", "day=2026-01-01/a.json")
    claim_of(folder, LAYOUT.format("json"))
    rows = [
        {"id": 1, "name": None, "at": "2026-01-01T00:00:00+00:00", "day": "2026-01-01"},
        {"id": 2, "name": "", "at": None, "day": "2026-01-01"},
    ]
    sql = 'SELECT id, name, at, day FROM files."exports/orders" ORDER BY id'
    assert tidemill.json("query", sql) == rows
    declare(project, "csv")
    (folder / "day=2026-01-01/a.csv").write_text('1,,2026-01-01T00:00:00.000Z\n2,"",\n3,"a\\"b,c",\n')
    entry_of(folder, "0", "day=2026-01-01/a.csv")
    claim_of(folder, LAYOUT.format("csv"))
    third = {"id": 3, "name": 'a"b,c', "at": None, "day": "2026-01-01"}
    assert tidemill.json("query", sql) == [*rows, third]


def test_files_with_options_that_only_spark_knows_are_refused(
    tidemill: CommandLine, project: ConfProject
) -> None:
    folder = folder_of(project, "csv", ", options: {quote: '|'}")
    (folder / "day=2026-01-01/a.csv").write_text("1,|x|,\n")
    entry_of(folder, "0", "day=2026-01-01/a.csv")
    claim_of(folder, LAYOUT.format("csv"))
    assert tidemill("query", 'SELECT * FROM files."exports/orders"') == 2
    assert "TIDE-QUERY-007" in tidemill.err


def test_a_log_that_cannot_be_read_is_refused(tidemill: CommandLine, parquet: Path) -> None:
    (parquet / "_spark_metadata/1").write_text("v1\n{broken")
    assert tidemill("ledger", "orders") == 1
    assert "TIDE-LEDG-002" in tidemill.err
