"""Read maps, which are objects with arbitrary names and which `pyarrow.json` does not read.

They are read from each record's text with the standard library, by the decoder's type rules.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from tidemill.payload.json_explain import OTHERWISE_SPELLED, Expected, explain, read_integer
from tidemill.payload.json_schema import EACH_ITEM, path_text
from tidemill.payload.whole_numbers import with_whole_numbers

NOT_DECODABLE = "not_decodable"

_DECODER = json.JSONDecoder(parse_int=read_integer)


class MapReader:
    """Reads the maps at the top of records.

    Args:
        schema: All columns.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._maps = pa.schema([field for field in schema if pa.types.is_map(field.type)])
        self._expected = Expected.of(pa.struct(self._maps))

    @property
    def others(self) -> pa.Schema:
        """Return the columns other than maps."""
        return pa.schema([field for field in self._schema if not pa.types.is_map(field.type)])

    def added(self, rows: pa.RecordBatch, texts: pa.StringArray) -> tuple[pa.RecordBatch, dict[int, str]]:
        """Return the rows with their maps, and the reasons of records with invalid maps."""
        if not self._maps.names:
            return rows, {}
        values: dict[str, list[Any]] = {name: [] for name in self._maps.names}
        broken: dict[int, str] = {}
        for place, text in enumerate(texts.to_pylist()):
            found = self._read(text)
            if isinstance(found, str):
                broken[place] = found
                found = {}
            for name, column in values.items():
                column.append(found.get(name))
        columns = [
            pa.array(values[field.name], field.type) if field.name in values else rows.column(field.name)
            for field in self._schema
        ]
        return pa.RecordBatch.from_arrays(columns, names=self._schema.names), broken

    def _read(self, text: str) -> dict[str, list[tuple[str, Any]] | None] | str:
        reason = explain(text, self._expected)
        if reason not in (None, OTHERWISE_SPELLED):
            return reason
        try:
            record: Mapping[str, Any] = _DECODER.decode(with_whole_numbers(text) if reason else text)
        except (ValueError, RecursionError):
            # `Inf`, or hundreds of lists: the block decoder decides about them.
            return NOT_DECODABLE
        maps: dict[str, list[tuple[str, Any]] | None] = {}
        for field in self._maps:
            found = record.get(field.name)
            if found is not None and pa.types.is_floating(field.type.item_type):
                found = {key: None if value is None else _number(value) for key, value in found.items()}
                if any(value is not None and not math.isfinite(value) for value in found.values()):
                    return f"not_finite:{path_text((field.name, EACH_ITEM))}"
            maps[field.name] = None if found is None else list(found.items())
        return maps


def _number(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf
