"""Schema hints: Spark DDL as the columns of the JSON decoder."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tidemill.errors import SpecError
from tidemill.payload.json_schema import load_payload_schema
from tidemill.payload.schema_hints import hinted_columns, hints_of
from tidemill.payload.timestamps import INSTANT
from tidemill.spec.files_source import FilesSource


def test_each_type_of_json_can_be_hinted_at() -> None:
    columns = hinted_columns(
        "a string, b BIGINT, c: double, d boolean, e timestamp, f date, g dec(10, 2) COMMENT 'x', "
        "h array<long>, i struct<Site: string, parts array<struct<n: double>>>, j map<string, double>"
    )
    assert load_payload_schema(columns, "test").arrow_schema == pa.schema(
        [
            ("a", pa.string()),
            ("b", pa.int64()),
            ("c", pa.float64()),
            ("d", pa.bool_()),
            ("e", INSTANT),
            ("f", pa.date32()),
            ("g", pa.decimal128(10, 2)),
            ("h", pa.list_(pa.int64())),
            (
                "i",
                pa.struct([("Site", pa.string()), ("parts", pa.list_(pa.struct([("n", pa.float64())])))]),
            ),
            ("j", pa.map_(pa.string(), pa.float64())),
        ]
    )


@pytest.mark.parametrize(
    ("ddl", "says"),
    [
        ("a int", "use long"),
        ("a varchar(10)", "use string"),
        ("a binary", "no type binary"),
        ("a long NOT NULL", "any file may lack it"),
        ("`a.b` long", "a dot, bracket or backtick"),
        ("_rescued_data string", "is reserved"),
        ("a map<long, long>", "its keys are strings"),
        ("a struct<b: map<string, long>>", "a map is a column by itself"),
        ("a array<longg>", "did you mean long"),
    ],
)
def test_hints_that_cannot_be_used_say_why(ddl: str, says: str) -> None:
    with pytest.raises(SpecError) as refused:
        hinted_columns(ddl)
    assert refused.value.error_id == "TIDE-SPEC-034"
    assert says in str(refused.value.facts["reason"])


def test_a_hinted_name_that_no_table_takes_is_refused_as_in_a_schema_file() -> None:
    with pytest.raises(SpecError) as refused:
        hinted_columns("`a b` long")
    assert refused.value.error_id == "TIDE-SPEC-024"


@pytest.mark.parametrize("nested", ["array<long>", "struct<b: long>", "map<string, long>"])
def test_a_field_of_csv_is_plain(nested: str) -> None:
    declared = {"path": "landing", "schema_evolution": "rescue", "schema_hints": f"id long, a {nested}"}
    json_files = FilesSource.model_validate({**declared, "format": "json"})
    assert list(hints_of(json_files)["properties"]) == ["id", "a"]
    with pytest.raises(SpecError) as refused:
        hints_of(FilesSource.model_validate({**declared, "format": "csv"}))
    assert refused.value.error_id == "TIDE-SPEC-034"
    assert "a field of CSV" in str(refused.value.facts["reason"])
