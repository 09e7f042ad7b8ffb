"""The schema files of state stores, as Spark writes them."""

from __future__ import annotations

import json
import struct

import pytest

from tidemill.checkpoint.reading.log_files import TornFileError
from tidemill.checkpoint.reading.state_schema import parse_state_schema

KEY = {"name": "device", "type": "string", "nullable": True, "metadata": {"spark.watermarkDelayMs": 1}}
VALUE = {"name": "count", "type": "long", "nullable": False, "metadata": {}}


def text(content: str) -> bytes:
    encoded = content.encode()
    return struct.pack(">H", len(encoded)) + encoded


def chunks(*content: str) -> bytes:
    return struct.pack(">i", len(content)) + b"".join(map(text, content))


def columns(*fields: object) -> str:
    return json.dumps({"type": "struct", "fields": fields})


PLAIN = text("v1") + text(columns(KEY)) + text(columns(VALUE))
CHUNKED = text("v2") + chunks(columns(KEY)[:9], columns(KEY)[9:]) + chunks(columns(VALUE))
NAMED = (
    text("v3")
    + struct.pack(">i", 1)
    + text("seen")
    + (struct.pack(">h", 0) + chunks(columns(KEY)))
    + (struct.pack(">h", 0) + chunks(columns(VALUE)))
    + chunks("{}")
    + chunks("")
)


@pytest.mark.parametrize(
    ("content", "name"), [(PLAIN, "default"), (CHUNKED, "default"), (NAMED, "default/seen")]
)
def test_each_version_of_the_file_tells_names_types_and_nulls(content: bytes, name: str) -> None:
    (table,) = parse_state_schema(content)
    (key,), (value,) = table.key, table.value
    assert (table.name, key.name, key.type, key.nullable) == (name, "device", '"string"', True)
    assert (value.name, value.type, value.nullable) == ("count", '"long"', False)


def test_what_is_only_told_of_a_type_makes_no_other_type() -> None:
    def window(delay: int) -> dict[str, object]:
        edge = {"name": "start", "type": "timestamp", "nullable": True, "metadata": {"delay": delay}}
        return {**KEY, "type": {"type": "struct", "fields": [edge]}}

    ten, twenty = (text("v1") + text(columns(window(n))) + text(columns()) for n in (10, 20))
    assert parse_state_schema(ten) == parse_state_schema(twenty)


@pytest.mark.parametrize("content", [b"", text("v9"), CHUNKED[:-1], NAMED[:-3], CHUNKED + b"x", text("v2")])
def test_a_file_that_was_cut_or_is_unknown_is_refused(content: bytes) -> None:
    with pytest.raises(TornFileError):
        parse_state_schema(content)
