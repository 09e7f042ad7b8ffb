"""The corpus of records: the same bytes give the same rows and reasons from a topic and from a file.

Each record is decoded by `payload` from a topic, by `payload` from a file, and by the DDL of a files source.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.support.read_files import Decoded, read_files, read_topic

PROPERTIES: dict[str, Any] = {
    "id": {"type": "integer"},
    "name": {"type": "string"},
    "price": {"type": "number"},
    "amount": {"type": "number", "x-decimal": [10, 2]},
    "ok": {"type": "boolean"},
    "at": {"type": "string", "format": "date-time", "x-allow-no-offset": True},
    "day": {"type": "string", "format": "date"},
}
DDL = "id long, name string, price double, amount decimal(10, 2), ok boolean, at timestamp, day date"
EMPTY = dict.fromkeys(PROPERTIES)
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@dataclass(frozen=True)
class Case:
    """One record: what is in its row, or why it has none."""

    fault: str
    record: bytes
    row: dict[str, Any] | None = None
    reason: str | None = None


def rejected(fault: str, record: str | bytes, reason: str) -> Case:
    return Case(fault, record if isinstance(record, bytes) else record.encode(), reason=reason)


def row(fault: str, record: str, **values: Any) -> Case:
    return Case(fault, record.encode(), {**EMPTY, **values})


JSON_CASES = [
    row("plain", '{"id": 1, "name": "a", "ok": true}', id=1, name="a", ok=True),
    row("times", '{"at": "2026-03-01T12:00:00Z", "day": "2026-03-01"}', at=NOON, day=date(2026, 3, 1)),
    row("an offset", '{"at": "2026-03-01T13:00:00+01:00"}', at=NOON),
    row("no offset", '{"at": "2026-03-01 12:00:00"}', at=NOON),
    row("an undeclared name", '{"id": 1, "other": {"x": [1]}}', id=1),
    row("a name in another case", '{"ID": 1}'),
    row("a decimal", '{"amount": 2.50}', amount=Decimal("2.50")),
    row("a decimal as a string", '{"amount": "2.5"}', amount=Decimal("2.50")),
    row("escapes", r'{"name": "a \"q\" \u00fc \\ b"}', name='a "q" ü \\ b'),
    rejected("a name twice", '{"id": 1, "id": 2}', "duplicate_field:id"),
    rejected("single quotes", "{'id': 1}", "malformed_json"),
    rejected("text behind the object", '{"id": 1} x', "malformed_json"),
    rejected("two objects", '{"id": 1}{"id": 2}', "malformed_json"),
    rejected("a comment", '{"id": 1 /* one */}', "malformed_json"),
    rejected("half an object", '{"id": 1', "malformed_json"),
    rejected("a number for a string", '{"name": 7}', "wrong_type:name"),
    rejected("an object for a string", '{"name": {"x": 1}}', "wrong_type:name"),
    rejected("a string for a number", '{"id": "1"}', "wrong_type:id"),
    rejected("a fraction for an integer", '{"id": 1.5}', "wrong_type:id"),
    rejected("a decimal with more digits", '{"amount": 1.005}', "out_of_range:amount"),
    rejected("NaN", '{"price": NaN}', "not_finite:price"),
    rejected("too large for a double", '{"price": 2e308}', "not_finite:price"),
    rejected("a day that does not exist", '{"day": "2026-02-30"}', "wrong_type:day"),
    rejected("a list", "[1]", "not_an_object"),
    rejected("not UTF-8", b'{"name": "\xff"}', "invalid_utf8"),
    rejected("Latin-1", '{"name": "ü"}'.encode("latin-1"), "invalid_utf8"),
]

CSV_CASES = [
    row("plain", "1,a,1.5,2.50,true,,", id=1, name="a", price=1.5, amount=Decimal("2.50"), ok=True),
    row("times", ",,,,,2026-03-01T12:00:00Z,2026-03-01", at=NOON, day=date(2026, 3, 1)),
    row("no offset", ",,,,,2026-03-01 12:00:00,", at=NOON),
    row("quotes in a field", '1,"a ""q"" b",,,,,', id=1, name='a "q" b'),
    row("a separator in a field", '1,"a, b",,,,,', id=1, name="a, b"),
    row("a line break in a field", '1,"a\nb",,,,,', id=1, name="a\nb"),
    row("an empty text", '1,"",,,,,', id=1, name=""),
    row("a backslash", r"1,a\b\,,,,,", id=1, name="a\\b\\"),
    row("a backslash before a quote", r'1,"a\",,,,,', id=1, name="a\\"),
    rejected("a quote in a field without quotes", '1,a "q" b,,,,,', "malformed_csv"),
    rejected("text after a quote", '1,"a" b,,,,,', "malformed_csv"),
    rejected("a decimal comma", '1,a,,"2,50",,,', "wrong_type:amount"),
    rejected("commas between digits", '1,a,,"1,2,3",,,', "wrong_type:amount"),
    rejected("a decimal with more digits", "1,a,,1.005,,,", "wrong_type:amount"),
    rejected("a fraction for an integer", "1.5,a,,,,,", "wrong_type:id"),
    rejected("a text for a number", "x,a,,,,,", "wrong_type:id"),
    rejected("another boolean", "1,a,,,yes,,", "wrong_type:ok"),
    rejected("too few fields", "1,a", "wrong_field_count"),
    rejected("too many fields", "1,a,,,,,,,", "wrong_field_count"),
    rejected("NaN", "1,a,NaN,,,,", "not_finite:price"),
    rejected("not UTF-8", b"1,\xff,,,,,", "invalid_utf8"),
]


def payload(folder: Path, file_format: str) -> dict[str, Any]:
    """Return a payload with the corpus' columns."""
    schemas = folder / "conf/schemas"
    schemas.mkdir(parents=True, exist_ok=True)
    (schemas / "corpus.json").write_text(json.dumps({"type": "object", "properties": PROPERTIES}))
    return {file_format: {"schema": "corpus.json"}}


