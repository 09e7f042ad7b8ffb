"""JSON Schema conditions beyond types: a record that breaks one is set aside with keyword and place."""

from __future__ import annotations

import json
import pickle
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from tidemill.errors import SpecError
from tidemill.payload.csv_decoder import CsvDecoder
from tidemill.payload.csv_fields import CsvDialect
from tidemill.payload.json_decoder import JsonDecoder
from tidemill.payload.json_schema import load_payload_schema

LIMIT = 20_000
TEXT, NUMBER, WHOLE = {"type": "string"}, {"type": "number"}, {"type": "integer"}


def decoder(properties: dict[str, Any], **top: Any) -> JsonDecoder:
    document = {"type": "object", "properties": properties, **top}
    return JsonDecoder(load_payload_schema(document, "event.json"), LIMIT)


def fates(decoder: JsonDecoder | CsvDecoder, *records: str) -> list[Any]:
    """Return the row or the rejection of each record, which must not depend on the other records."""
    together = _fates(decoder, records)
    # Compare texts, because NaN is not equal to itself.
    assert list(map(repr, together)) == [repr(_fates(decoder, [record])[0]) for record in records]
    return together


def _fates(decoder: JsonDecoder | CsvDecoder, records: Any) -> list[Any]:
    decoded = decoder.decode(pa.array([record.encode() for record in records], pa.binary()))
    found = dict(zip(decoded.kept.to_pylist(), decoded.rows.to_pylist(), strict=True))
    found |= dict(zip(decoded.rejected.to_pylist(), decoded.reasons, strict=True))
    return [found[place] for place in range(len(records))]


# A property's schema, values that are good, values that are not, and the reason.
CONDITIONS: list[tuple[dict[str, Any], list[Any], list[Any], str]] = [
    ({**TEXT, "enum": ["a", "b"]}, ["a", None], ["c", ""], "breaks_enum:v"),
    ({**TEXT, "const": "a"}, ["a"], ["A"], "breaks_const:v"),
    ({**TEXT, "pattern": "^d-[0-9]+$"}, ["d-1"], ["d-", "xd-1"], "breaks_pattern:v"),
    ({**TEXT, "minLength": 2}, ["ab", "äö"], ["a", "ä"], "breaks_minLength:v"),
    ({**TEXT, "maxLength": 2}, ["ab", "🙂🙂"], ["abc"], "breaks_maxLength:v"),
    ({**TEXT, "format": "uuid"}, ["2eb8aa08-aa98-11ea-b4aa-73b441d16380"], ["2eb8aa08"], "breaks_format:v"),
    ({**TEXT, "format": "ipv4"}, ["127.0.0.1"], ["127.0.0.256"], "breaks_format:v"),
    ({**NUMBER, "minimum": -40}, [-40, -39.9], [-40.1], "breaks_minimum:v"),
    ({**NUMBER, "exclusiveMaximum": 60}, [59.999], [60, 60.0], "breaks_exclusiveMaximum:v"),
    ({**NUMBER, "multipleOf": 0.01}, [0.07, 1.1, 19.99], [0.075], "breaks_multipleOf:v"),
    ({**WHOLE, "maximum": 2**62}, [2**62], [2**62 + 1], "breaks_maximum:v"),
    ({"type": "array", "items": WHOLE, "minItems": 1}, [[1]], [[]], "breaks_minItems:v"),
    ({"type": "array", "items": WHOLE, "uniqueItems": True}, [[1, 2]], [[1, 1]], "breaks_uniqueItems:v"),
    ({"type": "array", "items": {**WHOLE, "minimum": 5}}, [[5, 6]], [[6, 4]], "breaks_minimum:v[]"),
    (
        {"type": "object", "properties": {"x": {**TEXT, "enum": ["a"]}}},
        [{"x": "a"}, {"x": None}, {}, None],
        [{"x": "b"}],
        "breaks_enum:v.x",
    ),
    (
        {"type": "object", "properties": {"x": TEXT, "y": TEXT}, "dependentRequired": {"x": ["y"]}},
        [{"y": "1"}, {"x": "1", "y": "1"}, {"x": None}],
        [{"x": "1"}, {"x": "1", "y": None}],
        "breaks_dependentRequired:v",
    ),
    ({**NUMBER, "anyOf": [{"maximum": 0}, {"minimum": 10}]}, [0, 10], [5], "breaks_anyOf:v"),
    ({**NUMBER, "not": {"const": 5}}, [4], [5, 5.0], "breaks_not:v"),
]


