"""Convert the part of JSON Schema (draft 2020-12) that Tidemill enforces to Arrow types.

| JSON Schema                                       | column                            |
|---------------------------------------------------|-----------------------------------|
| `string`                                          | string                            |
| `string` with `format: date-time`                 | timestamp, microseconds, UTC      |
| the same with `x-allow-no-offset: true`           | one without offset is taken as UTC|
| `string` with `format: date`                      | date                              |
| `integer`                                         | int64                             |
| `number`                                          | float64, finite                   |
| the same with `x-allow-non-finite: true`          | float64, also NaN and infinity    |
| the same with `x-decimal: [10, 2]`; or a string   | decimal, 2 of its 10 digits after the point |
| `boolean`                                         | boolean                           |
| `object` with `properties` (and `required`)       | struct                            |
| `array` with `items`                              | list                              |
| `object` with a plain schema as `additionalProperties` alone, at the top | map of strings |
| `[X, "null"]`                                     | like X; see below                 |

A required property must be present and, unless its type allows null, not null. Any other property may
be missing or null, and both are read as null. Properties that are not declared are ignored, unless
`additionalProperties` is false. `json_keywords.py` lists the other conditions on values, which a validator
checks. Annotations are allowed. Every other keyword is refused, because a schema that promises more than it
checks is worse than none.

The keywords that begin with `x-` are Tidemill's. Spark sorts NaN above all numbers, so `avg_temp > 100` is
true for NaN. A local time that is read as UTC is hours off. A record with either is rejected unless the
schema allows it.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from tidemill.errors import SpecError
from tidemill.payload.decimals import MAX_DIGITS
from tidemill.payload.json_keywords import (
    ALL_CONDITIONS,
    ALLOW_NO_OFFSET,
    ALLOW_NON_FINITE,
    COLUMN_FORMATS,
    DECIMAL,
    DECODED,
    INSIDE_CONDITIONS,
    TEXT_FORMATS,
    conditions_of,
    has_conditions,
    inner_schemas,
    keywords_of,
)
from tidemill.payload.timestamps import INSTANT

# One step of a path: a property's name, or this for "each item of the list".
EACH_ITEM = "[]"

Path = tuple[str, ...]

_SCALARS: Mapping[str, pa.DataType] = {
    "string": pa.string(),
    "integer": pa.int64(),
    "number": pa.float64(),
    "boolean": pa.bool_(),
}
_FORMATTED: Mapping[object, pa.DataType] = {"date-time": INSTANT, "date": pa.date32()}

# Delta and Parquet refuse these characters in a column's name.
_FORBIDDEN_IN_NAMES = frozenset(" ,;{}()\n\t=")


@dataclass(frozen=True)
class PayloadSchema:
    """The form of a payload and its columns.

    Args:
        name: File name, for error messages.
        arrow_schema: The decoded columns; all nullable, because the decoder checks `required`.
        required: Paths that must be present, such as `("device", "id")` or `("readings", "[]", "value")`. A
            path below an optional object or list counts only if that is present.
        required_nullable: Paths of `required` that may be null but not missing.
        non_finite: Numbers that may be NaN or infinite.
        no_offset: Instants that may be written without an offset.
        conditions: JSON text of the validator's conditions; empty if there are none.
    """

    name: str
    arrow_schema: pa.Schema
    required: tuple[Path, ...]
    required_nullable: frozenset[Path]
    non_finite: frozenset[Path] = frozenset()
    no_offset: frozenset[Path] = frozenset()
    conditions: str = ""


def load_payload_schema(document: Mapping[str, object], name: str) -> PayloadSchema:
    """Build the schema that `document`, the parsed JSON of the file `name`, declares.

    Raises:
        SpecError: TIDE-SPEC-020 a keyword that Tidemill does not check; 021 a part is missing or has the
            wrong shape; 022 an unsupported type or format; 023 `required` names no property; 024 a
            property's name cannot name a column.
    """
    reader = _SchemaReader(name)
    if document.get("type") != "object":
        raise reader.error("021", "A payload schema describes an object.", (), fix='write "type": "object"')
    fields = reader.fields(document, ())
    if all(pa.types.is_map(field.type) for field in fields):
        fix = "declare one more property, of another type"
        raise reader.error("021", "A record has other properties than maps.", (), fix=fix)
    return PayloadSchema(
        name,
        pa.schema(fields),
        tuple(reader.required),
        frozenset(reader.required_nullable),
        frozenset(reader.allowed[ALLOW_NON_FINITE]),
        frozenset(reader.allowed[ALLOW_NO_OFFSET]),
        json.dumps(conditions) if has_conditions(conditions := conditions_of(document)) else "",
    )


def path_text(path: Path) -> str:
    """Return a path as users write it: `device.id`, `readings[].value`."""
    return ".".join(path).replace("." + EACH_ITEM, EACH_ITEM)


class _SchemaReader:
    """Walks one document and collects the paths with special rules."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.required: list[Path] = []
        self.required_nullable: set[Path] = set()
        self.allowed: dict[str, set[Path]] = {ALLOW_NON_FINITE: set(), ALLOW_NO_OFFSET: set()}

    def fields(self, node: Mapping[str, object], path: Path) -> list[pa.Field]:
        """Return the columns of an object's properties, in the order of the document."""
        self._check_keywords(node, "object", path)
        properties = node.get("properties")
        if not isinstance(properties, Mapping) or not properties:
            raise self.error("021", "An object must declare its properties.", path, fix='add "properties"')
        self._check_names(properties, path)
        self._collect_required(node.get("required", []), properties, path)
        return [pa.field(key, self._type(value, (*path, key))) for key, value in properties.items()]

    def _type(self, node: object, path: Path) -> pa.DataType:
        if not isinstance(node, Mapping):
            raise self.error("021", "A property is described by an object.", path, fix='write {"type": …}')
        kind, _ = self._kind(node, path)
        if kind == "object" and "properties" not in node and "additionalProperties" in node:
            return self._map(node, path)
        if kind == "object":
            return pa.struct(self.fields(node, path))
        self._check_keywords(node, kind, path)
        if kind == "array":
            if "items" not in node:
                raise self.error("021", "An array must declare its items.", path, fix='add "items"')
            return pa.list_(self._type(node["items"], (*path, EACH_ITEM)))
        self._collect_allowed(node, path)
        if DECIMAL in node:
            return self._decimal(node, path)
        self._check_format(node, path)
        return _FORMATTED.get(node.get("format"), _SCALARS[kind])

    def _map(self, node: Mapping[str, object], path: Path) -> pa.DataType:
        self._refuse_unknown(node, keywords_of("object") - {"required"}, "on a map", path)
        self._check_conditions(node, path)
        each = (*path, EACH_ITEM)
        value = self._type(node["additionalProperties"], each)
        is_plain = value in _SCALARS.values() and each not in self.allowed[ALLOW_NON_FINITE]
        if len(path) > 1 or not is_plain:
            fix = "give it plain values (string, integer, number, boolean), or declare its properties"
            raise self.error("022", "A map has plain values, and stands at the top.", path, fix=fix)
        return pa.map_(pa.string(), value)

    def _decimal(self, node: Mapping[str, object], path: Path) -> pa.DataType:
        match node[DECIMAL]:
            case [int(digits), int(scale)] if 0 < digits <= MAX_DIGITS and 0 <= scale <= digits:
                pass
            case found:
                fix = f"write [digits, digits of the fraction], at most {MAX_DIGITS} digits, e.g. [10, 2]"
                raise self.error("021", f"{DECIMAL} is two numbers.", path, {DECIMAL: found}, fix)
        if beside := sorted(node.keys() & (ALL_CONDITIONS | {ALLOW_NON_FINITE})):
            fix = "check it in the transform: a decimal may also come as a string"
            raise self.error("020", f"{DECIMAL} stands alone.", path, {"keyword": beside[0]}, fix)
        return pa.decimal128(digits, scale)

    def _check_format(self, node: Mapping[str, object], path: Path) -> None:
        known = COLUMN_FORMATS | TEXT_FORMATS
        if "format" in node and node["format"] not in known:
            facts = {"format": node["format"]}
            near = difflib.get_close_matches(str(node["format"]), sorted(known), n=1)
            fix = (
                f"did you mean {near[0]}?" if near else f"use one of {', '.join(sorted(known))}, or remove it"
            )
            raise self.error("022", "This format is not supported.", path, facts, fix)

    def _kind(self, node: Mapping[str, object], path: Path) -> tuple[str, bool]:
        """Return the type's name and True if null is allowed."""
        declared = node.get("type")
        names = [declared] if isinstance(declared, str) else declared
        if isinstance(names, list) and all(isinstance(name, str) for name in names):
            others = [name for name in names if name != "null"]
            if len(others) == 1 and len(names) <= 2 and others[0] in DECODED:
                return others[0], len(names) == 2
        facts = {"type": declared, "supported": ", ".join(DECODED)}
        raise self.error("022", "This type is not supported.", path, facts, 'use one type, or [type, "null"]')

    def _check_keywords(self, node: Mapping[str, object], kind: str, path: Path) -> None:
        self._refuse_unknown(node, keywords_of(kind), f"on type {kind}", path)
        if not isinstance(node.get("additionalProperties", True), bool):
            facts = {"keyword": "additionalProperties"}
            fix = "use true (others are ignored), false (a record with others is rejected), or no properties"
            raise self.error("020", "additionalProperties is true or false.", path, facts, fix)
        self._check_conditions(node, path)

    def _check_conditions(self, node: Mapping[str, object], path: Path) -> None:
        for keyword, inner in inner_schemas(node, ALL_CONDITIONS):
            self._check_condition(inner, (*path, keyword))

    def _check_condition(self, node: object, path: Path) -> None:
        """Raise an error for parts of a condition that its validator would ignore, or fetch remotely."""
        if not isinstance(node, Mapping):
            return
        self._refuse_unknown(node, INSIDE_CONDITIONS, "in a condition", path)
        if node.get("format") != "date-time":
            self._check_format(node, path)
        for keyword, inner in inner_schemas(node, INSIDE_CONDITIONS):
            self._check_condition(inner, (*path, keyword))

    def _refuse_unknown(
        self, node: Mapping[str, object], allowed: frozenset[str], where: str, path: Path
    ) -> None:
        for keyword in node:
            if keyword not in allowed:
                near = difflib.get_close_matches(keyword, sorted(allowed), n=1)
                fix = f"did you mean {near[0]}? " if near else ""
                fix += "Remove it, or check it in the transform: Tidemill would not check it"
                problem = f"This keyword is not supported {where}."
                raise self.error("020", problem, path, {"keyword": keyword}, fix)

    def _collect_allowed(self, node: Mapping[str, object], path: Path) -> None:
        for keyword in self.allowed.keys() & node.keys():
            if not isinstance(node[keyword], bool):
                raise self.error("021", f"{keyword} is true or false.", path, fix="write true, or remove it")
            if keyword == ALLOW_NO_OFFSET and node.get("format") != "date-time":
                fix = 'add "format": "date-time", or remove it'
                raise self.error("020", f"{keyword} is for a date-time.", path, {"keyword": keyword}, fix)
            if node[keyword]:
                self.allowed[keyword].add(path)

    def _check_names(self, properties: Mapping[str, object], path: Path) -> None:
        seen: dict[str, str] = {}
        for key in properties:
            if not key or key == EACH_ITEM or _FORBIDDEN_IN_NAMES & set(key):
                fix = "use letters, digits and underscores"
                raise self.error("024", "This name cannot name a column.", path, {"property": repr(key)}, fix)
            # Spark does not distinguish columns by case.
            twin = seen.setdefault(key.lower(), key)
            if twin != key:
                facts = {"property": key, "other": twin}
                raise self.error(
                    "024", "Two properties differ only by case.", path, facts, "declare one of them"
                )

    def _collect_required(self, names: object, properties: Mapping[str, object], path: Path) -> None:
        if not isinstance(names, list):
            raise self.error(
                "021", "required is a list of property names.", path, fix='write "required": […]'
            )
        for key in names:
            if key not in properties:
                near = difflib.get_close_matches(str(key), list(properties), n=1)
                fix = f"did you mean {near[0]}?" if near else "declare it in properties"
                raise self.error("023", "required names no property.", path, {"required": key}, fix)
            self.required.append((*path, key))
            node = properties[key]
            if isinstance(node, Mapping) and self._kind(node, (*path, key))[1]:
                self.required_nullable.add((*path, key))

    def error(
        self,
        number: str,
        problem: str,
        path: Path,
        facts: Mapping[str, object] | None = None,
        fix: str = "",
    ) -> SpecError:
        """Return an error that names the file and the place in it."""
        where = {"schema": self.name, "at": path_text(path) or "the top"}
        return SpecError(f"TIDE-SPEC-{number}", problem, facts={**where, **(facts or {})}, fix=fix)
