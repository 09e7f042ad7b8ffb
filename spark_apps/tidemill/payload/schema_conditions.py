"""Check records against the conditions of their JSON Schema: `enum`, `pattern`, `minimum`, `if` and so on.

A validator (jsonschema-rs) checks each record separately, after the decoder and only if the schema has such
keywords. A null property counts as missing, as everywhere in a payload. If the schema allows NaN and
infinity, conditions do not apply to them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa

from tidemill.errors import SpecError
from tidemill.payload.json_keywords import ALL_CONDITIONS, has_conditions
from tidemill.payload.json_schema import EACH_ITEM, PayloadSchema, path_text

NOT_DECODABLE = "not_decodable"

_KEYWORDS = ALL_CONDITIONS | {"additionalProperties", "format", "required", "type"}
# Before a null, or before a number that becomes null.
_MAY_HOLD_NULL = re.compile(r"null|NaN|Inf")
_DECODER = json.JSONDecoder(parse_constant=lambda _: None)


@dataclass(frozen=True)
class Conditions:
    """The conditions of one schema.

    Args:
        document: JSON text of the schema for the validator.
        names: All declared property names.
        columns: Columns with conditions, if all conditions are on values of plain columns; then only those
            columns are checked, and no record is parsed a second time. None if the whole record is needed.
    """

    document: str
    names: frozenset[str]
    columns: tuple[str, ...] | None

    @classmethod
    def of(cls, schema: PayloadSchema) -> Conditions | None:
        """Return the conditions of a schema; None if it has none.

        Raises:
            SpecError: TIDE-SPEC-070, if a keyword has a value that JSON Schema does not know.
        """
        if not schema.conditions:
            return None
        _check(schema)
        document = json.loads(schema.conditions)
        return cls(
            schema.conditions, frozenset(_names(document)), _plain_columns(document, schema.arrow_schema)
        )

    def broken_records(self, rows: pa.RecordBatch, texts: pa.StringArray) -> dict[int, str]:
        """Return the reasons of the JSON records that break a condition, by position.

        Args:
            rows: Rows of the parser.
            texts: The JSON text of each.
        """
        if self.columns is not None:
            return self.broken_rows(rows.select(list(self.columns)))
        return _found(self._of_text(text) for text in texts.to_pylist())

    def broken_rows(self, rows: pa.RecordBatch) -> dict[int, str]:
        """Return the same for records with plain columns only."""
        return _found(self._of(_without_null(row)) for row in rows.to_pylist())

    def _of_text(self, text: str) -> str | None:
        try:
            record = _DECODER.decode(text)
        except (ValueError, RecursionError):
            # `Inf`, thousands of digits, hundreds of lists: the decoder decides about them.
            return NOT_DECODABLE
        return self._of(_without_null(record) if _MAY_HOLD_NULL.search(text) else record)

    def _of(self, record: Any) -> str | None:
        validator = _validator(self.document)
        try:
            if validator.is_valid(record):
                return None
            return self._reason(next(iter(validator.iter_errors(record))))
        except ValueError:
            # The validator does not accept a number or the depth.
            return NOT_DECODABLE

    def _reason(self, error: Any) -> str:
        keyword = next((step for step in reversed(error.schema_path) if step in _KEYWORDS), "schema")
        # A name that the schema does not declare is data.
        path = tuple(step if step in self.names else EACH_ITEM for step in error.instance_path)
        return f"breaks_{keyword}:{path_text(path)}" if path else f"breaks_{keyword}"


def _found(reasons: Iterable[str | None]) -> dict[int, str]:
    return {place: reason for place, reason in enumerate(reasons) if reason is not None}


def _plain_columns(document: Mapping[str, Any], columns: pa.Schema) -> tuple[str, ...] | None:
    if document.keys() != {"properties"}:
        return None
    asked = [name for name, inner in document["properties"].items() if has_conditions(inner)]
    return None if any(pa.types.is_nested(columns.field(name).type) for name in asked) else tuple(asked)


def _check(schema: PayloadSchema) -> None:
    import jsonschema_rs

    try:
        _validator(schema.conditions)
    except jsonschema_rs.ValidationError as error:
        place = tuple(EACH_ITEM if isinstance(step, int) else step for step in error.instance_path)
        raise SpecError(
            "TIDE-SPEC-070",
            "A keyword of the payload schema has a value that JSON Schema does not know.",
            facts={
                "schema": schema.name,
                "at": path_text(place) or "the top",
                "reason": str(error).partition("\n")[0],
            },
            fix="correct the value; see the keyword in JSON Schema, draft 2020-12",
        ) from error


@lru_cache(maxsize=64)
def _validator(document: str) -> Any:
    # Created here, because most schemas need none; cached, because a validator cannot be sent to a task.
    import jsonschema_rs

    return jsonschema_rs.Draft202012Validator(
        json.loads(document), validate_formats=True, ignore_unknown_formats=False
    )


def _names(node: Mapping[str, Any]) -> Iterable[str]:
    for name, inner in node.get("properties", {}).items():
        yield name
        yield from _names(inner)
    for keyword in ("items", "additionalProperties"):
        if isinstance(node.get(keyword), Mapping):
            yield from _names(node[keyword])


def _without_null(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_null(part) for name, part in value.items() if part is not None}
    return [_without_null(part) for part in value] if isinstance(value, list) else value
