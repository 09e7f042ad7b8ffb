"""Columns from folders: `landing/day=2026-01-31/a.json` gives the column `day`, if the schema declares it.

Values are read like CSV fields. `%20` means a blank, as Hive writes it, and `__HIVE_DEFAULT_PARTITION__`
means null.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from tidemill.payload.csv_decoder import typed_texts
from tidemill.payload.files.byte_ranges import FileRange
from tidemill.payload.json_schema import PayloadSchema
from tidemill.spec.files_place import FilesPlace

_NULL = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True)
class FolderColumns:
    """Columns that folders may provide.

    Args:
        schema: The declared columns.
        place: Folder of the source. None if its path begins with a wildcard; then every folder counts.
    """

    schema: PayloadSchema
    place: FilesPlace | None

    def values_of(self, source: FileRange) -> Mapping[str, str | None]:
        """Return the values from the folders of a file, by declared column."""
        found: dict[str, str | None] = {}
        name_below = None if self.place is None else self.place.name_of_uri(source.file)
        for folder in (name_below or unquote(source.file)).split("/")[:-1]:
            name, equals, value = folder.partition("=")
            column = self._columns.get(unquote(name).lower())
            if equals and column is not None:
                found[column] = None if value == _NULL else unquote(value)
        return found

    @property
    def _columns(self) -> Mapping[str, str]:
        return {
            field.name.lower(): field.name
            for field in self.schema.arrow_schema
            if not pa.types.is_nested(field.type)
        }

    def put(
        self, rows: pa.RecordBatch, sources: Sequence[FileRange], places: pa.Int64Array
    ) -> tuple[pa.RecordBatch, dict[int, str]]:
        """Put the values into rows.

        Args:
            rows: Decoded rows.
            sources: The files.
            places: For each row, the index of its file in `sources`.

        Returns:
            The rows, and the reason for each source whose folder has a value that does not fit its column.
        """
        values = [self.values_of(source) for source in sources]
        names = [
            field.name for field in self.schema.arrow_schema if any(field.name in each for each in values)
        ]
        if not names:
            return rows, {}
        texts = [pa.array([each.get(name) for each in values], pa.string()) for name in names]
        fields = pa.schema([self.schema.arrow_schema.field(name) for name in names])
        typed, wrong = typed_texts(texts, self._only(fields))
        arrays = dict(zip(rows.schema.names, rows.columns, strict=True))
        for name, column in zip(names, typed.columns, strict=True):
            given = pa.array([name in each for each in values])
            arrays[name] = pc.if_else(given.take(places), column.take(places), arrays[name])
        return pa.RecordBatch.from_arrays(list(arrays.values()), schema=rows.schema), wrong

    def _only(self, fields: pa.Schema) -> PayloadSchema:
        return PayloadSchema(self.schema.name, fields, (), frozenset(), no_offset=self.schema.no_offset)
