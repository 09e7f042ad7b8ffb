"""Pins the table in json_decoder.py: what one record decodes to, alone and between others."""

from __future__ import annotations

import math
import sys
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from tests.support.forked_python import run_forked
from tidemill.payload.json_decoder import JsonDecoder
from tidemill.payload.json_schema import load_payload_schema

LIMIT = 20_000
SCHEMA = load_payload_schema(
    {
        "type": "object",
        "properties": {
            "s": {"type": "string"},
            "i": {"type": "integer"},
            "f": {"type": "number"},
            "b": {"type": "boolean"},
            "t": {"type": "string", "format": "date-time"},
            "o": {
                "type": "object",
                "properties": {
                    "x": {"type": "integer"},
                    "t": {"type": "string", "format": "date-time"},
                    "f": {"type": "number"},
                },
                "required": ["x"],
            },
            "l": {"type": "array", "items": {"type": "integer"}},
            "m": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "t": {"type": "string", "format": "date-time"},
                        "k": {"type": ["integer", "null"]},
                        "f": {"type": "number"},
                    },
                    "required": ["k"],
                },
            },
            "any_number": {"type": "number", "x-allow-non-finite": True},
            "any_numbers": {"type": "array", "items": {"type": "number", "x-allow-non-finite": True}},
            "local": {"type": "string", "format": "date-time", "x-allow-no-offset": True},
        },
    },
    "semantics.json",
)
DECODER = JsonDecoder(SCHEMA, LIMIT)
NEIGHBOURS = [b'{"s":"before","i":1}', b'{"s":"after","f":1,"t":"2026-01-01T00:00:00Z"}']
BROKEN = b'{"s":"broken",}'


def fate(record: bytes | None, *, beside: list[bytes]) -> dict[str, object] | str:
    """Return the record's fields that are not null, or the reason of its rejection."""
    values = pa.array([*beside[:1], record, *beside[1:]], pa.binary())
    decoded = DECODER.decode(values)
    position = len(beside[:1])
    if position in decoded.rejected.to_pylist():
        return decoded.reasons[decoded.rejected.to_pylist().index(position)]
    row = decoded.rows.take([decoded.kept.to_pylist().index(position)]).to_pylist()[0]
    return {name: value for name, value in row.items() if value is not None}


