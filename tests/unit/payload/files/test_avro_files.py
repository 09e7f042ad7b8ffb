"""Avro files of every codec, in ranges, torn, and with blocks that other writers make."""

from __future__ import annotations

import bz2
import io
import json
import lzma
import zlib
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from tests.support.read_files import Rejected, read_files

SCHEMA = {
    "type": "record",
    "name": "shop.Order",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "n", "type": "long"},
    ],
}
ROWS = [{"id": "a", "n": 1}, {"id": "b", "n": 2}, {"id": "c", "n": 3}]
SOURCE = {"format": "avro", "schema": "id string, n long"}


def written(schema: dict[str, Any], rows: Sequence[Any], **options: Any) -> bytes:
    stream = io.BytesIO()
    fastavro.writer(stream, fastavro.parse_schema(schema), rows, **options)
    return stream.getvalue()


HEADER = written(SCHEMA, [])
SYNC = HEADER[-16:]


def varint(number: int) -> bytes:
    """Return a long of Avro."""
    number, out = number << 1, b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def block(rows: Sequence[Any]) -> bytes:
    stream = io.BytesIO()
    for row in rows:
        fastavro.schemaless_writer(stream, fastavro.parse_schema(SCHEMA), row)
    data = stream.getvalue()
    return varint(len(rows)) + varint(len(data)) + data + SYNC


def compressed(codec: str, data: bytes) -> bytes:
    """Return a block as the Avro specification has it compressed."""
    if codec == "snappy":
        return pa.Codec("snappy").compress(data, asbytes=True) + zlib.crc32(data).to_bytes(4, "big")
    if codec == "deflate":
        return zlib.compress(data, wbits=-15)
    ways = {"null": bytes, "bzip2": bz2.compress, "xz": lzma.compress}
    return pa.Codec("zstd").compress(data, asbytes=True) if codec == "zstandard" else ways[codec](data)


@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2", "xz", "snappy", "zstandard"])
def test_a_file_of_each_codec_becomes_its_rows(tmp_path: Path, codec: str) -> None:
    header = io.BytesIO()
    metadata = {"avro.schema": json.dumps(SCHEMA).encode(), "avro.codec": codec.encode()}
    fastavro.schemaless_writer(header, {"type": "map", "values": "bytes"}, metadata)
    data = compressed(codec, block(ROWS)[2:-16])
    content = b"Obj\x01" + header.getvalue() + SYNC + varint(len(ROWS)) + varint(len(data)) + data + SYNC
    found = read_files(tmp_path, {"a.avro": content}, SOURCE)
    assert (found.rows, found.rejected) == (ROWS, [])


def test_blocks_without_records_are_good(tmp_path: Path) -> None:
    nothing = block([])
    content = HEADER + nothing + nothing + block(ROWS[:1]) + nothing + nothing + block(ROWS[1:]) + nothing
    found = read_files(tmp_path, {"a": content, "b": HEADER}, SOURCE)
    assert (found.rows, found.rejected) == (ROWS, [])


@pytest.mark.parametrize("range_bytes", [1, 10, 100, 300])
def test_each_block_is_read_in_one_range(tmp_path: Path, range_bytes: int) -> None:
    rows = [{"id": str(number), "n": number} for number in range(40)]
    content = HEADER + b"".join(block(rows[start : start + 4]) for start in range(0, 40, 4))
    found = read_files(tmp_path, {"a": content}, SOURCE, range_bytes)
    assert (found.rows, found.rejected) == (rows, [])


TORN = HEADER + block(ROWS)


@pytest.mark.parametrize(
    "content",
    [b"", b"Obj", b"not Avro", HEADER[:-3], TORN[:-1], TORN[:-20], TORN[:-16] + b"x" * 16],
    ids=["nothing", "a magic", "foreign", "half a header", "half a marker", "half a block", "another marker"],
)
def test_a_torn_or_foreign_file_is_rejected_by_name_and_others_are_read(
    tmp_path: Path, content: bytes
) -> None:
    found = read_files(tmp_path, {"a": content, "b": written(SCHEMA, ROWS)}, SOURCE)
    assert found.rows == ROWS
    (rejected,) = found.rejected
    assert (rejected.file, rejected.value) == ("a", None)
    assert rejected.reason.startswith("damaged_file:avro: ")


def test_a_column_of_another_type_rejects_the_file_with_both_types(tmp_path: Path) -> None:
    source = {"format": "avro", "schema": "id long, n long"}
    found = read_files(tmp_path, {"a": written(SCHEMA, ROWS)}, source)
    assert (found.rows, found.rejected) == (
        [],
        [Rejected("wrong_file_type:id: string is not int64", None, "a", None)],
    )


