from __future__ import annotations

import csv
import io
import pickle
import re
import subprocess
import sys
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidemill.errors import SpecError
from tidemill.payload.csv_decoder import CsvDecoder
from tidemill.payload.csv_fields import CsvDialect
from tidemill.payload.json_schema import load_payload_schema

PROPERTIES: dict[str, Any] = {
    "id": {"type": "integer"},
    "name": {"type": "string"},
    "price": {"type": "number"},
    "sold": {"type": "boolean"},
    "at": {"type": "string", "format": "date-time"},
    "note": {"type": ["string", "null"]},
}


def decoder(properties: dict[str, Any] = PROPERTIES, separator: str = ",", **schema: Any) -> CsvDecoder:
    document = {"type": "object", "properties": properties, **schema}
    return CsvDecoder(load_payload_schema(document, "order.json"), CsvDialect(separator), 1000)


DECODER = decoder(required=["id", "note"])
GOOD = '1,"a ""b"", c",1.5,true,2026-01-01T00:00:00Z,'
MOMENT = datetime(2026, 1, 1, tzinfo=UTC)


def outcome(record: bytes | str | None, by: CsvDecoder = DECODER) -> Any:
    """Return the row's values, or the reason."""
    value = record.encode() if isinstance(record, str) else record
    decoded = by.decode(pa.array([value], pa.binary()))
    return list(decoded.rows.to_pylist()[0].values()) if len(decoded.rows) else decoded.reasons[0]


def with_field(name: str, text: str) -> str:
    fields = ["1", "x", "1.5", "true", "2026-01-01T00:00:00Z", "n"]
    fields[list(PROPERTIES).index(name)] = text
    return ",".join(fields)


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (GOOD, [1, 'a "b", c', 1.5, True, MOMENT, None]),
        (GOOD + "\r\n", [1, 'a "b", c', 1.5, True, MOMENT, None]),
        (
            '-9223372036854775808,"two\nlines",-.5e-3,false,,""',
            [-(2**63), "two\nlines", -5e-4, False, None, ""],
        ),
        ("007, blanks ,1.,,,☃", [7, " blanks ", 1.0, None, None, "☃"]),
        (None, "null_value"),
        ("x" * 1001, "oversized"),
        (b"\xff,,,,,", "invalid_utf8"),
        ("", "wrong_field_count"),
        ("1,2,3,4,5", "wrong_field_count"),
        ("1,2,3,4,5,6,7", "wrong_field_count"),
        (GOOD + "\n" + GOOD, "malformed_csv"),
        ("1,a\nb,,,,", "malformed_csv"),
        ('1,5" pipe,,,,', "malformed_csv"),
        ('1,"open,,,,', "malformed_csv"),
        ('1,"a"b,,,,', "malformed_csv"),
        (",,,,,", "missing_required:id"),
        *[
            (with_field("id", text), "wrong_type:id")
            for text in ("1.0", "+1", " 1", "0x1F", "1_0", "9223372036854775808", "٣", "1" * 900, "-")
        ],
        *[
            (with_field("price", text), "wrong_type:price")
            for text in ("1x", "0x1p3", "nan", "1e", ".", "1 ")
        ],
        *[
            (with_field("price", text), "not_finite:price")
            for text in ("NaN", "-Infinity", "Inf", "1e400", "9" * 400)
        ],
        *[(with_field("sold", text), "wrong_type:sold") for text in ("True", "1", "yes")],
        (with_field("at", "yesterday"), "wrong_type:at"),
        (with_field("at", "2026-01-01T00:00:00"), "no_offset:at"),
        ("x,,NaN,yes,,", "wrong_type:id"),
    ],
)
def test_a_record_is_a_row_or_has_a_reason(record: Any, expected: Any):
    assert outcome(record) == expected


def test_leading_zeros_beyond_nineteen_digits_are_no_reason_to_reject():
    assert outcome(with_field("id", "0" * 30 + "5"))[0] == 5


@pytest.mark.parametrize("separator", [";", "\t", "|", "^", "]", "\\", "☃"])
def test_any_separator_divides_fields_with_and_without_quotes(separator: str):
    by = decoder({"a": {"type": "string"}, "b": {"type": "string"}}, separator)
    assert outcome(f"x,y{separator}z", by) == ["x,y", "z"]
    assert outcome(f'"x{separator}""y"{separator}z', by) == [f'x{separator}"y', "z"]


def test_a_record_of_one_empty_field_is_a_row_of_null():
    assert outcome("", decoder({"a": {"type": "string"}})) == [None]


