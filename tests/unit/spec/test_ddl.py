from __future__ import annotations

from pathlib import Path

import pytest

from tidemill.errors import SpecError
from tidemill.spec.ddl import column_types

FILE = Path("orders.yaml")


def test_top_level_columns_and_types_are_read_in_order() -> None:
    ddl = (
        "device string, `at time` TIMESTAMP not null,\n"
        "p struct<x: double, y: array<map<string, int>>>, d decimal(10,2)"
    )
    assert column_types(ddl, FILE) == {
        "device": "string",
        "at time": "timestamp not null",
        "p": "struct<x: double, y: array<map<string, int>>>",
        "d": "decimal(10,2)",
    }


@pytest.mark.parametrize(
    "ddl", ["", "device", "a string,", "a string, A int", "a array<string", "a string>", ",a int"]
)
def test_ddl_that_names_no_columns_is_refused(ddl: str) -> None:
    with pytest.raises(SpecError) as caught:
        column_types(ddl, FILE)
    assert caught.value.error_id == "TIDE-SPEC-031"
    assert caught.value.facts["file"] == FILE
