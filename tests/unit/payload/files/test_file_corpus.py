"""The corpus of files: each file becomes rows and rejected records, or is rejected as a whole, by name."""

from __future__ import annotations

import bz2
import errno
import gzip
import io
import lzma
import os
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from tests.support.read_files import Rejected, files_pipeline, read_files
from tidemill.errors import DataError, TidemillError, UnavailableError
from tidemill.payload.decoder import Decoded
from tidemill.payload.files import reading
from tidemill.payload.files.byte_ranges import FileRange
from tidemill.payload.files.columnar import _find_time_zones
from tidemill.payload.files.readers import file_reader
from tidemill.payload.files.reading import FilePiece
from tidemill.payload.files.records import FileRejectedError
from tidemill.storage.object_stores import NO_ACCESS

IDS = "id long, name string"
LINES = b'{"id": 1, "name": "a"}\n{"id": 2, "name": "b"}\n'
ROWS = [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]
CSV = b"id,name\n1,a\n2,b\n"
HEADER = {"header": True}


@dataclass(frozen=True)
class Case:
    """Files, and the rows or rejections that they give."""

    fault: str
    files: Mapping[str, bytes]
    source: Mapping[str, Any]
    rows: list[dict[str, Any]] = field(default_factory=list)
    rejected: list[Rejected] = field(default_factory=list)


def one(
    fault: str, name: str, content: bytes, source: Mapping[str, Any], *rejected: Rejected, rows: Any = ()
) -> Case:
    return Case(fault, {name: content}, source, list(rows), list(rejected))


def json_files(**keys: Any) -> dict[str, Any]:
    return {"format": "json", "schema": IDS, **keys}


def csv_files(**options: Any) -> dict[str, Any]:
    return {"format": "csv", "schema": IDS, "options": options}


def zstandard(content: bytes) -> bytes:
    return pa.Codec("zstd").compress(content, asbytes=True)


GZ = gzip.compress(LINES)

COMPRESSED = [
    one("gz", "a.json.gz", GZ, json_files(), rows=ROWS),
    one(
        "gz of two members",
        "a.json.gz",
        gzip.compress(LINES[:23]) + gzip.compress(LINES[23:]),
        json_files(),
        rows=ROWS,
    ),
    one("an ending in capitals", "A.JSON.GZ", GZ, json_files(), rows=ROWS),
    one("bz2", "a.bz2", bz2.compress(LINES), json_files(), rows=ROWS),
    one("xz", "a.xz", lzma.compress(LINES), json_files(), rows=ROWS),
    one("zst", "a.zst", zstandard(LINES), json_files(), rows=ROWS),
    one("deflate", "a.deflate", zlib.compress(LINES), json_files(), rows=ROWS),
    one("CSV with a header in gz", "a.csv.gz", gzip.compress(CSV), csv_files(**HEADER), rows=ROWS),
]

TORN = [
    ("gz that ends too soon", "a.json.gz", GZ[:-9], "damaged_file:gz: "),
    ("gz with another checksum", "a.json.gz", GZ[:-8] + b"12345678", "damaged_file:gz: "),
    ("gz that is not gz", "a.json.gz", LINES, "damaged_file:gz: "),
    ("zst that ends too soon", "a.zst", zstandard(LINES)[:-3], "damaged_file:zst: "),
    ("zst that is not zst", "a.zst", LINES, "damaged_file:zst: "),
    ("xz that ends too soon", "a.xz", lzma.compress(LINES)[:-5], "damaged_file:xz: "),
    ("bz2 that ends too soon", "a.bz2", bz2.compress(LINES)[:-5], "damaged_file:bz2: "),
    ("deflate that ends too soon", "a.deflate", zlib.compress(LINES)[:-5], "damaged_file:deflate: "),
    ("snappy", "a.json.snappy", LINES, "unsupported_compression:snappy"),
]