def test_a_schema_may_allow_what_is_not_finite_and_times_without_offset():
    by = decoder(
        {
            "price": {"type": "number", "x-allow-non-finite": True},
            "at": {"type": "string", "format": "date-time", "x-allow-no-offset": True},
        }
    )
    assert outcome("-Infinity,2026-01-01T00:00:00", by) == [float("-inf"), MOMENT]
    assert outcome("1e999,", by) == [float("inf"), None]


TEXTS = st.text(alphabet='ab,"\n\r 1', max_size=6)
RECORDS = st.one_of(
    st.none(),
    st.binary(max_size=8),
    TEXTS.map(str.encode),
    st.tuples(TEXTS, st.integers()).map(lambda pair: written(*pair).encode()),
)


def written(*fields: object) -> str:
    text = io.StringIO()
    csv.writer(text).writerow(fields)
    return text.getvalue().removesuffix("\r\n")


PAIRS = decoder({"text": {"type": "string"}, "number": {"type": "integer"}})


@given(st.lists(RECORDS, max_size=20))
def test_a_record_s_fate_does_not_depend_on_its_neighbours(records: list[bytes | None]):
    together = PAIRS.decode(pa.array(records, pa.binary()))
    alone = [PAIRS.decode(pa.array([record], pa.binary())) for record in records]
    assert together.rows.to_pylist() == [row for one in alone for row in one.rows.to_pylist()]
    assert together.reasons == [reason for one in alone for reason in one.reasons]
    assert sorted([*together.kept.to_pylist(), *together.rejected.to_pylist()]) == list(range(len(records)))


@given(TEXTS, st.integers(-(2**63), 2**63 - 1))
def test_what_python_writes_as_csv_is_read_back(text: str, number: int):
    # Python quotes an empty text only where it must, and null and empty are the same to it.
    assert outcome(written(text, number), PAIRS) == [text or None, number]


# RFC 4180 as a pattern that can go back: short, and 100 times its field in memory.
FIELD = re.compile(r'(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\Z)')


def read_plainly(line: str) -> Any:
    fields: list[str | None] = []
    end, after = 0, ","
    while after:
        found = FIELD.match(line, end)
        if found is None:
            return "malformed_csv"
        quoted, plain, after = found.groups()
        fields.append((plain or None) if quoted is None else quoted.replace('""', '"'))
        end = found.end()
    return fields if len(fields) == 2 else "wrong_field_count"


TWO_TEXTS = decoder({"a": {"type": "string"}, "b": {"type": "string"}})


@settings(max_examples=500)
@given(st.lists(st.sampled_from(['"', '""', ",", "\n", "\r", "a", "☃"]), max_size=12).map("".join))
def test_quotes_are_read_as_the_plain_rule_reads_them(line: str):
    # A line break at the end belongs to the record.
    assert outcome(line, TWO_TEXTS) == read_plainly(re.sub(r"\r?\n\Z", "", line))


READS_A_LARGE_FIELD = """
import resource

import pyarrow as pa

from tidemill.payload.csv_decoder import CsvDecoder
from tidemill.payload.csv_fields import CsvDialect
from tidemill.payload.json_schema import load_payload_schema

document = {"type": "object", "properties": {"a": {"type": "string"}}}
decoder = CsvDecoder(load_payload_schema(document, "a.json"), CsvDialect(), 2**23)
text = "x" * 2**21 + '""' * 2**20
record = pa.array([f'"{text}"'.encode()], pa.binary())
decoder.decode(pa.array([b'"x"'], pa.binary()))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
rows = decoder.decode(record).rows.to_pylist()
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
assert rows == [{"a": text.replace('""', '"')}]
"""


def test_a_large_field_in_quotes_takes_no_multiple_of_its_size_in_memory():
    """Use 4 MB in a separate process, because no tracer sees the memory of a backtracking pattern."""
    done = subprocess.run(
        [sys.executable, "-c", READS_A_LARGE_FIELD], capture_output=True, text=True, check=True
    )
    # The unit is kilobytes. Copies of the record take about 20 MB, and a backtracking pattern another 400 MB.
    assert int(done.stdout) < 150_000


def test_fields_that_hold_fields_are_refused():
    for nested in (
        {"type": "object", "properties": {"x": {"type": "number"}}},
        {"type": "array", "items": {"type": "string"}},
    ):
        with pytest.raises(SpecError) as refused:
            decoder({"id": {"type": "integer"}, "place": nested})
        assert refused.value.error_id == "TIDE-SPEC-060"
        assert (refused.value.facts["schema"], refused.value.facts["at"]) == ("order.json", "place")


def test_a_decoder_travels_to_spark_s_workers():
    travelled = pickle.loads(pickle.dumps(DECODER))
    assert outcome(GOOD, travelled) == outcome(GOOD)