@pytest.mark.parametrize(("declared", "good", "bad", "reason"), CONDITIONS)
def test_a_value_that_breaks_a_condition_is_rejected_with_its_place(
    declared: dict[str, Any], good: list[Any], bad: list[Any], reason: str
) -> None:
    values = [json.dumps({"v": value}) for value in [*good, *bad]]
    found = fates(decoder({"v": declared}), *values)
    # The same conditions, if the validator must see the whole record.
    assert found == fates(decoder({"v": declared}, maxProperties=9), *values)
    assert [isinstance(fate, dict) for fate in found] == [True] * len(good) + [False] * len(bad)
    assert set(found[len(good) :]) == {reason}


def test_a_condition_speaks_of_the_whole_record() -> None:
    alarm = {"if": {"properties": {"kind": {"const": "alarm"}}, "required": ["kind"]}}
    declared = decoder({"kind": TEXT, "level": WHOLE}, **alarm, then={"required": ["level"]})
    found = fates(declared, '{"kind":"alarm","level":1}', '{"kind":"beat"}', '{"kind":"alarm","level":null}')
    assert found[2] == "breaks_required"
    assert found[:2] == [{"kind": "alarm", "level": 1}, {"kind": "beat", "level": None}]


def test_undeclared_properties_are_ignored_or_rejected_as_the_schema_says() -> None:
    record = '{"id":"a","zone":"x"}'
    assert fates(decoder({"id": TEXT}), record) == [{"id": "a"}]
    closed = decoder(
        {"id": TEXT, "o": {"type": "object", "properties": {"x": TEXT}}}, additionalProperties=False
    )
    assert fates(closed, record, '{"id":"a","o":{"y":"1"}}') == [
        "breaks_additionalProperties",
        {"id": "a", "o": {"x": None}},
    ]


def test_a_name_that_the_schema_does_not_declare_is_not_told() -> None:
    declared = decoder({"id": TEXT}, patternProperties={"^n_": {"maximum": 5}})
    assert fates(declared, '{"id":"a","n_secret":6}') == ["breaks_maximum:[]"]


def test_the_reasons_of_the_decoder_come_first() -> None:
    declared = decoder({"id": {**TEXT, "enum": ["a"]}, "n": NUMBER}, required=["n"])
    found = fates(declared, '{"id":"b"}', '{"id":"b","n":"1"}', '{"id":"b","n":NaN}', '{"id":"b","n":1}', "{")
    assert found == ["missing_required:n", "wrong_type:n", "not_finite:n", "breaks_enum:id", "malformed_json"]


def test_numbers_that_json_does_not_know_are_never_an_error_of_the_pipeline() -> None:
    odd = {**NUMBER, "x-allow-non-finite": True, "maximum": 5}
    found = fates(
        decoder({"n": odd}), '{"n":NaN}', '{"n":2e308}', '{"n":1,"u":[NaN,' + "9" * 5000 + "]}", '{"n":6}'
    )
    assert [isinstance(fate, dict) for fate in found] == [True, True, True, False]
    assert found[3:] == ["breaks_maximum:n"]


def test_csv_is_checked_by_its_typed_fields() -> None:
    document = {
        "type": "object",
        "properties": {
            "id": {**TEXT, "pattern": "^d"},
            "n": {**WHOLE, "minimum": 1},
            "price": PRICE,
            "on": DAY,
        },
    }
    declared = CsvDecoder(load_payload_schema(document, "event.json"), CsvDialect(), LIMIT)
    found = fates(
        declared,
        "d1,1,1.50,2026-02-28",
        "d1,,,",
        "d1,0,1,",
        "x,1,1,",
        "d1,1,1.234,",
        "d1,1,10000,",
        "d1,1,,2026-02-30",
    )
    assert found == [
        {"id": "d1", "n": 1, "price": Decimal("1.50"), "on": date(2026, 2, 28)},
        {"id": "d1", "n": None, "price": None, "on": None},
        "breaks_minimum:n",
        "breaks_pattern:id",
        "wrong_type:price",
        "out_of_range:price",
        "wrong_type:on",
    ]