EVERY_TYPE = {
    "type": "record",
    "name": "All",
    "fields": [
        {"name": "several", "type": ["string", "long", "null"]},
        {"name": "small", "type": "int"},
        {"name": "ratio", "type": ["null", "float"], "default": None},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}},
        {"name": "size", "type": {"type": "enum", "name": "Size", "symbols": ["S", "L"]}},
        {"name": "other", "type": "Size"},
        {"name": "tags", "type": {"type": "map", "values": "string"}},
        {
            "name": "place",
            "type": {"type": "record", "name": "Place", "fields": [{"name": "x", "type": "int"}]},
        },
    ],
}
ALL = {
    "several": "a",
    "small": 7,
    "ratio": float("nan"),
    "at": datetime(2026, 3, 1, tzinfo=UTC),
    "price": Decimal("12.50"),
    "size": "L",
    "other": "S",
    "tags": {"a": "b"},
    "place": {"x": 1},
}


def test_declared_columns_are_read_and_other_fields_may_have_any_type(tmp_path: Path) -> None:
    columns = (
        "small long, at timestamp, price decimal(8, 2), other string, tags map<string, string>, "
        "place struct<x: long, y: string>, missing double"
    )
    found = read_files(tmp_path, {"a": written(EVERY_TYPE, [ALL])}, {"format": "avro", "schema": columns})
    assert found.rejected == []
    assert found.rows == [
        {
            "small": 7,
            "at": datetime(2026, 3, 1, tzinfo=UTC),
            "price": Decimal("12.50"),
            "other": "S",
            "tags": [("a", "b")],
            "place": {"x": 1, "y": None},
            "missing": None,
        }
    ]


def test_a_declared_column_that_is_a_union_of_several_types_rejects_the_file(tmp_path: Path) -> None:
    source = {"format": "avro", "schema": "several string"}
    (reason,) = read_files(tmp_path, {"a": written(EVERY_TYPE, [ALL])}, source).reasons
    assert reason.startswith("wrong_file_type:several: ")
    assert "a union of several types" in reason


def payload(folder: Path, document: dict[str, Any]) -> dict[str, Any]:
    schemas = folder / "conf/schemas"
    schemas.mkdir(parents=True, exist_ok=True)
    (schemas / "order.avsc").write_text(json.dumps(document))
    return {"avro": {"schema": "order.avsc"}}


def test_a_payload_reads_the_files_of_every_writer_whose_schema_resolves(tmp_path: Path) -> None:
    newer = {
        "type": "record",
        "name": "other.Order",
        "fields": [{"name": "more", "type": ["null", "string", "long"]}, *SCHEMA["fields"]],
    }
    wrong = {**SCHEMA, "fields": [{"name": "id", "type": "long"}]}
    declared = {**SCHEMA, "fields": [*SCHEMA["fields"], {"name": "x", "type": "int", "default": 7}]}
    files = {
        "a": written(SCHEMA, ROWS[:1]),
        "b": written(newer, [{"more": 5, **ROWS[1]}]),
        "c": written(wrong, [{"id": 1}]),
    }
    found = read_files(tmp_path, files, {}, payload=payload(tmp_path, declared))
    assert found.rows == [{**row, "x": 7} for row in ROWS[:2]]
    (rejected,) = found.rejected
    assert (rejected.file, rejected.reason.partition(":")[0]) == ("c", "unreadable_schema")


def test_a_value_that_the_payloads_schema_lacks_rejects_its_record_alone(tmp_path: Path) -> None:
    def with_symbols(*symbols: str) -> dict[str, Any]:
        kind = {"type": "enum", "name": "Size", "symbols": list(symbols)}
        return {"type": "record", "name": "Order", "fields": [{"name": "size", "type": kind}]}

    content = written(with_symbols("S", "M", "L"), [{"size": "S"}, {"size": "M"}, {"size": "L"}])
    found = read_files(tmp_path, {"a": content}, {}, payload=payload(tmp_path, with_symbols("S", "L")))
    assert found.rows == [{"size": "S"}, {"size": "L"}]
    assert found.reasons == ["unreadable_value"]


def test_a_moment_outside_of_its_type_rejects_its_record_alone(tmp_path: Path) -> None:
    at = {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}}
    header = written({"type": "record", "name": "Order", "fields": [at]}, [])
    stream = io.BytesIO()
    for moment in (0, 2**62, 1_000_000):
        fastavro.schemaless_writer(stream, {"type": "long"}, moment)
    data = stream.getvalue()
    content = header + varint(3) + varint(len(data)) + data + header[-16:]
    found = read_files(tmp_path, {"a": content}, {"format": "avro", "schema": "at timestamp"})
    assert [row["at"].timestamp() for row in found.rows] == [0, 1]
    assert found.rejected == [Rejected("out_of_range:at", None, "a", None)]