TEXTS = [
    one("nothing", "a", b"", json_files()),
    one("blank lines", "a", b"\n\r\n  \n" + LINES, json_files(), rows=ROWS),
    one("no line break at the end", "a", LINES[:-1], json_files(), rows=ROWS),
    one("line breaks of Windows", "a", LINES.replace(b"\n", b"\r\n"), json_files(), rows=ROWS),
    one("line breaks of old Macs", "a", LINES.replace(b"\n", b"\r"), json_files(), rows=ROWS),
    one("a byte order mark", "a", b"\xef\xbb\xbf" + LINES, json_files(), rows=ROWS),
    one("a separator", "a", LINES.replace(b"\n", b"||"), json_files(options={"lineSep": "||"}), rows=ROWS),
    one(
        "UTF-16", "a", LINES.decode().encode("utf-16"), json_files(options={"encoding": "UTF-16"}), rows=ROWS
    ),
    one(
        "Latin-1",
        "a",
        '{"name": "ü"}\n'.encode("latin-1"),
        json_files(options={"encoding": "ISO-8859-1"}),
        rows=[{"id": None, "name": "ü"}],
    ),
    one(
        "a byte that an encoding lacks",
        "a",
        b'{"name": "\x81"}\n' + LINES,
        json_files(options={"encoding": "cp1252"}),
        Rejected("invalid_utf8", b'{"name": "\xed\xb3\xbf"}', "a", 1),
        rows=ROWS,
    ),
    one(
        "objects on several lines",
        "a",
        b'{"id":\n1,\n"name": "a"}\n{"id": 2, "name":\n"b"}',
        json_files(options={"multiLine": True}),
        rows=ROWS,
    ),
    one(
        "a list of objects",
        "a",
        b'[{"id": 1, "name": "a"},\n {"id": 2, "name": "b"}]\n',
        json_files(options={"multiLine": True}),
        rows=ROWS,
    ),
    one(
        "a list that ends too soon",
        "a",
        b'[{"id": 1, "name": "a"},\n {"id": 2, "na',
        json_files(options={"multiLine": True}),
        Rejected("malformed_json", b'{"id": 2, "na', "a", 2),
        rows=ROWS[:1],
    ),
    one(
        "numbers as strings",
        "a",
        b'{"id": 1, "name": 7.50}\n{"id": 2, "name": true}\n',
        json_files(options={"primitivesAsString": True}),
        rows=[{"id": 1, "name": "7.50"}, {"id": 2, "name": "true"}],
    ),
    one(
        "whole texts",
        "a",
        b"one\ntwo\n",
        {"format": "text", "options": {"wholetext": True}},
        rows=[{"value": "one\ntwo\n"}],
    ),
    one(
        "blank lines of a text",
        "a",
        b"one\n\ntwo",
        {"format": "text"},
        rows=[{"value": "one"}, {"value": ""}, {"value": "two"}],
    ),
    one(
        "a text that is not UTF-8",
        "a",
        b"one\n\xff\n",
        {"format": "text"},
        Rejected("invalid_utf8", b"\xff", "a", 2),
        rows=[{"value": "one"}],
    ),
]

CSVS = [
    one("columns in another order", "a", b"name,id\na,1\nb,2\n", csv_files(**HEADER), rows=ROWS),
    one("names in another case, with blanks", "a", b"ID, Name\n1,a\n2,b\n", csv_files(**HEADER), rows=ROWS),
    one("a column more", "a", b"id,other,name\n1,x,a\n2,y,b\n", csv_files(**HEADER), rows=ROWS),
    one("a column less", "a", b"id\n1\n", csv_files(**HEADER), rows=[{"id": 1, "name": None}]),
    one("a header alone", "a", b"id,name\n", csv_files(**HEADER)),
    one("nothing", "a", b"", csv_files(**HEADER)),
    one(
        "no header",
        "a",
        b"1,a\n2,b\n",
        csv_files(**HEADER),
        Rejected("bad_header:no_known_name", b"1,a", "a", 1),
        Rejected("bad_header:no_known_name", b"2,b", "a", 2),
    ),
    one(
        "a name twice",
        "a",
        b"id,id\n1,2\n",
        csv_files(**HEADER),
        Rejected("bad_header:repeated_name:id", b"id,id", "a", 1),
        Rejected("bad_header:repeated_name:id", b"1,2", "a", 2),
    ),
    Case(
        "files with other headers",
        {"a": b"name,id\na,1\n", "b": b"id,name\n2,b\n"},
        csv_files(**HEADER),
        ROWS,
    ),
    one("a separator", "a", b"1;a\n2;b\n", csv_files(sep=";"), rows=ROWS),
    one("a tab", "a", b"1\ta\n2\tb\n", csv_files(sep="\\t"), rows=ROWS),
    one("another quote", "a", b"1,'a,'\n", csv_files(quote="'"), rows=[{"id": 1, "name": "a,"}]),
    one(
        "a backslash as escape",
        "a",
        b'1,"a \\"q\\" \\\\"\n',
        csv_files(escape="\\"),
        rows=[{"id": 1, "name": 'a "q" \\'}],
    ),
    one("no quote", "a", b'1,"a\n', csv_files(quote=""), rows=[{"id": 1, "name": '"a'}]),
    one(
        "another null",
        "a",
        b'1,NULL\n2,"NULL"\n',
        csv_files(nullValue="NULL"),
        rows=[{"id": 1, "name": None}, {"id": 2, "name": "NULL"}],
    ),
    one("comments", "a", b"#x\n1,a\n#y\n2,b\n", csv_files(comment="#"), rows=ROWS),
]