PRICE = {**NUMBER, "x-decimal": [6, 2]}
DAY = {**TEXT, "format": "date"}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("19.99", Decimal("19.99")),
        ('"19.99"', Decimal("19.99")),
        ("-0.10", Decimal("-0.10")),
        ("1e2", Decimal("100.00")),
        ("1.500", Decimal("1.50")),
        ("9999.99", Decimal("9999.99")),
        ("10000", "out_of_range:p"),
        ("0.001", "out_of_range:p"),
        ('"0.001"', "out_of_range:p"),
        ("123456789012345678901234567890123456", "out_of_range:p"),
        ('"1e-9999999999"', "out_of_range:p"),
        ('"1e9999999999"', "out_of_range:p"),
        ("0.0010e1", Decimal("0.01")),
        ("0e5", Decimal("0.00")),
        ("true", "wrong_type:p"),
        ('"abc"', "wrong_type:p"),
        ('""', "wrong_type:p"),
        ("[1]", "wrong_type:p"),
        ("NaN", "not_decodable"),
        ("null", None),
    ],
)
def test_a_decimal_is_exact_or_rejected(value: str, expected: object) -> None:
    fate = fates(decoder({"p": PRICE}), '{"p":1}', f'{{"p":{value}}}')[1]
    assert (fate["p"] if isinstance(fate, dict) else fate) == expected


def test_a_date_is_a_day_of_the_calendar() -> None:
    values = [
        "2026-02-28",
        "0001-01-01",
        "9999-12-31",
        "2026-02-30",
        "2026-2-3",
        "0000-01-01",
        "20260203",
        "",
    ]
    found = fates(decoder({"d": DAY}), *(json.dumps({"d": value}) for value in values))
    assert [fate["d"] for fate in found[:3]] == [date(2026, 2, 28), date.min, date.max]
    assert found[3:] == ["wrong_type:d"] * 5
    assert decoder({"d": DAY}).columns.field("d").type == pa.date32()


def test_a_map_has_names_of_its_own_and_typed_values() -> None:
    maps = {name: {"type": "object", "additionalProperties": kind} for name, kind in MAPS.items()}
    declared = decoder({"id": TEXT, **maps}, required=["texts"])
    found = fates(
        declared,
        '{"id":"a","texts":{"x":"1","y":null},"numbers":{"n":1,"m":2.5},"wholes":{}}',
        '{"id":"b","texts":{"x":1}}',
        '{"id":"c","texts":{},"numbers":{"n":NaN}}',
        '{"id":"d","texts":{},"wholes":{"n":1.5}}',
        '{"id":"e","texts":{"x":"1","x":"2"}}',
        '{"id":"f","texts":{},"texts":{}}',
        '{"id":"g"}',
        '{"id":"h","texts":{},"wholes":{"n":-1}}',
        '{"id":"i","texts":[]}',
    )
    row = {"id": "a", "texts": [("x", "1"), ("y", None)], "numbers": [("n", 1.0), ("m", 2.5)], "wholes": []}
    assert found == [
        row,
        "wrong_type:texts[]",
        "not_finite:numbers[]",
        "wrong_type:wholes[]",
        "duplicate_field:texts[]",
        "duplicate_field:texts",
        "missing_required:texts",
        "breaks_minimum:wholes[]",
        "wrong_type:texts",
    ]
    assert declared.columns.field("numbers").type == pa.map_(pa.string(), pa.float64())


def test_an_integer_is_one_by_its_value_in_maps_and_for_conditions() -> None:
    wholes = {"type": "object", "additionalProperties": {**WHOLE, "minimum": 0}}
    declared = decoder({"v": {**WHOLE, "maximum": 1000}, "wholes": wholes})
    found = fates(
        declared,
        '{"v":1e3,"wholes":{"n":1.0,"m":null,"l":2}}',
        '{"v":1001.0}',
        '{"wholes":{"n":-1.0}}',
        '{"v":1.0,"wholes":{"n":1.5}}',
        '{"v":1,"wholes":{"n":1e30}}',
    )
    assert found == [
        {"v": 1000, "wholes": [("n", 1), ("m", None), ("l", 2)]},
        "breaks_maximum:v",
        "breaks_minimum:wholes[]",
        "wrong_type:wholes[]",
        "wrong_type:wholes[]",
    ]


MAPS = {"texts": TEXT, "numbers": NUMBER, "wholes": {**WHOLE, "minimum": 0}}


@pytest.mark.parametrize(
    "declared",
    [{**TEXT, "pattern": "("}, {**NUMBER, "minimum": "0"}, {**TEXT, "enum": "a"}, {**TEXT, "anyOf": 1}],
)
def test_a_keyword_with_a_value_that_json_schema_does_not_know_is_refused(declared: dict[str, Any]) -> None:
    with pytest.raises(SpecError) as refused:
        decoder({"v": declared})
    assert refused.value.error_id == "TIDE-SPEC-070"
    assert str(refused.value.facts["at"]).startswith("properties.v")


def test_a_decoder_with_conditions_can_be_sent_to_a_task() -> None:
    declared = decoder({"v": {**NUMBER, "minimum": 0}})
    assert fates(declared, '{"v":-1}') == fates(pickle.loads(pickle.dumps(declared)), '{"v":-1}')
