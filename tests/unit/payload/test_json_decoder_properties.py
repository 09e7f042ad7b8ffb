"""A record's result and values do not depend on the other records of its batch."""

from __future__ import annotations

import json
import math
from datetime import date, datetime
from decimal import Decimal

import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from tidemill.payload.decoder import Decoded
from tidemill.payload.json_block import BlockDecoder
from tidemill.payload.json_decoder import JsonDecoder
from tidemill.payload.json_explain import OTHERWISE_SPELLED, Expected, explain
from tidemill.payload.json_framing import frame
from tidemill.payload.json_rules import textual_schema
from tidemill.payload.json_schema import load_payload_schema
from tidemill.payload.sieve import Sieve
from tidemill.payload.whole_numbers import with_whole_numbers

DEVICE = {
    "type": "object",
    "properties": {"x": {"type": "integer"}, "t": {"type": "string", "format": "date-time"}},
    "required": ["x"],
}
SCHEMA = load_payload_schema(
    {
        "type": "object",
        "properties": {
            "s": {"type": "string"},
            "i": {"type": "integer"},
            "f": {"type": "number"},
            "b": {"type": "boolean"},
            "t": {"type": "string", "format": "date-time"},
            "o": DEVICE,
            "l": {"type": "array", "items": {"type": "integer"}},
            "m": {"type": "array", "items": DEVICE},
            "r": {"type": ["integer", "null"]},
            "d": {"type": "number", "x-decimal": [12, 3]},
            "e": {"type": "string", "format": "date"},
        },
        "required": ["r"],
    },
    "properties.json",
)
DECODER = JsonDecoder(SCHEMA, max_record_bytes=300)

NAMES = ["s", "i", "f", "b", "t", "o", "l", "m", "r", "d", "e", "x", "u", "S", ""]
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**64), 2**64),
    st.integers(-(2**64), 2**64).map(float),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["2026-01-01T00:00:00Z", "2026-01-01 00:00:00.123456789", "2026-02-30T00:00:00Z"]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=3),
    max_leaves=6,
)
DEVICES = st.fixed_dictionaries({"x": st.integers(0, 9)}, optional={"t": st.just("2026-01-01T00:00:00Z")})
# Mostly right, so that good rows are common.
LIKELY = st.fixed_dictionaries(
    {"r": st.none() | st.integers(0, 9)},
    optional={
        "s": st.text(max_size=8) | SCALARS,
        "i": st.integers(-(2**63), 2**63 - 1) | st.integers(-9, 9).map(float) | SCALARS,
        "f": st.floats() | SCALARS,
        "b": st.booleans() | SCALARS,
        "t": st.datetimes().map(datetime.isoformat) | SCALARS,
        "o": DEVICES | VALUES,
        "l": st.lists(st.integers(0, 9) | st.just(2.0) | st.none(), max_size=3) | VALUES,
        "m": st.lists(DEVICES | st.none(), max_size=3) | VALUES,
        "d": st.decimals(allow_nan=False, places=3).map(str) | st.floats(-1e10, 1e10) | SCALARS,
        "e": st.dates().map(date.isoformat) | SCALARS,
        "u": VALUES,
    },
)


@st.composite
def json_texts(draw: st.DrawFn) -> str:
    document = draw(LIKELY | st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=4) | VALUES)
    indent = draw(st.sampled_from([None, None, 1]))
    return json.dumps(document, indent=indent, ensure_ascii=draw(st.booleans()))


PUNCTUATION = [*'{}[]:,"\\ \n\r\t\0-é\ufeff']
WORDS = ["null", "true", "1", "1.0", "1e999", "NaN", "Inf", "}{", "} null {", r"\ud800", r"\u0000"]
NUMBERS = ["1e9", "0.0001", "1234567890", "-1e-3", "-2.50e1", "1e30", "0e400", "1e999999999"]
MEMBERS = ['"s"', '"i":', '"s":"a",', '"l":[', '"o":{', r'"\u0069":1,']
TOKENS = st.sampled_from([*PUNCTUATION, *WORDS, *NUMBERS, *MEMBERS])


@st.composite
def damaged_texts(draw: st.DrawFn) -> str:
    text = draw(json_texts())
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(text)))
        width = draw(st.sampled_from([0, 0, 1, 2]))
        text = text[:at] + draw(TOKENS | st.just("")) + text[at + width :]
    return text


RECORDS = st.one_of(
    json_texts().map(lambda text: text.encode("utf-8", "surrogatepass")),
    damaged_texts().map(lambda text: text.encode("utf-8", "surrogatepass")),
    st.lists(TOKENS, max_size=8).map(lambda tokens: ("{" + "".join(tokens) + "}").encode()),
    st.binary(max_size=20),
    st.none(),
)


def decode(records: list[bytes | None]) -> Decoded:
    return DECODER.decode(pa.array(records, pa.binary()))


