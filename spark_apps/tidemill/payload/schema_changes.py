"""Compare a new payload schema with the old one: the effect on old records and on their table. Pure.

Compatible means that every good record stays good, and that a table with `schema_evolution: add_columns`
accepts the rows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from deltalake import Schema

from tidemill.payload import protobuf_resolution
from tidemill.payload.avro_resolution import Problem, resolution_problems, single_record_problems
from tidemill.payload.avro_schema import AvroSchema
from tidemill.payload.column_changes import ColumnChanges, column_changes
from tidemill.payload.json_schema import EACH_ITEM, Path, PayloadSchema, path_text
from tidemill.payload.protobuf_schema import ProtobufSchema


@dataclass(frozen=True)
class SchemaChange:
    """One difference.

    Args:
        path: Readable path of the field; empty for the whole record.
        change: A stable code such as `column_added`.
        compatible: True if old records and tables stay valid.
        reason: Effect of the change.
    """

    path: str
    change: str
    compatible: bool
    reason: str


def json_schema_changes(old: PayloadSchema, new: PayloadSchema) -> list[SchemaChange]:
    """Compare two JSON Schemas."""
    columns = _columns(old.arrow_schema, new.arrow_schema)
    found = [*_of_columns(columns), *_of_required(old, new, columns), *_of_flags(old, new)]
    found += _of_conditions(_conditions(old), _conditions(new), columns)
    return sorted(found, key=lambda change: (change.path, change.change))


def avro_schema_changes(old: AvroSchema, new: AvroSchema) -> list[SchemaChange]:
    """Compare two Avro schemas, by Avro's rules of resolution and by the columns."""
    refused = single_record_problems(old.document, new)
    return _of_records(_columns(old.wire, new.wire), resolution_problems(old.document, new), refused)


def protobuf_schema_changes(old: ProtobufSchema, new: ProtobufSchema) -> list[SchemaChange]:
    """Compare two Protobuf messages, by the meaning of their bytes and by the columns."""
    unreadable = protobuf_resolution.resolution_problems(old.message, new.message)
    refused = protobuf_resolution.single_record_problems(old.message, new.message)
    return _of_records(_columns(old.columns, new.columns), unreadable, refused)


def _of_records(
    columns: ColumnChanges, unreadable: Iterable[Problem], refused: Iterable[Problem]
) -> list[SchemaChange]:
    """Return the changes of columns, and other reasons why old records cannot be read."""
    found = list(_of_columns(columns))
    told = {change.path for change in found if not change.compatible}
    for path, reason in unreadable:
        if path_text(path) not in told:
            found.append(SchemaChange(path_text(path), "unreadable", False, f"old records: {reason}"))
    for path, reason in refused:
        found.append(SchemaChange(path_text(path), "values_refused", False, f"old records: {reason}"))
    return sorted(found, key=lambda change: (change.path, change.change))


def _columns(old: pa.Schema, new: pa.Schema) -> ColumnChanges:
    return column_changes(Schema.from_arrow(old), Schema.from_arrow(new))


def _of_columns(columns: ColumnChanges) -> Iterator[SchemaChange]:
    for path in columns.added:
        yield SchemaChange(path, "column_added", True, "null in older rows")
    for path in columns.removed:
        yield SchemaChange(path, "column_removed", False, "the table has it, and nothing fills it any more")
    for path, types in columns.other_type.items():
        yield SchemaChange(path, "type_changed", False, types)


def _of_required(old: PayloadSchema, new: PayloadSchema, columns: ColumnChanges) -> Iterator[SchemaChange]:
    for path in sorted(set(new.required) - set(old.required)):
        # If the object itself is new, the old records do not have it.
        if not _is_in(path_text(path[:-1]), columns.added):
            reason = "records without it were good, and are rejected"
            yield SchemaChange(path_text(path), "became_required", False, reason)
    for path in sorted(set(old.required) - set(new.required)):
        if not _is_in(path_text(path), columns.removed):
            yield SchemaChange(path_text(path), "became_optional", True, "records without it are good")
    for path in sorted((old.required_nullable - new.required_nullable) & set(new.required)):
        yield SchemaChange(path_text(path), "null_refused", False, "records with null are rejected")
    for path in sorted((new.required_nullable - old.required_nullable) & set(old.required)):
        yield SchemaChange(path_text(path), "null_allowed", True, "records with null are good")


def _of_flags(old: PayloadSchema, new: PayloadSchema) -> Iterator[SchemaChange]:
    flags = (
        ("non_finite", old.non_finite, new.non_finite, "NaN and infinity"),
        ("no_offset", old.no_offset, new.no_offset, "times without an offset"),
    )
    for name, before, after, values in flags:
        for path in sorted(before - after):
            reason = f"records with {values} are rejected"
            yield SchemaChange(path_text(path), f"{name}_refused", False, reason)
        for path in sorted(after - before):
            yield SchemaChange(path_text(path), f"{name}_allowed", True, f"{values} are good")


_Conditions = dict[tuple[str, str], Any]


def _conditions(schema: PayloadSchema) -> _Conditions:
    return dict(_flat(json.loads(schema.conditions), ())) if schema.conditions else {}


def _flat(node: Mapping[str, Any], path: Path) -> Iterator[tuple[tuple[str, str], Any]]:
    for keyword, value in node.items():
        if keyword == "properties":
            for name, inner in value.items():
                yield from _flat(inner, (*path, name))
        elif keyword == "items" or (isinstance(value, Mapping) and keyword == "additionalProperties"):
            yield from _flat(value, (*path, EACH_ITEM))
        else:
            yield (path_text(path), keyword), value


def _of_conditions(old: _Conditions, new: _Conditions, columns: ColumnChanges) -> Iterator[SchemaChange]:
    for path, keyword in sorted(old.keys() | new.keys()):
        before, after = old.get((path, keyword)), new.get((path, keyword))
        if before == after or _is_in(path, columns.removed):
            continue
        if (path, keyword) not in new:
            yield SchemaChange(path, f"{keyword}_removed", True, "more records are good")
        elif (path, keyword) not in old:
            # Old records have no value in a new column.
            is_new = _is_in(path, columns.added)
            yield SchemaChange(path, f"{keyword}_added", is_new, _word(is_new))
        else:
            looser = _is_looser(keyword, before, after)
            yield SchemaChange(path, f"{keyword}_changed", looser, _word(looser))


def _is_in(path: str, columns: tuple[str, ...]) -> bool:
    """Return True if a path is one of these columns, or inside of one."""
    return any(path == column or path.startswith((f"{column}.", f"{column}[]")) for column in columns)


def _word(compatible: bool) -> str:
    return "no good record is rejected" if compatible else "records that were good may be rejected"


_LOOSER: Mapping[str, Callable[[Any, Any], bool]] = {
    "enum": lambda before, after: all(value in after for value in before),
    "uniqueItems": lambda _, after: after is False,
    **dict.fromkeys(
        ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties", "minContains"),
        lambda before, after: after <= before,
    ),
    **dict.fromkeys(
        ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties", "maxContains"),
        lambda before, after: after >= before,
    ),
}


def _is_looser(keyword: str, before: object, after: object) -> bool:
    """Return True if every good record certainly stays good."""
    looser = _LOOSER.get(keyword)
    return looser is not None and looser(before, after)
