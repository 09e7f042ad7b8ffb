"""Decimals are read exactly or not at all: Arrow itself reads some numbers as others, in silence."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Context, Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidemill.payload.csv_decoder import CsvDecoder
from tidemill.payload.csv_fields import CsvDialect
from tidemill.payload.decoder import Decoded
from tidemill.payload.json_decoder import JsonDecoder
from tidemill.payload.json_schema import load_payload_schema

Spelling = Callable[[str], str]

# Arrow 26 reads each as a different number at one of the scales below.
MISREAD = (
    "2.9e-41", "2e-59", "-7e-387", "2.9e-1000", "2.902145861019099e-27", "-7e35", "2e33", "1" + "0" * 37,
    "388368595.00000000068288360", "9634101.00000000000000000021859468585017854865971663804983798642798",
    "-987285361433223027520519331", "123456789012345678901.5e17",
)  # fmt: skip

digits = st.text("0123456789", min_size=1, max_size=45) | st.integers(1, 45).map(lambda zeros: "0" * zeros)
numbers = st.builds(
    "{}{}.{}{}{}".format,
    st.sampled_from(["", "-"]),
    digits.map(lambda text: text.lstrip("0") or "0"),
    digits,
    digits,
    st.just("") | st.integers(-400, 300).map("e{}".format),
)
types = st.integers(1, 38).flatmap(lambda precision: st.tuples(st.just(precision), st.integers(0, precision)))

# Enough for the largest number above: Python's own context rounds to 28 digits.
EXACTLY = Context(prec=500, Emin=-(10**12), Emax=10**12)


def in_json(number: str) -> str:
    return f'{{"d":{number}}}'


def as_text_in_json(number: str) -> str:
    return f'{{"d": "{number}"}}'


def escaped_in_json(number: str) -> str:
    return as_text_in_json("".join(f"\\u{ord(character):04x}" for character in number))


def beside_deep_lists(number: str) -> str:
    return f'{{"x": {"[" * 5000}{"]" * 5000}, "d": {number}}}'


def in_csv(number: str) -> str:
    return number


@pytest.mark.parametrize(("precision", "scale"), [(38, 0), (12, 3), (38, 3), (38, 18), (38, 37), (38, 38)])
@pytest.mark.parametrize("spelled", [in_json, as_text_in_json, escaped_in_json, in_csv])
def test_a_number_that_arrow_misreads_is_read_exactly_or_rejected(
    precision: int, scale: int, spelled: Spelling
) -> None:
    for number in MISREAD:
        assert_exact_or_rejected(spelled, number, precision, scale)


@settings(max_examples=300)
@given(st.sampled_from([in_json, as_text_in_json, in_csv]), numbers, types)
def test_a_number_is_read_exactly_or_rejected(
    spelled: Spelling, number: str, declared: tuple[int, int]
) -> None:
    assert_exact_or_rejected(spelled, number, *declared)


def test_one_that_only_arrow_reads_is_rejected_where_it_could_be_misread() -> None:
    """Next to nested lists, Python's reader cannot check the value."""
    decoded = read(beside_deep_lists, ["2.9", "2.9e-41"], 12, 3)
    assert decoded.rows["d"].to_pylist() == [Decimal("2.900")]
    assert decoded.reasons == ["not_decodable"]


def assert_exact_or_rejected(spelled: Spelling, number: str, precision: int, scale: int) -> None:
    """Decode the number alone, because a failing record in the batch would make the decoder check all."""
    decoded = read(spelled, [number], precision, scale)
    values = decoded.rows["d"].to_pylist()
    assert values in ([], [Decimal(number)])
    if values:
        assert is_held(number, precision, scale)
    elif "e" not in number and len(number) < 30:
        assert not is_held(number, precision, scale)


def read(spelled: Spelling, numbers: list[str], precision: int, scale: int) -> Decoded:
    declared = {"type": "number", "x-decimal": [precision, scale]}
    schema = load_payload_schema({"type": "object", "properties": {"d": declared}}, "decimals.json")
    limit = 100_000
    decoder = CsvDecoder(schema, CsvDialect(), limit) if spelled is in_csv else JsonDecoder(schema, limit)
    return decoder.decode(pa.array([spelled(number).encode() for number in numbers], pa.binary()))


def is_held(number: str, precision: int, scale: int) -> bool:
    _, digits, exponent = EXACTLY.create_decimal(number).normalize(EXACTLY).as_tuple()
    assert isinstance(exponent, int)
    return digits == (0,) or (-exponent <= scale and len(digits) + exponent <= precision - scale)
