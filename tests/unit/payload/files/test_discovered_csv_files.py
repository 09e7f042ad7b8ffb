"""CSV files whose columns are discovered: a value is in the column of its name, or is rescued."""

from __future__ import annotations

import csv
import io
import json
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import create_autospec

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.accumulators import Accumulator

from tests.support.read_files import Decoded, read_discovered
from tidemill.payload.csv_fields import CsvDialect, CsvSplitter
from tidemill.payload.csv_values import CsvValues
from tidemill.payload.discovered import CsvForm, DiscoveredColumns
from tidemill.payload.files.byte_ranges import BLOCK_BYTES, FileRange
from tidemill.payload.files.csv_records import CsvCutter, cut_csv
from tidemill.payload.files.discovered_records import MAX_CSV_BYTES, inferred_from
from tidemill.payload.inferred_schema import Node, all_merged, extended
from tidemill.payload.schema_hints import hinted_columns
from tidemill.storage.object_stores import NO_ACCESS

NOTHING: Node = {"type": "object", "properties": {}}
COLUMNS = hinted_columns("id long, price double, on boolean, name string")
FORM = CsvForm(",")
NO_FILE = FileRange("file:/a", "file:/a", datetime(2026, 3, 1, tzinfo=UTC), 0, 0, 0, None, NO_ACCESS)

Row = dict[str, Any]


def read(
    folder: Path,
    *contents: str | bytes,
    columns: Node = COLUMNS,
    form: CsvForm = FORM,
    evolution: Any = "rescue",
) -> Decoded:
    """Decode the files `0`, `1` and so on."""
    reported = create_autospec(Accumulator, instance=True)
    discovered = DiscoveredColumns(evolution, columns, 1, reported, form)
    files = [content.encode() if isinstance(content, str) else content for content in contents]
    return read_discovered(folder, {str(number): file for number, file in enumerate(files)}, discovered)


def good(folder: Path, *contents: str | bytes, **given: Any) -> list[tuple[Row, Row | None]]:
    """Return the columns without nulls, and the rescued data with only the name of the file."""
    found = read(folder, *contents, **given)
    assert found.rejected == []
    return [kept_and_rescued(row) for row in found.rows]


def kept_and_rescued(row: Row) -> tuple[Row, Row | None]:
    rescued = json.loads(row["_rescued_data"]) if row.get("_rescued_data") else None
    if rescued is not None:
        rescued["_file_path"] = rescued["_file_path"].rpartition("/")[2]
    return {n: v for n, v in row.items() if v is not None and n != "_rescued_data"}, rescued


def bad(folder: Path, content: str | bytes, **given: Any) -> list[tuple[int | None, str, bytes | None]]:
    return [(each.line, each.reason, each.value) for each in read(folder, content, **given).rejected]


def test_names_decide_and_not_places(tmp_path: Path) -> None:
    assert good(tmp_path, "id,price,name\n1,1.5,a\n", "name,id,price\nb,2,2.5\n", "name\nc\n") == [
        ({"id": 1, "price": 1.5, "name": "a"}, None),
        ({"id": 2, "price": 2.5, "name": "b"}, None),
        ({"name": "c"}, None),
    ]


@pytest.mark.parametrize(
    ("column", "text", "value"),
    [
        ("id", "7", 7),
        ("id", "-9223372036854775808", -(2**63)),
        ("id", "9223372036854775808", None),
        ("id", "007", None),
        ("id", "+7", None),
        ("id", "7.0", None),
        ("id", " 7", None),
        ("id", "-0", None),
        ("price", "2", 2.0),
        ("price", "2.0", 2.0),
        ("price", "0.30000000000000004", 0.1 + 0.2),
        ("price", "1e-05", 1e-05),
        ("price", "2.50", None),
        ("price", "1e5", None),
        ("price", "12345678901234567", None),
        ("price", "NaN", None),
        ("price", "1e999", None),
        ("on", "true", True),
        ("on", "True", None),
        ("on", "1", None),
        ("name", "007", "007"),
        ("name", "true", "true"),
        ("name", '"a ""b"", \\ \t\r\n☃\x01"', 'a "b", \\ \t\r\n☃\x01'),
        ("name", '""', ""),
        ("name", " a ", " a "),
        ("id", '""', None),
    ],
)
def test_a_value_fits_its_column_if_nothing_of_its_text_is_lost(
    tmp_path: Path, column: str, text: str, value: object
) -> None:
    [(row, rescued)] = good(tmp_path, f"{column},x\n{text},\n")
    plain = "" if text == '""' else text
    expected = ({}, {column: plain, "_file_path": "0"}) if value is None else ({column: value}, None)
    assert (row, rescued) == expected