GOOD = [
    (b"{}", {}),
    (b'  {"i":1}\r\n', {"i": 1}),
    (b'{\n  "s": "a",\n  "i": 1\n}\n', {"s": "a", "i": 1}),
    (b'{"s":null,"i":null,"o":null,"l":null}', {}),
    (b'{"s":"}{"}', {"s": "}{"}),
    (b'{"s":"{} null {}"}', {"s": "{} null {}"}),
    (b'{"s":"\\\\\\"} x"}', {"s": '\\"} x'}),
    (b'{"s":"a\\u0000b\\n\\u00e9\\ud83d\\ude00"}', {"s": "a\0b\né😀"}),
    ('{"s":"é😀\x7f"}'.encode(), {"s": "é😀\x7f"}),
    (b'{"\\u0069":5}', {"i": 5}),
    (b'{"i":-0}', {"i": 0}),
    (b'{"i":9223372036854775807}', {"i": 2**63 - 1}),
    (b'{"i":-9223372036854775808}', {"i": -(2**63)}),
    (b'{"i":1.0}', {"i": 1}),
    (b'{"i":1e3}', {"i": 1000}),
    (b'{"i":1E+2}', {"i": 100}),
    (b'{"i":-2.50e1}', {"i": -25}),
    (b'{"i":12300e-2}', {"i": 123}),
    (b'{"i":-0.0}', {"i": 0}),
    (b'{"i":0e999999999}', {"i": 0}),
    (b'{"i":9223372036854775807.0}', {"i": 2**63 - 1}),
    (b'{"i":9007199254740993.0}', {"i": 2**53 + 1}),
    (b'{"i":-9.223372036854775808e18}', {"i": -(2**63)}),
    (b'{"i":1' + b"0" * 5_000 + b"e-5000}", {"i": 1}),
    (b'{"i":0.' + b"0" * 5_000 + b"7e5001}", {"i": 7}),
    (b'{"\\u0069":1.0,"s":"2.0 \\"i\\":3.0 \\\\","u":"4.0"}', {"i": 1, "s": '2.0 "i":3.0 \\'}),
    (b'{"i":1.0,"f":-0.0,"u":1.5,"u":NaN}', {"i": 1, "f": 0.0}),
    (b'{"i":1.0,"any_number":Inf}', {"i": 1, "any_number": math.inf}),
    (b'{"i":1.0,"u":' + b"[" * 5_000 + b"]" * 5_000 + b"}", {"i": 1}),
    (b'{"l":[1.0,null,2e0],"o":{"x":3.0}}', {"l": [1, None, 2], "o": {"x": 3, "t": None, "f": None}}),
    (b'{"m":[{"k":1.0}]}', {"m": [{"t": None, "k": 1, "f": None}]}),
    (b'{"f":0e400}', {"f": 0.0}),
    (b'{"f":1}', {"f": 1.0}),
    (b'{"f":1E5}', {"f": 1e5}),
    (b'{"f":123456789012345678901234567890}', {"f": 123456789012345678901234567890.0}),
    (b'{"f":1e-400}', {"f": 0.0}),
    (b'{"f":1.7976931348623157e308}', {"f": 1.7976931348623157e308}),
    (b'{"any_number":Infinity}', {"any_number": math.inf}),
    (b'{"any_number":-Infinity}', {"any_number": -math.inf}),
    (b'{"any_number":Inf}', {"any_number": math.inf}),
    (b'{"any_number":2e308}', {"any_number": math.inf}),
    (b'{"any_number":-' + b"9" * 5_000 + b"}", {"any_number": -math.inf}),
    (b'{"any_numbers":[1,null,-Inf]}', {"any_numbers": [1.0, None, -math.inf]}),
    (b'{"u":NaN,"v":[Infinity,2e308]}', {}),
    (b'{"u":' + b"9" * 5_000 + b"}", {}),
    (b'{"I":1,"":2,"u":{"i":"x","n":null},"u":[{}]}', {}),
    (b'{"u":' + b"[" * 5_000 + b"]" * 5_000 + b"}", {}),
    (b'{"t":"2026-01-01 01:00:00+01:00"}', {"t": datetime(2026, 1, 1, tzinfo=UTC)}),
    (b'{"t":"2025-12-31t17:30:00-0630"}', {"t": datetime(2026, 1, 1, tzinfo=UTC)}),
    (b'{"t":"2026-01-01T00:00:00z"}', {"t": datetime(2026, 1, 1, tzinfo=UTC)}),
    (b'{"local":"2026-01-01T00:00:00"}', {"local": datetime(2026, 1, 1, tzinfo=UTC)}),
    (b'{"local":"2026-01-01T01:00:00+01"}', {"local": datetime(2026, 1, 1, tzinfo=UTC)}),
    (b'{"o":{"x":1,"u":2}}', {"o": {"x": 1, "t": None, "f": None}}),
    (b'{"l":[]}', {"l": []}),
    (b'{"l":[1,null]}', {"l": [1, None]}),
    (b'{"m":[null,{"k":null}]}', {"m": [None, {"t": None, "k": None, "f": None}]}),
    (
        b'{"m":[{"k":1,"t":"2026-01-01T00:00:00Z"}]}',
        {"m": [{"k": 1, "t": datetime(2026, 1, 1, tzinfo=UTC), "f": None}]},
    ),
]