def printable(rows: pa.RecordBatch) -> list[str]:
    return [repr(row) for row in rows.to_pylist()]  # NaN equals nothing, its repr does


@given(st.lists(RECORDS, max_size=12))
def test_a_batch_decodes_to_what_its_records_decode_to_alone(records: list[bytes | None]):
    together = decode(records)
    alone = [decode([record]) for record in records]
    assert printable(together.rows) == [row for one in alone for row in printable(one.rows)]
    assert together.reasons == [reason for one in alone for reason in one.reasons]
    assert together.rejected.to_pylist() == [n for n, one in enumerate(alone) if one.reasons]
    assert together.kept.to_pylist() == [n for n, one in enumerate(alone) if not one.reasons]


@given(st.lists(RECORDS, max_size=12))
def test_every_record_is_kept_or_rejected_once(records: list[bytes | None]):
    decoded = decode(records)
    assert sorted(decoded.kept.to_pylist() + decoded.rejected.to_pylist()) == list(range(len(records)))
    assert len(decoded.rows) == len(decoded.kept)
    assert len(decoded.reasons) == len(decoded.rejected)


def same(decoded: object, read: object) -> bool:
    """Return True if a decoded value equals that of the standard library, with exact numbers."""
    if isinstance(decoded, dict) and isinstance(read, dict):
        return all(same(value, read.get(name)) for name, value in decoded.items())
    if isinstance(decoded, list) and isinstance(read, list):
        return len(decoded) == len(read) and all(map(same, decoded, read))
    if isinstance(decoded, float) and isinstance(read, int | float | Decimal):
        return decoded == float(read) or (math.isnan(decoded) and math.isnan(float(read)))
    if isinstance(decoded, Decimal) and not isinstance(read, bool):
        return decoded == Decimal(str(read))
    if isinstance(decoded, date):
        return isinstance(read, str)
    if type(decoded) is int and isinstance(read, Decimal):
        return decoded == read
    return decoded == read and type(decoded) is type(read)


# A whole number beyond 2**53 with an exponent, which no double holds.
@example(['{"r": null, "i": 1.861116260812397e+16}'])
@given(st.lists(json_texts(), max_size=6))
def test_good_rows_hold_what_the_standard_library_reads(texts: list[str]):
    decoded = decode([text.encode("utf-8", "surrogatepass") for text in texts])
    for position, row in zip(decoded.kept.to_pylist(), decoded.rows.to_pylist(), strict=True):
        assert same(row, json.loads(texts[position], parse_float=Decimal))


@given(st.one_of(json_texts(), damaged_texts()))
def test_an_explained_record_is_one_that_pyarrow_refuses_alone(text: str):
    sieve = Sieve(pa.array([text.encode("utf-8", "surrogatepass")], pa.binary()))
    frame(sieve, max_record_bytes=300)
    if len(sieve.records) == 0:
        return
    schema = textual_schema(SCHEMA.arrow_schema)
    explained = explain(sieve.records[0].as_py(), Expected.of(pa.struct(schema)))
    if explained not in (None, OTHERWISE_SPELLED):
        assert len(BlockDecoder(schema).decode(sieve)) == 0


@st.composite
def spelled_numbers(draw: st.DrawFn) -> str:
    digits = st.text("0123456789", min_size=1, max_size=22)
    text = draw(st.sampled_from(["", "-"])) + (draw(digits).lstrip("0") or "0")
    if draw(st.booleans()):
        text += "." + draw(digits | st.just("0") | st.just("50"))
    if draw(st.booleans()):
        text += draw(st.sampled_from("eE")) + draw(st.sampled_from(["", "-", "+"]))
        text += str(draw(st.integers(0, 25)))
    return text


@given(spelled_numbers())
def test_a_number_is_respelled_if_and_only_if_it_is_an_integer_of_int64(text: str):
    value = Decimal(text)
    is_integer = value == value.to_integral_value() and -(2**63) <= value < 2**63
    respelled = with_whole_numbers(text)
    assert Decimal(respelled) == value
    assert respelled.lstrip("-").isdigit() == (is_integer or text.lstrip("-").isdigit())
    record = json.dumps({"s": text}) + f" {text} "
    assert with_whole_numbers(record) == json.dumps({"s": text}) + f" {respelled} "


@given(
    st.lists(
        st.tuples(st.integers(-(2**70), 2**70), st.sampled_from(["{}", "{}.0", "{}e0", "{}0e-1"])), max_size=9
    )
)
def test_every_spelling_of_an_integer_decodes_as_its_digits_do(numbers: list[tuple[int, str]]):
    spelled = [form.format(number) for number, form in numbers]
    plain = decode([f'{{"r":{number},"l":[{number}]}}'.encode() for number, _ in numbers])
    other = decode([f'{{"r":{text},"l":[{text}]}}'.encode() for text in spelled])
    assert other.rows.to_pylist() == plain.rows.to_pylist()
    assert (other.reasons, other.kept.to_pylist()) == (plain.reasons, plain.kept.to_pylist())
