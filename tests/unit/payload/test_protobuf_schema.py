"""Descriptor sets that cannot be a pipeline's schema: each refused with its place."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf import descriptor_pb2

from tests.support.protobuf_schemas import PROTOC_MADE, descriptor_set, message
from tidemill.errors import SpecError
from tidemill.payload.protobuf_schema import load_protobuf_schema

TYPES = (PROTOC_MADE / "types.desc").read_bytes()


def without_imports() -> bytes:
    made = descriptor_pb2.FileDescriptorSet.FromString(TYPES)
    kept = [file for file in made.file if file.name != "place.proto"]
    return descriptor_pb2.FileDescriptorSet(file=kept).SerializeToString()


def refusal(declared: bytes, name: str = "shop.Order") -> SpecError:
    with pytest.raises(SpecError) as refused:
        load_protobuf_schema(declared, name, "order.desc")
    assert refused.value.facts["schema"] == "order.desc"
    return refused.value


@pytest.mark.parametrize(
    "declared",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b'syntax = "proto3";', id="text"),
        pytest.param(TYPES[:-5], id="cut off"),
        pytest.param(without_imports(), id="without what it imports"),
        pytest.param(descriptor_set(message("Order", "Missing v = 1")), id="without a type"),
        pytest.param(descriptor_set(message("Order", "int32 a = 1", "int32 b = 1")), id="number twice"),
        pytest.param(descriptor_set(message("Order", "int32 a = 1"), message("Order")), id="name twice"),
    ],
)
def test_what_is_no_whole_descriptor_set_is_refused_with_protoc_s_command(declared: bytes) -> None:
    error = refusal(declared)
    assert error.error_id == "TIDE-SPEC-064"
    assert "protoc --include_imports --descriptor_set_out" in error.fix


@pytest.mark.parametrize(
    ("wanted", "near"), [("Order", "shop.Order"), ("shop.Ordr", "shop.Order"), ("a.b.C", "name one of them")]
)
def test_an_unknown_message_is_told_with_the_near_one(wanted: str, near: str) -> None:
    error = refusal(TYPES, wanted)
    assert (error.error_id, error.facts["message"], near in error.fix) == ("TIDE-SPEC-065", wanted, True)
    assert error.facts["known"] == "shop.Order, shop.Other, shop.Other.Inner, shop.Place, shop.Place.Room"


NODE = message("Node", "string name = 1", "repeated Node below = 2")


@pytest.mark.parametrize(
    ("types", "error_id", "at"),
    [
        ((message("Order", "Order parent = 1"),), "TIDE-SPEC-066", "parent"),
        ((message("Order", "int32 id = 1", "Node tree = 2"), NODE), "TIDE-SPEC-066", "tree.below[]"),
        ((message("Order", "map<string, Node> trees = 1"), NODE), "TIDE-SPEC-066", "trees[].value.below[]"),
        ((message("Order"),), "TIDE-SPEC-066", "the top"),
        ((message("Order", "Empty v = 1"), message("Empty")), "TIDE-SPEC-066", "v"),
        ((message("Order", "int32 a = 1", "int32 A = 2"),), "TIDE-SPEC-024", "A"),
    ],
)
def test_what_no_column_could_hold_is_refused_with_its_place(
    types: tuple[Any, ...], error_id: str, at: str
) -> None:
    error = refusal(descriptor_set(*types, syntax="proto2"))
    assert (error.error_id, error.facts["at"]) == (error_id, at)


def test_messages_that_multiply_beyond_any_table_are_refused_at_once() -> None:
    levels = [message(f"L{n}", f"L{n + 1} a = 1", f"L{n + 1} b = 2") for n in range(40)]
    declared = descriptor_set(message("Order", "L0 v = 1"), *levels, message("L40", "int32 a = 1"))
    assert refusal(declared).error_id == "TIDE-SPEC-066"


def test_files_that_everybody_has_may_be_left_out() -> None:
    made = descriptor_pb2.FileDescriptorSet.FromString(TYPES)
    own = [file for file in made.file if not file.name.startswith("google/")]
    bare = descriptor_pb2.FileDescriptorSet(file=own).SerializeToString()
    whole = load_protobuf_schema(TYPES, "shop.Order", "order.desc")
    assert load_protobuf_schema(bare, "shop.Order", "order.desc") == whole


def test_one_message_may_be_used_in_several_places() -> None:
    place = message("Place", "double x = 1")
    declared = descriptor_set(message("Order", "Place a = 1", "repeated Place b = 2"), place)
    columns = load_protobuf_schema(declared, "shop.Order", "order.desc").columns
    assert columns.field("b").type.value_type == columns.field("a").type