REJECTED = [
    (None, "null_value"),
    (b'{"s":"' + b"x" * LIMIT + b'"}', "oversized"),
    (b'{"s":"\xff"}', "invalid_utf8"),
    (b'{"s":"\xed\xa0\x80"}', "invalid_utf8"),
    (b"\xff", "invalid_utf8"),
    (b"", "empty"),
    (b" \n", "empty"),
    (b"null", "not_an_object"),
    (b"[]", "not_an_object"),
    (b"1", "not_an_object"),
    (b'"a"', "not_an_object"),
    (b"hello", "malformed_json"),
    (b"\xef\xbb\xbf{}", "malformed_json"),
    (b'{"s":"a"', "malformed_json"),
    (b'{"s":"a}', "malformed_json"),
    (b'{"o":{"x":1}', "malformed_json"),
    (b'{"l":[{}', "malformed_json"),
    (b'{"s":"a"},', "malformed_json"),
    (b'{"i":1} {"i":2}', "malformed_json"),
    (b'{"i":1}{"i":2}', "malformed_json"),
    (b'{"i":1}\n{"i":2}', "malformed_json"),
    (b"{} null {}", "malformed_json"),
    (b"{}\x00{}", "malformed_json"),
    (b"{}\x00", "malformed_json"),
    (b'{"s":"a\x00b"}', "malformed_json"),
    (b'{"s":"a\nb"}', "malformed_json"),
    (b'{"s":"a\tb"}', "malformed_json"),
    (b'{"s":"\\ud800"}', "malformed_json"),
    (b'{"u":"\\udc00x"}', "malformed_json"),
    (b'{"u":"\\q"}', "malformed_json"),
    (b'{"i":01}', "malformed_json"),
    (b'{"i":+1}', "malformed_json"),
    (b'{"f":.5}', "malformed_json"),
    (b'{"f":nan}', "malformed_json"),
    (b"{'i':1}", "malformed_json"),
    (b'{"i":1,}', "malformed_json"),
    (b'{/**/"i":1}', "malformed_json"),
    (b'{"s":"a","s":"b"}', "duplicate_field:s"),
    (b'{"s":null,"s":null}', "duplicate_field:s"),
    (b'{"o":{"x":1,"x":1}}', "duplicate_field:o.x"),
    (b'{"s":1}', "wrong_type:s"),
    (b'{"s":{}}', "wrong_type:s"),
    (b'{"i":"1"}', "wrong_type:i"),
    (b'{"i":true}', "wrong_type:i"),
    (b'{"i":1.5}', "wrong_type:i"),
    (b'{"i":1e-1}', "wrong_type:i"),
    (b'{"i":1e30}', "wrong_type:i"),
    (b'{"i":9223372036854775808.0}', "wrong_type:i"),
    (b'{"i":-9.223372036854775809e18}', "wrong_type:i"),
    (b'{"i":1e308}', "wrong_type:i"),
    (b'{"i":1e999999999}', "wrong_type:i"),
    (b'{"i":1e' + b"9" * 5_000 + b"}", "wrong_type:i"),
    (b'{"i":1e-' + b"9" * 5_000 + b"}", "wrong_type:i"),
    (b'{"i":1.' + b"0" * 5_000 + b"1}", "wrong_type:i"),
    (b'{"i":NaN}', "wrong_type:i"),
    (b'{"i":1.0,"o":{"x":1.5}}', "wrong_type:o.x"),
    (b'{"i":1.0,"s":1.0}', "wrong_type:s"),
    (b'{"i":1.0,"u":1e309}', "not_decodable"),
    (b'{"i":1.0,"i":1.0}', "duplicate_field:i"),
    (b'{"i":1.0.0}', "malformed_json"),
    (b'{"i":01.0}', "malformed_json"),
    (b'{"i":--1.0}', "malformed_json"),
    (b'{"i":1.}', "malformed_json"),
    (b'{"i":1.0e}', "malformed_json"),
    (b'{"i":1.0,"s":"\\', "malformed_json"),
    (b'{"i":9223372036854775808}', "wrong_type:i"),
    (b'{"f":"1"}', "wrong_type:f"),
    (b'{"b":1}', "wrong_type:b"),
    (b'{"o":[]}', "wrong_type:o"),
    (b'{"o":{"x":"1"}}', "wrong_type:o.x"),
    (b'{"l":{}}', "wrong_type:l"),
    (b'{"l":[1,"a"]}', "wrong_type:l[]"),
    (b'{"l":[1.5]}', "wrong_type:l[]"),
    (b'{"u":1e309}', "not_decodable"),
    (b'{"f":-1e400}', "not_decodable"),
    (b'{"i":' + b"9" * 5_000 + b"}", "wrong_type:i"),
    (b'{"t":"yesterday"}', "wrong_type:t"),
    (b'{"t":"2026-02-30T00:00:00Z"}', "wrong_type:t"),
    (b'{"t":1772366400}', "wrong_type:t"),
    (b'{"o":{"x":1,"t":"yesterday"}}', "wrong_type:o.t"),
    (b'{"m":[{"k":1},{"k":1,"t":"yesterday"}]}', "wrong_type:m[].t"),
    (b'{"f":NaN}', "not_finite:f"),
    (b'{"f":-NaN}', "not_finite:f"),
    (b'{"f":Infinity}', "not_finite:f"),
    (b'{"f":-Inf}', "not_finite:f"),
    (b'{"f":2e308}', "not_finite:f"),
    (b'{"f":-' + b"9" * 5_000 + b"}", "not_finite:f"),
    (b'{"o":{"x":1,"f":NaN}}', "not_finite:o.f"),
    (b'{"m":[null,{"k":1,"f":1},{"k":1,"f":-Infinity}]}', "not_finite:m[].f"),
    (b'{"t":"2026-01-01T00:00:00"}', "no_offset:t"),
    (b'{"t":"2026-01-01 00:00:00.123"}', "no_offset:t"),
    (b'{"o":{"x":1,"t":"2026-01-01T00:00:00"}}', "no_offset:o.t"),
    (b'{"m":[{"k":1,"t":"2026-01-01T00:00:00"}]}', "no_offset:m[].t"),
    (b'{"local":"yesterday"}', "wrong_type:local"),
    (b'{"o":{}}', "missing_required:o.x"),
    (b'{"o":{"x":null}}', "missing_required:o.x"),
    (b'{"m":[{"k":1},{}]}', "missing_required:m[].k"),
    (b'{"m":[{}],"any_number":Inf}', "missing_required:m[].k"),
    (b'{"m":[{}],"f":Inf}', "not_finite:f"),
]