def check(found: Decoded, cases: list[Case]) -> None:
    assert found.rows == [case.row for case in cases if case.row is not None]
    set_aside = [(each.reason, each.value) for each in found.rejected]
    assert set_aside == [(case.reason, case.record) for case in cases if case.reason is not None]


@pytest.mark.parametrize(("file_format", "cases"), [("json", JSON_CASES), ("csv", CSV_CASES)])
def test_a_topic_and_a_file_give_the_same_rows_and_reasons(
    tmp_path: Path, file_format: str, cases: list[Case]
) -> None:
    declared = payload(tmp_path, file_format)
    records = [case.record for case in cases]
    file = {f"a.{file_format}": b"".join(record + b"\n" for record in records)}

    check(read_topic(tmp_path, records, declared), cases)
    check(read_files(tmp_path, file, {}, payload=declared), cases)
    check(read_files(tmp_path, file, {"format": file_format, "schema": DDL}), cases)


@pytest.mark.parametrize("case", JSON_CASES + CSV_CASES, ids=lambda case: case.fault)
def test_a_record_does_not_depend_on_its_neighbours(tmp_path: Path, case: Case) -> None:
    file_format = "json" if case in JSON_CASES else "csv"
    files = {"format": file_format, "schema": DDL}
    check(read_files(tmp_path, {"a": case.record}, files), [case])


@pytest.mark.parametrize("range_bytes", [1, 7, 64, 1000])
@pytest.mark.parametrize(("file_format", "cases"), [("json", JSON_CASES), ("csv", CSV_CASES)])
def test_a_file_that_is_read_in_ranges_gives_the_same(
    tmp_path: Path, file_format: str, cases: list[Case], range_bytes: int
) -> None:
    content = b"".join(case.record + b"\r\n" for case in cases)
    files = {"format": file_format, "schema": DDL}
    whole = read_files(tmp_path, {"a": content}, files)
    parts = read_files(tmp_path, {"a": content}, files, range_bytes)
    assert (parts.rows, parts.rejected) == (whole.rows, whole.rejected)
    check(whole, cases)