FOLDERS = [
    Case(
        "columns from folders",
        {"day=2026-03-01/a": b'{"id": 1}\n', "day=2026-03-02/b": b'{"id": 2}\n', "plain/c": b'{"id": 3}\n'},
        {"format": "json", "schema": "id int, day date"},
        [
            {"id": 1, "day": date(2026, 3, 1)},
            {"id": 2, "day": date(2026, 3, 2)},
            {"id": 3, "day": None},
        ],
    ),
    Case(
        "a folder for no column",
        {"x=1/a": LINES},
        json_files(),
        ROWS,
    ),
    Case(
        "a value of another type",
        {"id=x/a": b'{"name": "a"}\n'},
        json_files(),
        [],
        [Rejected("wrong_type:id", b'{"name": "a"}', "id=x/a", 1)],
    ),
    Case(
        "a value with a blank, as Hive writes it",
        {"name=a%20b/a": b'{"id": 1}\n'},
        json_files(),
        [{"id": 1, "name": "a b"}],
    ),
    Case(
        "null, as Hive writes it",
        {"name=__HIVE_DEFAULT_PARTITION__/a": b'{"id": 1}\n'},
        json_files(),
        [{"id": 1, "name": None}],
    ),
    Case("CSV without a header", {"name=a/x": b"1\n", "name=b/x": b"2\n"}, csv_files(), ROWS),
]


@pytest.mark.parametrize("case", COMPRESSED + TEXTS + CSVS + FOLDERS, ids=lambda case: case.fault)
def test_a_file_becomes_its_rows(tmp_path: Path, case: Case) -> None:
    found = read_files(tmp_path, case.files, case.source)
    assert (found.rows, found.rejected) == (case.rows, case.rejected)


@pytest.mark.parametrize(("fault", "name", "content", "reason"), TORN, ids=[torn[0] for torn in TORN])
def test_a_damaged_file_is_rejected_by_name_and_others_are_read(
    tmp_path: Path, fault: str, name: str, content: bytes, reason: str
) -> None:
    found = read_files(tmp_path, {name: content, "z.json": LINES}, json_files())
    assert found.rows == ROWS
    (rejected,) = found.rejected
    assert (rejected.file, rejected.line, rejected.value) == (name, None, None)
    assert rejected.reason.startswith(reason)


def parquet(table: pa.Table, **options: Any) -> bytes:
    stream = io.BytesIO()
    pq.write_table(table, stream, **options)
    return stream.getvalue()


def orc_file(table: pa.Table) -> bytes:
    stream = io.BytesIO()
    orc.write_table(table, stream)
    return stream.getvalue()


TABLE = pa.table({"id": [1, 2], "name": ["a", "b"]})
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(("file_format", "write"), [("parquet", parquet), ("orc", orc_file)])
def test_columns_are_taken_by_name_and_missing_ones_are_null(
    tmp_path: Path, file_format: str, write: Any
) -> None:
    source = {"format": file_format, "schema": "name string, id long, other double"}
    found = read_files(tmp_path, {"a": write(TABLE.append_column("more", [[1, 2]]))}, source)
    assert found.rows == [{"name": "a", "id": 1, "other": None}, {"name": "b", "id": 2, "other": None}]
    assert found.rejected == []