@pytest.mark.parametrize(("record", "fields"), GOOD)
@pytest.mark.parametrize("beside", [[], NEIGHBOURS, [BROKEN, b"null"]])
def test_a_good_record_keeps_its_values_wherever_it_stands(
    record: bytes, fields: dict[str, object], beside: list[bytes]
):
    assert fate(record, beside=beside) == fields


@pytest.mark.parametrize(("record", "reason"), REJECTED)
@pytest.mark.parametrize("beside", [[], NEIGHBOURS, [BROKEN, b"null"]])
def test_a_bad_record_has_one_reason_wherever_it_stands(record: bytes, reason: str, beside: list[bytes]):
    assert fate(record, beside=beside) == reason


def test_a_signed_zero_and_not_a_number_survive():
    row = fate(b'{"f":-0}', beside=[])
    assert isinstance(row, dict)
    assert math.copysign(1, row["f"]) == -1
    row = fate(b'{"any_number":NaN}', beside=[])
    assert isinstance(row, dict)
    assert math.isnan(row["any_number"])


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (b'{"i":"1","o":{}}', "wrong_type:i"),
        (b'{"o":{},"t":"yesterday"}', "wrong_type:t"),
        (b'{"b":1,"s":1}', "wrong_type:s"),
        (b'{"i":"1"', "malformed_json"),
        (b"x" * (LIMIT + 1), "oversized"),
        (b"\xff{", "invalid_utf8"),
    ],
)
def test_of_several_reasons_the_first_in_the_documented_order_counts(record: bytes, reason: str):
    assert fate(record, beside=NEIGHBOURS) == reason


HOSTILE = {
    "an exponent of gigabytes": b'{"l":[1e999999999,1e-999999999,' + b"9" * 1_000_000 + b".0]}",
    "a number of megabytes": b'{"l":[1' + b"0" * 5_000_000 + b"e-5000000,1.0]}",
    "quotes that open no string": b'{"l":[1.0],"' + b'\\"' * 2_000_000 + b"}",
    "points without numbers": b'{"l":[' + b"1.0." * 1_000_000 + b"]}",
    "a null between objects": b'{} null {"a":1}',
    "a null alone": b"null",
    "nested arrays": b'{"u":' + b"[" * 2_000_000 + b"}",
    "nested objects": b'{"u":' + b'{"a":' * 500_000 + b"1" + b"}" * 500_001,
    "nested arrays in a declared list": b'{"l":' + b"[" * 500_000 + b"]" * 500_000 + b"}",
    "open strings": b'{"' * 500_000 + b"}",
    "braces without end": b"{}" * 500_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_no_record_kills_the_process(name: str, tmp_path: Path):
    # Use a separate process, because a bare null crashes pyarrow.json with a segmentation fault.
    program = """
import sys, json, pyarrow as pa
from tidemill.payload.json_decoder import JsonDecoder
from tidemill.payload.json_schema import load_payload_schema
document = {"type": "object", "properties": {"l": {"type": "array", "items": {"type": "integer"}}}}
decoder = JsonDecoder(load_payload_schema(document, "hostile.json"), 2**24)
decoded = decoder.decode(pa.array([b"{}", sys.stdin.buffer.read(), b"{}"], pa.binary()))
print(json.dumps([position for position in decoded.kept.to_pylist() if position != 1]))
"""
    record = tmp_path / "record"
    record.write_bytes(HOSTILE[name])
    with record.open("rb") as opened:
        result = run_forked([sys.executable, "-c", program], stdin=opened)
    assert (result.returncode, result.stdout.strip()) == (0, "[0, 2]"), result.stderr


def test_the_table_has_a_case_for_every_reason():
    documented = {"null_value", "oversized", "invalid_utf8", "empty", "not_an_object", "malformed_json"}
    documented |= {"duplicate_field", "wrong_type", "not_decodable", "missing_required"}
    documented |= {"not_finite", "no_offset"}
    assert {reason.split(":")[0] for _, reason in REJECTED} == documented
