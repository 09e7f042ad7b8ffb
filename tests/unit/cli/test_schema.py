"""`tidemill schema check`: verdict, exit code and JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.command_line import CommandLine
from tests.support.protobuf_schemas import descriptor_set, message

ID, COUNT = {"type": "string"}, {"type": "integer", "minimum": 0}


@pytest.fixture
def schemas(tidemill: CommandLine) -> dict[str, str]:
    """Return files by their names."""
    documents: dict[str, Any] = {
        "old.json": {"id": ID, "n": COUNT},
        "more.json": {"id": ID, "n": COUNT, "zone": ID},
        "other.json": {"id": {"type": "integer"}, "n": COUNT, "zone": ID},
        "wrong.json": {"id": {"type": "string", "pattern": "("}},
    }
    files = {}
    for name, properties in documents.items():
        file = tidemill.folder / name
        file.write_text(json.dumps({"type": "object", "properties": properties}))
        files[name] = str(file)
    avro = {"type": "record", "name": "Event", "fields": [{"name": "id", "type": "long"}]}
    file = tidemill.folder / "event.avsc"
    file.write_text(json.dumps(avro))
    files["event.avsc"] = str(file)
    messages = {"old.desc": ("int32 id = 1",), "more.desc": ("int32 id = 1", "string zone = 2")}
    for name, fields in {**messages, "reused.desc": ("string id = 1",)}.items():
        file = tidemill.folder / name
        file.write_bytes(descriptor_set(message("Order", *fields)))
        files[name] = str(file)
    return files


def test_a_schema_that_only_adds_is_compatible(tidemill: CommandLine, schemas: dict[str, str]) -> None:
    found = tidemill.json("schema", "check", schemas["old.json"], schemas["more.json"])
    assert (found["compatible"], found["old"]) == (True, schemas["old.json"])
    assert found["changes"] == [
        {"path": "zone", "change": "column_added", "compatible": True, "reason": "null in older rows"}
    ]
    assert tidemill("schema", "check", schemas["event.avsc"], schemas["event.avsc"]) == 0
    assert tidemill.out == "0 changes, 0 incompatible\n"


def test_a_schema_that_does_not_fit_ends_with_1_and_says_where(
    tidemill: CommandLine, schemas: dict[str, str]
) -> None:
    assert tidemill("schema", "check", schemas["old.json"], schemas["other.json"]) == 1
    [line] = [line.split() for line in tidemill.out.splitlines() if line.startswith("incompatible")]
    assert line[:3] == ["incompatible", "id", "type_changed"]
    assert tidemill.out.endswith("2 changes, 1 incompatible\n")
    assert tidemill("schema", "check", schemas["old.json"], schemas["other.json"], "--json") == 1
    assert [c["path"] for c in json.loads(tidemill.out)["changes"] if not c["compatible"]] == ["id"]


@pytest.mark.parametrize(
    ("old", "new", "error_id"),
    [
        ("old.json", "event.avsc", "TIDE-CLI-030"),
        ("old.json", "wrong.json", "TIDE-SPEC-070"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    tidemill: CommandLine, schemas: dict[str, str], old: str, new: str, error_id: str
) -> None:
    assert tidemill("schema", "check", schemas[old], schemas[new]) == 2
    assert error_id in tidemill.err


def test_a_message_of_two_descriptor_sets_is_compared(tidemill: CommandLine, schemas: dict[str, str]) -> None:
    of = ("--message", "shop.Order")
    found = tidemill.json("schema", "check", schemas["old.desc"], schemas["more.desc"], *of)
    assert (found["compatible"], [c["path"] for c in found["changes"]]) == (True, ["zone"])
    assert tidemill("schema", "check", schemas["old.desc"], schemas["reused.desc"], *of) == 1
    assert tidemill.out.endswith("1 changes, 1 incompatible\n")
    assert tidemill("schema", "check", schemas["old.desc"], schemas["more.desc"]) == 2
    assert "TIDE-CLI-031" in tidemill.err
    assert tidemill("schema", "check", schemas["old.json"], schemas["more.json"], *of) == 2
    assert "TIDE-CLI-031" in tidemill.err
