"""Declared columns that files lack are reported, and names in files that are not columns."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any
from unittest.mock import create_autospec

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.accumulators import Accumulator

from tests.support.read_files import read_files
from tidemill.payload.files.file_columns import FileColumns


def parquet(**columns: list[Any]) -> bytes:
    stream = io.BytesIO()
    pq.write_table(pa.table(columns), stream)
    return stream.getvalue()


def reported(folder: Path, files: dict[str, bytes], source: dict[str, Any]) -> list[str]:
    """Notes of one pass of a task."""
    report = create_autospec(Accumulator, instance=True)
    read_files(folder, files, source, report=report)
    (call,) = report.add.call_args_list
    found: FileColumns = call.args[0]
    return found.notes(["id", "amount"])


PARQUET = {"format": "parquet", "schema": "id long, amount double"}
CSV = {"format": "csv", "schema": "id long, amount double", "options": {"header": True}}


@pytest.mark.parametrize(
    ("files", "source", "notes"),
    [
        (
            {"a": parquet(id=[1], amuont=[1.5]), "b": parquet(id=[2], amuont=[2.5])},
            PARQUET,
            [
                "no file of 2 has the column amount; did you mean amuont?",
                "files have names that are not columns: amuont",
            ],
        ),
        ({"a": parquet(id=[1], amount=[1.5], more=[1])}, PARQUET, []),
        (
            {"a": parquet(id=[1], amount=[1.5]), "b": parquet(id=[1])},
            PARQUET,
            ["1 of 2 files lack the column amount"],
        ),
        (
            {"a": b"id,amuont\n1,2\n", "b": b"id,amount,x\n1,2,3\n"},
            CSV,
            ["1 of 2 files lack the column amount", "files have names that are not columns: amuont, x"],
        ),
        ({"amount=1/a": b"id\n1\n"}, CSV, []),
    ],
    ids=["misspelt", "more columns", "older files", "headers", "a folder"],
)
def test_names_of_files_are_compared_with_the_columns(
    tmp_path: Path, files: dict[str, bytes], source: dict[str, Any], notes: list[str]
) -> None:
    assert reported(tmp_path, files, source) == notes


def test_a_large_file_is_counted_once(tmp_path: Path) -> None:
    content = b"id,amount\n" + b"1,2\n" * 100
    report = create_autospec(Accumulator, instance=True)
    read_files(tmp_path, {"a": content}, CSV, 50, report=report)
    assert report.add.call_args.args[0].files == 1