def test_a_hint_at_double_takes_each_number_of_json(tmp_path: Path) -> None:
    lines = "price\n2.50\n1e5\n12345678901234567\n,5\n.5\n".replace(",5", "x")
    found = good(tmp_path, lines, form=CsvForm(",", ("price",)))
    assert [row.get("price") for row, _ in found] == [2.5, 1e5, 12345678901234567.0, None, None]
    assert [rescued["price"] for _, rescued in found if rescued] == ["x", ".5"]


def test_an_empty_field_is_null_and_a_record_of_nothing_is_a_row(tmp_path: Path) -> None:
    assert good(tmp_path, "id,name\n,\n1,\n") == [({}, None), ({"id": 1}, None)]


def test_what_has_no_column_is_rescued_by_its_name(tmp_path: Path) -> None:
    [(row, rescued)] = good(tmp_path, 'id,ID,a b,new\n1,2,"c",007\n')
    assert (row, rescued) == ({"id": 1}, {"ID": 2, "a b": "c", "new": "007", "_file_path": "0"})


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        (b"id,,name", "bad_header:empty_name"),
        (b'id,""', "bad_header:empty_name"),
        (b"id,name,", "bad_header:empty_name"),
        (b"id,name,id", "bad_header:repeated_name:id"),
        (b"1,2.5,a", "bad_header:no_known_name"),
        (b"id,\xff", "bad_header:invalid_utf8"),
        (b'id,"name', "bad_header:malformed_csv"),
        (b"id\rname", "bad_header:malformed_csv"),
    ],
)
def test_a_file_whose_header_names_no_columns_is_rejected_with_each_line(
    tmp_path: Path, header: bytes, reason: str
) -> None:
    assert bad(tmp_path, header + b"\n1,2\n\n3\n") == [
        (1, reason, header),
        (2, reason, b"1,2"),
        (4, reason, b"3"),
    ]


def test_a_name_in_another_case_is_a_name_that_is_known(tmp_path: Path) -> None:
    assert good(tmp_path, "ID\n7\n") == [({}, {"ID": 7, "_file_path": "0"})]


def test_broken_records_are_rejected_each_by_itself_with_its_line(tmp_path: Path) -> None:
    lines = [
        b"id,name",
        b"1,a",
        b"2",
        b"3,c,d",
        b'4,"two',
        b'lines"',
        b'5,"open',
        b"6,f",
        b"7,\xff",
        b'8,"h"h',
        b"9,i\r",
        b'10,"last',
    ]
    content = b"\n".join(lines)
    assert bad(tmp_path, content) == [
        (3, "wrong_field_count", b"2"),
        (4, "wrong_field_count", b"3,c,d"),
        (7, "malformed_csv", b'5,"open'),
        (9, "invalid_utf8", b"7,\xff"),
        (10, "malformed_csv", b'8,"h"h'),
        (12, "malformed_csv", b'10,"last'),
    ]
    rows = [(row["id"], row["name"]) for row in read(tmp_path, content).rows]
    assert rows == [(1, "a"), (4, "two\nlines"), (6, "f"), (9, "i")]


def test_without_evolution_a_value_of_another_type_rejects_its_line_as_it_stands(tmp_path: Path) -> None:
    content = "id,new\n1,x\n007,y\n"
    assert bad(tmp_path, content, evolution="none") == [(3, "wrong_type:id", b"007,y")]


def test_too_long_a_record_is_rejected(tmp_path: Path) -> None:
    long = b"1," + b"x" * MAX_CSV_BYTES
    assert [reason for _, reason, _ in bad(tmp_path, b"id,name\n" + long + b"\n2,b\n")] == ["oversized"]
    [(line, reason, _)] = bad(tmp_path, b"id," + b"x" * BLOCK_BYTES)
    assert (line, reason) == (1, "bad_header:oversized")


def test_the_records_of_a_long_file_are_read_in_pieces(tmp_path: Path) -> None:
    count = 300
    lines = [f"{number},{'x' * (BLOCK_BYTES // 100)}" for number in range(count)]
    found = read(tmp_path, "id,name\n" + "\n".join(lines))
    assert [row["id"] for row in found.rows] == list(range(count))


@pytest.mark.parametrize("content", [b"", b"\n\n", b"\xef\xbb\xbf", b"id,name\n"])
def test_a_file_without_records_gives_none(tmp_path: Path, content: bytes) -> None:
    found = read(tmp_path, content)
    assert (found.rows, found.rejected) == ([], [])