@pytest.mark.parametrize(
    ("values", "declared", "expected"),
    [
        (pa.array([1], pa.int8()), "long", 1),
        (pa.array([1], pa.uint32()), "long", 1),
        (pa.array([1], pa.int32()), "double", 1.0),
        (pa.array([1.5], pa.float32()), "double", 1.5),
        (pa.array([7], pa.int32()), "decimal(12, 2)", 7),
        (pa.array(["a"], pa.large_string()), "string", "a"),
        (pa.array(["a"]).dictionary_encode(), "string", "a"),
        (pa.array([b"a"]), "string", "a"),
        (pa.array([NOON], pa.timestamp("ms", "UTC")), "timestamp", NOON),
        (pa.array([NOON], pa.timestamp("ns", "Europe/Berlin")), "timestamp", NOON),
        (pa.array([NOON]).cast(pa.timestamp("us")), "timestamp", NOON),
        (pa.array([{"x": 1, "y": 2}]), "struct<y: long, z: string>", {"y": 2, "z": None}),
        (pa.array([[1, None]], pa.list_(pa.int32())), "array<long>", [1, None]),
        (pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int32())), "map<string, long>", [("a", 1)]),
    ],
    ids=str,
)
def test_a_declared_type_takes_every_type_that_is_a_part_of_it(
    tmp_path: Path, values: pa.Array, declared: str, expected: Any
) -> None:
    content = parquet(pa.table({"v": values}))
    found = read_files(tmp_path, {"a": content}, {"format": "parquet", "schema": f"v {declared}"})
    assert (found.rows, found.rejected) == ([{"v": expected}], [])


OTHER_TYPES = [
    (orc_file, pa.array(["7"]), "long", "v: string is not int64"),
    (parquet, pa.array(["7"]), "long", "v: string is not int64"),
    (parquet, pa.array([7], pa.int64()), "int", "v: int64 is not int32"),
    (parquet, pa.array([7], pa.int64()), "double", "v: int64 is not double"),
    (parquet, pa.array([7]), "string", "v: int64 is not string"),
    (parquet, pa.array([1.5]), "float", "v: double is not float"),
    (parquet, pa.array([NOON]), "date", "v: timestamp[us, tz=UTC] is not date32[day]"),
    (parquet, pa.array([{"x": "a"}]), "struct<x: long>", "v.x: string is not int64"),
]


@pytest.mark.parametrize(("write", "values", "declared", "reason"), OTHER_TYPES)
def test_a_file_with_a_column_of_another_type_is_rejected_with_both_types(
    tmp_path: Path, write: Any, values: pa.Array, declared: str, reason: str
) -> None:
    file_format = "orc" if write is orc_file else "parquet"
    source = {"format": file_format, "schema": f"v {declared}"}
    found = read_files(tmp_path, {"a": write(pa.table({"v": values}))}, source)
    rejected = [Rejected(f"wrong_file_type:{reason}", None, "a", None)]
    assert (found.rows, found.rejected) == ([], rejected)


@pytest.mark.parametrize(
    "content", [b"", b"PAR1", b"not Parquet at all", parquet(TABLE)[:-20], parquet(TABLE)[20:]]
)
@pytest.mark.parametrize("file_format", ["parquet", "orc"])
def test_a_torn_or_foreign_file_with_columns_is_rejected_and_others_are_read(
    tmp_path: Path, file_format: str, content: bytes
) -> None:
    good = parquet(TABLE) if file_format == "parquet" else orc_file(TABLE)
    found = read_files(tmp_path, {"a": content, "b": good}, {"format": file_format, "schema": IDS})
    assert found.rows == ROWS
    (rejected,) = found.rejected
    assert rejected.file == "a"
    assert rejected.reason.startswith(f"damaged_file:{file_format}: ")


@pytest.mark.parametrize("range_bytes", [100, 1000, 5000])
def test_each_row_group_is_read_in_one_range(tmp_path: Path, range_bytes: int) -> None:
    table = pa.table({"id": range(1000), "name": ["x" * 20] * 1000})
    content = parquet(table, row_group_size=50, compression="none")
    source = {"format": "parquet", "schema": IDS}
    found = read_files(tmp_path, {"a": content}, source, range_bytes)
    assert [row["id"] for row in found.rows] == list(range(1000))
    torn = read_files(tmp_path, {"a": content[:-10]}, source, range_bytes)
    assert (torn.rows, len(torn.rejected)) == ([], 1)


def test_bytes_of_damage_inside_of_a_file_reject_it_as_a_whole(tmp_path: Path) -> None:
    table = pa.table({"id": range(1000), "name": [str(number) * 9 for number in range(1000)]})
    content = bytearray(parquet(table, row_group_size=100, compression="zstd"))
    middle = len(content) // 2
    content[middle : middle + 400] = b"\xff" * 400
    found = read_files(
        tmp_path, {"a": bytes(content), "b": parquet(TABLE)}, {"format": "parquet", "schema": IDS}
    )
    assert found.rows == ROWS
    assert [(each.file, each.reason.partition(":")[0]) for each in found.rejected] == [("a", "damaged_file")]


