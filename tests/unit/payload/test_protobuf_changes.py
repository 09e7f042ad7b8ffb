"""Drift of Protobuf messages: what `tidemill schema check` says of it, and what writers are refused for."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.protobuf_schemas import enum, message, schema
from tidemill.errors import SpecError
from tidemill.payload.protobuf_resolution import check_resolves
from tidemill.payload.schema_changes import protobuf_schema_changes

NEW, OLD = "int32 id = 1", "string name = 2"

# Old, new, and what is said: path, change, whether it is compatible.
DRIFT: dict[str, tuple[tuple[Any, ...], tuple[Any, ...], list[tuple[str, str, bool]]]] = {
    "nothing": ((NEW,), (NEW,), []),
    "another order": ((NEW, OLD), (OLD, NEW), []),
    "a field more": ((NEW,), (NEW, OLD), [("name", "column_added", True)]),
    "a field less": ((NEW, OLD), (NEW,), [("name", "column_removed", False)]),
    "a number reused with another type": (
        (NEW, OLD),
        (NEW, "int64 name = 2"),
        [("name", "type_changed", False)],
    ),
    "a number reused with another type and name": (
        (NEW, OLD),
        (NEW, "int64 count = 2"),
        [
            ("count", "column_added", True),
            ("count", "unreadable", False),
            ("name", "column_removed", False),
        ],
    ),
    "a number of another encoding in the same column": (
        (NEW,),
        ("sint32 id = 1",),
        [("id", "unreadable", False)],
    ),
    "another number": ((NEW,), ("int32 id = 7",), [("id", "unreadable", False)]),
    "another name": (
        (NEW,),
        ("int32 key = 1",),
        [("id", "column_removed", False), ("key", "column_added", True)],
    ),
    "a longer integer": ((NEW,), ("int64 id = 1",), [("id", "type_changed", False)]),
    "a list of what was one": ((NEW,), ("repeated int32 id = 1",), [("id", "type_changed", False)]),
    "presence": ((NEW,), ("optional int32 id = 1",), [("id", "unreadable", False)]),
    "a member more of a oneof": (
        ("oneof paid string card = 1", NEW.replace("1", "3")),
        ("oneof paid string card = 1", "oneof paid int64 cash = 2", NEW.replace("1", "3")),
        [("cash", "column_added", True)],
    ),
    "fields that become members of a oneof": (
        ("optional string card = 1", "optional int64 cash = 2"),
        ("oneof paid string card = 1", "oneof paid int64 cash = 2"),
        [("cash", "unreadable", False)],
    ),
    "a field inside of a message": (
        ("Inner v = 1", message("Inner", "int32 a = 1")),
        ("Inner v = 1", message("Inner", "int32 a = 1", "int32 b = 2")),
        [("v.b", "column_added", True)],
    ),
    "another number in each item": (
        ("repeated Inner v = 1", message("Inner", "int32 a = 1")),
        ("repeated Inner v = 1", message("Inner", "int32 a = 2")),
        [("v[].a", "unreadable", False)],
    ),
    "a symbol more": (
        ("Kind v = 1", enum("Kind", A=0)),
        ("Kind v = 1", enum("Kind", A=0, B=1)),
        [],
    ),
    "a symbol less": (
        ("Kind v = 1", enum("Kind", A=0, B=1)),
        ("Kind v = 1", enum("Kind", A=0)),
        [("v", "values_refused", False)],
    ),
    "a symbol of another name": (
        ("Kind v = 1", enum("Kind", A=0, B=1)),
        ("Kind v = 1", enum("Kind", A=0, C=1)),
        [("v", "unreadable", False)],
    ),
    "bytes that become text": (
        ("bytes v = 1",),
        ("string v = 1",),
        [("v", "type_changed", False), ("v", "values_refused", False)],
    ),
}


def schema_of(*parts: Any, syntax: str = "proto3") -> Any:
    """Return a schema with an `Order` of these lines and the messages and enums that they use."""
    lines = [part for part in parts if isinstance(part, str)]
    return schema(message("Order", *lines), *(part for part in parts if part not in lines), syntax=syntax)


@pytest.mark.parametrize("case", DRIFT)
def test_each_change_of_a_message_is_named_and_judged(case: str) -> None:
    old, new, expected = DRIFT[case]
    found = protobuf_schema_changes(schema_of(*old), schema_of(*new))
    assert [(change.path, change.change, change.compatible) for change in found] == expected


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("optional int32 v = 1", "required int32 v = 1", "need not be written"),
        ("optional int32 v = 1", "optional int32 v = 1 default 5", "null, and is its default"),
    ],
)
def test_labels_and_defaults_of_proto2_are_compared(old: str, new: str, says: str) -> None:
    [change] = protobuf_schema_changes(schema_of(old, syntax="proto2"), schema_of(new, syntax="proto2"))
    assert (change.compatible, says in change.reason) == (False, True), change


@pytest.mark.parametrize(
    ("writer", "reader"),
    [
        ("int32 v = 1", "int64 v = 1"),
        ("int64 v = 1", "int32 v = 1"),
        ("uint32 v = 1", "int64 v = 1"),
        ("uint64 v = 1", "uint32 v = 1"),
        ("string v = 1", "bytes v = 1"),
        ("bytes v = 1", "string v = 1"),
        ("int32 v = 2", "int32 w = 1"),
    ],
)
def test_a_writer_whose_values_stay_or_are_rejected_one_by_one_is_read(writer: str, reader: str) -> None:
    check_resolves(schema_of(writer), schema_of(reader))


@pytest.mark.parametrize(
    ("writer", "reader"),
    [
        ("int32 v = 1", "uint32 v = 1"),
        ("int64 v = 1", "uint64 v = 1"),
        ("uint64 v = 1", "int64 v = 1"),
        ("int64 v = 1", "sint64 v = 1"),
        ("fixed32 v = 1", "sfixed32 v = 1"),
        ("int32 v = 1", "bool v = 1"),
        ("bytes v = 1", "Kind v = 1"),
        ("string v = 1", "repeated string v = 1"),
        ("map<string, int32> v = 1", "map<string, string> v = 1"),
    ],
)
def test_a_writer_whose_values_could_become_others_is_refused(writer: str, reader: str) -> None:
    kind = enum("Kind", A=0)
    with pytest.raises(SpecError) as refused:
        check_resolves(schema_of(writer, kind), schema_of(reader, kind))
    assert refused.value.error_id == "TIDE-SPEC-067"
    assert str(refused.value.facts["at"]).startswith("v")
