"""Guarantees of every table writer: each batch once, with its ledger entry, despite crashes in between."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PythonException
from pyspark.sql import DataFrame

from tests.support.commits import commit_of
from tests.support.writer_cases import COLUMNS, CrashedError, WriterCase, crash_at
from tidemill.errors import GateRefusedError
from tidemill.ledger.read import read_ledger
from tidemill.names import transaction_id
from tidemill.sinks.batch_commit import Written

APP_ID = transaction_id("orders", "g0001", "bronze/orders")


def test_a_batch_is_appended_once(case: WriterCase) -> None:
    written = case.writer().write(case.frame((1, "a"), (2, "b"), (3, "c")), commit_of(0))
    assert written == Written(committed=True, rows=3, version=1)
    assert case.rows() == [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}, {"id": 3, "name": "c"}]


@pytest.mark.parametrize(
    "left",
    [
        pytest.param("", id="nothing", marks=pytest.mark.soak),
        pytest.param(".00000000000000000000.json.8f2c.tmp", id="a hidden file"),
    ],
)
def test_a_driver_that_was_killed_while_it_made_the_table_leaves_nothing_in_the_way(
    case: WriterCase, left: str
) -> None:
    log = case.path / "_delta_log"
    log.mkdir(parents=True)
    if left:
        (log / left).write_text('{"commitInfo"')
    case.writer().write(case.frame((1, "a")), commit_of(0))
    assert case.ids() == [1]


def test_batches_follow_each_other_through_one_writer(case: WriterCase) -> None:
    writer = case.writer()
    for batch_id in range(3):
        writer.write(case.frame((batch_id, "x")), commit_of(batch_id))
    assert case.ids() == [0, 1, 2]
    assert case.table.transaction_version(APP_ID) == 2


def test_a_repeated_batch_writes_nothing_and_says_so(case: WriterCase) -> None:
    case.writer().write(case.frame((1, "a")), commit_of(0))
    files = set(case.path.rglob("*"))
    again = case.writer().write(case.frame((1, "a")), commit_of(0, driver="driver-2"))
    assert again == Written(committed=False)
    assert set(case.path.rglob("*")) == files


def test_the_ledger_entry_is_in_the_commit_of_the_rows(case: WriterCase) -> None:
    commit = commit_of(7)
    case.writer().write(case.frame((1, "a"), (2, "b")), commit)
    (newest,) = read_ledger(str(case.path))
    assert newest.entry is not None
    assert newest.entry.model_copy(update={"rows": None}) == commit.entry
    assert (newest.version, newest.rows) == (1, 2)
    history = case.spark.sql(f"DESCRIBE HISTORY delta.`{case.path}` LIMIT 1").collect()
    assert history[0]["userMetadata"] == newest.entry.to_text()


def test_an_empty_batch_commits_its_transaction_and_no_file(case: WriterCase) -> None:
    writer = case.writer()
    writer.write(case.frame((1, "a")), commit_of(0))
    files = case.data_files()
    written = writer.write(case.frame((1, "a")).where("false"), commit_of(1))
    assert (written.committed, written.version) == (True, 2)
    assert (case.table.transaction_version(APP_ID), case.data_files()) == (1, files)
    assert case.writer().write(case.frame((2, "b")), commit_of(1)) == Written(committed=False)


def test_an_empty_first_batch_makes_the_table(case: WriterCase) -> None:
    case.writer().write(case.frame((1, "a")).where("false"), commit_of(0))
    assert [field.name for field in case.table.schema().fields] == ["id", "name"]
    assert case.table.transaction_version(APP_ID) == 0
    assert case.rows() == []


def test_only_rows_of_the_condition_are_written(case: WriterCase) -> None:
    rows = case.frame((1, "a"), (2, None), (3, "c")).where("name <> 'a'")
    assert case.writer().write(rows, commit_of(0)).rows == 1
    assert case.ids() == [3]


def test_a_crash_before_the_commit_and_a_repeat_write_the_batch_once(case: WriterCase) -> None:
    """The second task fails when the first has written its file, which belongs to no version."""
    frame = case.frame((1, "a"), (2, "b"), (3, "c"), (4, "d"))
    case.writer().write(frame.where("false"), commit_of(0))
    with pytest.raises((PythonException, Py4JJavaError)):
        case.writer().write(failing_after(frame, case.path), commit_of(1))
    assert (case.table.version(), case.rows()) == (1, [])
    assert case.writer().write(frame, commit_of(1, driver="driver-2")).rows == 4
    assert case.ids() == [1, 2, 3, 4]


def failing_after(frame: DataFrame, table: Path) -> DataFrame:
    """Return the frame's rows; its last task fails after another task has written its data file."""
    folder = str(table)

    def fail_last(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        from tests.support.eventually import eventually

        context = TaskContext.get()
        yield from batches
        if context is not None and context.partitionId() == 1:
            eventually(lambda: list(Path(folder).glob("*.parquet")), "another task's file is there")
            raise OSError("the machine went away")

    return frame.mapInArrow(fail_last, frame.schema)


def test_a_crash_between_files_and_commit_leaves_only_files_that_nothing_refers_to(
    arrow_case: WriterCase,
) -> None:
    frame = arrow_case.frame((1, "a"), (2, "b"))
    with pytest.raises(CrashedError):
        arrow_case.writer(crash_at("files_written")).write(frame, commit_of(0))
    left = {path.name for path in arrow_case.path.glob("*.parquet")}
    assert left
    assert arrow_case.rows() == []
    assert arrow_case.writer().write(frame, commit_of(0, driver="driver-2")).rows == 2
    assert arrow_case.ids() == [1, 2]
    assert arrow_case.data_files().isdisjoint(left)


def test_a_crash_after_the_commit_and_a_repeat_write_the_batch_once(case: WriterCase) -> None:
    frame = case.frame((1, "a"), (2, "b"))
    with pytest.raises(CrashedError):
        case.writer(crash_at("committed")).write(frame, commit_of(0))
    assert case.writer().write(frame, commit_of(0, driver="driver-2")) == Written(committed=False)
    assert case.ids() == [1, 2]


@pytest.mark.parametrize(
    "made_again",
    [pytest.param(False, id="gone", marks=pytest.mark.soak), pytest.param(True, id="made again")],
)
def test_a_table_dropped_between_two_batches_gets_no_further_one(case: WriterCase, made_again: bool) -> None:
    writer = case.writer()
    for batch_id in range(3):
        writer.write(case.frame((batch_id, "x")), commit_of(batch_id))
    shutil.rmtree(case.path)
    if made_again:
        case.frame((100, "by hand")).write.format("delta").save(str(case.path))
    with pytest.raises(GateRefusedError) as refused:
        writer.write(case.frame((3, "x")), commit_of(3))
    assert (refused.value.error_id, refused.value.facts["batch_id"]) == ("TIDE-SINK-006", 2)
    assert (case.ids() if made_again else list(case.path.parent.iterdir())) == ([100] if made_again else [])


def test_nested_binary_and_decimal_columns_are_written_as_they_are(case: WriterCase) -> None:
    columns = (
        "id long, tags map<string,int>, places array<struct<x:double,y:double>>, raw binary, "
        "price decimal(12,2), day date, at timestamp, local timestamp_ntz, ok boolean, small tinyint, "
        "real float"
    )
    frame = case.spark.sql(
        "SELECT 1L AS id, map('a', 1) AS tags, array(named_struct('x', 1.5D, 'y', -2D)) AS places, "
        "X'00FF' AS raw, CAST(-12.34 AS decimal(12,2)) AS price, DATE'1969-07-20' AS day, "
        "TIMESTAMP'1969-07-20 20:17:40.123456Z' AS at, TIMESTAMP_NTZ'2024-03-31 02:30:00' AS local, "
        "true AS ok, CAST(-1 AS tinyint) AS small, CAST(0.1 AS float) AS real"
    )
    case.writer(columns=columns).write(frame, commit_of(0))
    assert case.rows() == [row.asDict(recursive=True) for row in frame.collect()]


def test_a_writer_goes_on_with_a_table_that_the_other_writer_made(
    case: WriterCase, other_case: WriterCase
) -> None:
    columns = COLUMNS + ", at timestamp, price decimal(12,2), places array<struct<x:double>>"
    empty = case.spark.createDataFrame([], columns)
    case.writer(columns=columns).write(empty, commit_of(0))
    row = case.spark.sql(
        "SELECT 1L AS id, 'a' AS name, now() AS at, 1.5BD AS price, array(named_struct('x', 1D))"
    )
    row = case.spark.createDataFrame(row.rdd, columns)
    assert other_case.writer(columns=columns).write(row, commit_of(1)).committed
    assert case.ids() == [1]


def test_what_either_writer_writes_delta_rs_reads(case: WriterCase) -> None:
    case.writer().write(case.frame((1, "a")), commit_of(0))
    (file,) = case.table.file_uris()
    assert pq.read_table(file).to_pylist() == [{"id": 1, "name": "a"}]