def test_times_of_orc_files_are_read_where_the_system_has_no_time_zones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TZDIR", raising=False)
    _find_time_zones(str(tmp_path / "nowhere"))
    assert (Path(os.environ["TZDIR"]) / "GMT").is_file()
    content = orc_file(pa.table({"v": pa.array([NOON])}))
    found = read_files(tmp_path, {"a": content}, {"format": "orc", "schema": "v timestamp"})
    assert found.rows == [{"v": NOON}]


@pytest.mark.parametrize("name", ["a.json", "a.json.gz", "a.parquet"])
def test_a_file_that_is_gone_ends_the_batch_with_its_name(tmp_path: Path, name: str) -> None:
    file_format = "parquet" if name.endswith("parquet") else "json"
    pipeline = files_pipeline(tmp_path, {"format": file_format, "schema": IDS})
    reader, _ = file_reader(pipeline, None)
    uri = f"file:{tmp_path}/landing/{name}"
    with pytest.raises(DataError) as failed:
        list(reader.pieces([FileRange(uri, uri, NOON, 0, 9, 9, None, NO_ACCESS)], print))
    assert (failed.value.error_id, failed.value.runbook) == ("TIDE-DATA-012", "source-files-gone")
    assert str(failed.value.facts["file"]).endswith(f"/landing/{name}")


@pytest.mark.parametrize("kept_bytes", [0, 2**20])
def test_a_range_that_is_too_large_to_keep_ends_the_batch_if_it_is_damaged_behind_its_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept_bytes: int
) -> None:
    monkeypatch.setattr(reading, "_KEPT_BYTES", kept_bytes)
    source = FileRange("file:/a", "file:/a", NOON, 0, 9, 9, None, NO_ACCESS)
    rows = pa.RecordBatch.from_pydict({"id": pa.array([1, 2], pa.int64())})
    decoded = Decoded(rows, pa.array([0, 1], pa.int64()), pa.array([], pa.int64()), [])

    def torn() -> Iterator[FilePiece]:
        yield FilePiece.of_columns(source, decoded)
        raise OSError("unexpected end")

    pieces = reading.whole_ranges(source, torn(), (OSError,), "avro")
    if kept_bytes:
        with pytest.raises(FileRejectedError, match="damaged_file:avro: unexpected end"):
            next(pieces)
        return
    assert next(pieces).decoded.rows == rows
    with pytest.raises(DataError) as failed:
        next(pieces)
    assert (failed.value.error_id, failed.value.facts["file"]) == ("TIDE-DATA-013", source.path)


@pytest.mark.parametrize("name", ["a.json", "a.parquet"])
def test_a_file_that_cannot_be_opened_ends_the_batch_with_its_name(tmp_path: Path, name: str) -> None:
    """A link to itself; a test that runs as root may read files that forbid it."""
    (tmp_path / "landing").mkdir()
    (tmp_path / "landing" / name).symlink_to(tmp_path / "landing" / name)
    error = failure_of_reading(tmp_path, name)
    assert (type(error), error.error_id, error.runbook) == (DataError, "TIDE-SRC-011", "files-unreadable")
    assert error.facts == {
        "file": f"file:{tmp_path}/landing/{name}",
        "reason": "Too many levels of symbolic links",
    }


@pytest.mark.parametrize("name", ["a.json", "a.parquet"])
def test_a_disk_that_fails_is_not_a_damaged_file(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "landing").mkdir()
    (tmp_path / "landing" / name).write_bytes(b"{}")

    def fails(*_: object) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "pread", fails)
    error = failure_of_reading(tmp_path, name)
    assert (type(error), error.error_id) == (UnavailableError, "TIDE-STOR-006")


def failure_of_reading(tmp_path: Path, name: str) -> TidemillError:
    file_format = "parquet" if name.endswith("parquet") else "json"
    reader, _ = file_reader(files_pipeline(tmp_path, {"format": file_format, "schema": IDS}), None)
    uri = f"file:{tmp_path}/landing/{name}"
    with pytest.raises(TidemillError) as failed:
        list(reader.pieces([FileRange(uri, uri, NOON, 0, 9, 9, None, NO_ACCESS)], print))
    return failed.value