def test_a_byte_order_mark_and_lines_of_windows_are_no_part_of_names_and_values(tmp_path: Path) -> None:
    assert good(tmp_path, b"\xef\xbb\xbfid,name\r\n1,a\r\n") == [({"id": 1, "name": "a"}, None)]


def test_lines_in_quotes_are_never_records_however_many_they_are(tmp_path: Path) -> None:
    """Otherwise, the author of a field's text could put records into a table."""
    text = "hello\n" + "a line of a log\n" * 2000 + "999,forged\nbye"
    assert good(tmp_path, f'id,name\n1,"{text}"\n2,ok\n'.encode()) == [
        ({"id": 1, "name": text}, None),
        ({"id": 2, "name": "ok"}, None),
    ]


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (b'1,"x\n999,forged\nz",extra', "wrong_field_count"),
        (b'1,"x\n999,forged\n\xff"', "invalid_utf8"),
        (b'1,"' + b"x" * MAX_CSV_BYTES + b'\n999,forged\n"', "oversized"),
    ],
    ids=["too_wide", "no_utf8", "too_long"],
)
def test_a_record_that_is_rejected_is_rejected_with_its_lines_in_quotes(
    tmp_path: Path, record: bytes, reason: str
) -> None:
    found = read(tmp_path, b"id,name\n" + record + b"\n2,ok\n")
    assert [row["id"] for row in found.rows] == [2]
    assert found.reasons == [reason]


class _LooksAt(CsvSplitter):
    """Remembers how much it looked at, and takes nothing for a record."""

    def __init__(self) -> None:
        super().__init__(CsvDialect())
        self.bytes = 0

    def is_record(self, value: bytes) -> bool:
        self.bytes += len(value)
        return False


def test_stray_quotes_cost_their_own_lines_and_one_look_at_the_next() -> None:
    lines = b"".join(b'%d,"open\n' % number for number in range(20_000))
    splitter = _LooksAt()
    assert len(cut_csv(splitter)(lines, True).values) == 20_000
    assert splitter.bytes < 3 * len(lines)


def test_columns_are_inferred_from_all_records_of_all_files(tmp_path: Path) -> None:
    files = [
        b"id,price,code,on,both,none\n1,1.5,007,true,1,\n2,2,8,false,true,\n",
        b"price,id\n3,9\n",
        b"id,id\nx,y\n",
        b"id\nx,y\n",
    ]
    cutter = CsvCutter(CsvSplitter(CsvDialect()), frozenset())
    pieces = [piece for file in files for piece in cutter.records(NO_FILE, [file], 0)]
    found = all_merged(inferred_from(piece, FORM) for piece in pieces)
    kinds = {"id": "integer", "price": "number", "code": "string", "on": "boolean", "both": "string"}
    assert extended(NOTHING, found)["properties"] == {name: {"type": kind} for name, kind in kinds.items()}


@pytest.mark.parametrize("texts", [[None, "1", None], [None], [], ["a", None]])
def test_a_record_of_nulls_is_an_object(texts: list[str | None]) -> None:
    array = pa.array(texts, pa.string())
    lines = CsvValues(NOTHING, ()).lines(["a", "b"], [array, array]).to_pylist()
    assert [json.loads(line) == {} for line in lines] == [text is None for text in texts]


TEXTS = st.sampled_from(
    ["", "1", "007", "1.5", "1.50", "true", "x", 'a"b', "a,b", "a\nb", "1e5", "-0", "é\\"]
)
TABLES = st.permutations(["id", "price", "on", "name", "ID", "new"]).flatmap(
    lambda names: st.lists(st.lists(TEXTS, min_size=6, max_size=6), max_size=5).map(
        lambda rows: (names, rows)
    )
)


@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(table=TABLES)
def test_no_value_is_lost_whatever_the_order_of_columns(
    tmp_path: Path, table: tuple[list[str], list[list[str]]]
) -> None:
    names, records = table
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([names, *records])
    found = good(tmp_path, text.getvalue())
    kept = [{**(rescued or {}), **row} for row, rescued in found]
    assert sorted(map(_as_written, kept)) == sorted(map(partial(_expected, names), records))


def _as_written(kept: Row) -> list[tuple[str, str]]:
    return sorted((name, _written(value)) for name, value in kept.items() if name != "_file_path")


def _expected(names: list[str], record: list[str]) -> list[tuple[str, str]]:
    values = {name: value for name, value in zip(names, record, strict=True) if value}
    # An integer in a column of doubles.
    if values.get("price") == "1":
        values["price"] = "1.0"
    return sorted(values.items())


def _written(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)
