"""The rows of a files sink's folder for one query, from the files in the folder's log only.

DataFusion, as included in deltalake, reads only Delta tables, so the rows are copied into a temporary one.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from tidemill.errors import SpecError, UsageError
from tidemill.ledger.files_log import Claim, FilesLog, read_files_log
from tidemill.ledger.table_query import FILES
from tidemill.names import Layout

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable

    from tidemill.spec.pipeline import PipelineSpec
    from tidemill.spec.project_folder import Project
    from tidemill.spec.sinks import FilesSink

# Files that are copied in one commit.
FILES_AT_ONCE = 50

# Name of the folder of null, in Hive's layout.
_NULL = "__HIVE_DEFAULT_PARTITION__"

# Known CSV options. Other options could change the text of a value.
_CSV_OPTIONS = frozenset({"header", "sep", "delimiter", "compression"})

# The form of a claim's layout, such as `json by (day) of id int64, day date32[day]`.
_LAYOUT = re.compile(r"\w+ by \((?P<partitions>.*?)\) of (?P<columns>.*)")
_DECIMAL = re.compile(r"decimal128\((\d+), (\d+)\)")


@dataclass(frozen=True)
class FolderRows:
    """The rows of a files sink's folder.

    Args:
        layout: Layout of the environment.
        sink: The sink.
    """

    layout: Layout
    sink: FilesSink

    def newest_batch(self) -> int | None:
        """Return the newest batch; None if the folder has none."""
        log = read_files_log(self.layout, self.sink.path)
        return None if log is None else log.newest_batch

    def copy_into(self, folder: str) -> tuple[DeltaTable, int] | None:
        """Return a table of the rows, and the newest batch; None if the folder has no batch.

        Raises:
            UsageError: TIDE-QUERY-007.
            DataError: TIDE-LEDG-002, if the folder's log cannot be read.
        """
        log = read_files_log(self.layout, self.sink.path)
        if log is None:
            return None
        check_readable(self.sink)
        return copy_rows(log, self.sink, folder), log.newest_batch


def declared_folders(layout: Layout, project: Project) -> dict[str, FolderRows]:
    """Return all files sinks' folders by their names in a query; invalid pipeline files are skipped."""
    found: dict[str, FolderRows] = {}
    for name in project.pipeline_names():
        with suppress(SpecError):
            found |= folders_of(layout, project.load_pipeline(name))
    return found


def folders_of(layout: Layout, spec: PipelineSpec) -> dict[str, FolderRows]:
    """Return the folders of a pipeline's files sinks by their names in a query."""
    sinks = (sink.files for sink in spec.sinks if sink.files is not None)
    return {f"{FILES}{sink.path}": FolderRows(layout, sink) for sink in sinks}


def check_readable(sink: FilesSink) -> None:
    """Raise an error for files that only Spark reads correctly.

    Raises:
        UsageError: TIDE-QUERY-007.
    """
    known = _CSV_OPTIONS if sink.format == "csv" else {"compression"}
    other = sorted(name for name in sink.options if name not in known)
    if other:
        raise UsageError(
            "TIDE-QUERY-007",
            "Files that are written with these options are read by Spark only.",
            facts={"path": sink.path, "format": sink.format, "options": ", ".join(other)},
            fix="read the folder with Spark; or leave the options out and name another folder",
        )


def copy_rows(log: FilesLog, sink: FilesSink, into: str) -> DeltaTable:
    """Copy the rows of the files in a log.

    Args:
        log: Log of the folder.
        sink: Declaration of the sink.
        into: An empty local folder.
    """
    from deltalake import DeltaTable, write_deltalake

    columns = columns_of(log.claims[-1]) if log.claims else {}
    write_deltalake(into, _no_rows(columns))
    for rows in _rows(log, sink, columns):
        write_deltalake(into, rows, mode="append", schema_mode="merge")
    return DeltaTable(into)


def columns_of(claim: Claim) -> dict[str, pa.DataType | None]:
    """Return the columns of a claim with their types; None for a nested type."""
    match = _LAYOUT.fullmatch(claim.layout)
    columns: dict[str, pa.DataType | None] = {}
    for part in _split(match["columns"]) if match else ():
        name, _, kind = part.strip().partition(" ")
        columns[name] = _type(kind)
    return columns


def _split(text: str) -> list[str]:
    """Split the text at the commas outside of brackets."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "<([") - (character in ">)]")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part for part in parts if part.strip()]


def _type(text: str) -> pa.DataType | None:
    import pyarrow as pa

    if text == "timestamp[us, tz=UTC]":
        return pa.timestamp("us", "UTC")
    if decimal := _DECIMAL.fullmatch(text):
        return pa.decimal128(int(decimal[1]), int(decimal[2]))
    try:
        return pa.type_for_alias(text)
    except ValueError:
        return None


def _no_rows(columns: Mapping[str, pa.DataType | None]) -> pa.Table:
    import pyarrow as pa

    return pa.schema([(name, kind) for name, kind in columns.items() if kind is not None]).empty_table()


def _rows(log: FilesLog, sink: FilesSink, columns: Mapping[str, pa.DataType | None]) -> Iterator[pa.Table]:
    import pyarrow as pa

    files = log.files
    for start in range(0, len(files), FILES_AT_ONCE):
        parts = [_rows_of(log, file, sink, columns) for file in files[start : start + FILES_AT_ONCE]]
        yield pa.concat_tables(parts, promote_options="permissive")


def _rows_of(
    log: FilesLog, file: str, sink: FilesSink, columns: Mapping[str, pa.DataType | None]
) -> pa.Table:
    import pyarrow as pa

    partitions = _partitions(file)
    inside = {name: kind for name, kind in columns.items() if name not in partitions}
    rows = _decoded(log.read(file), file, sink, inside)
    for name, value in partitions.items():
        kind = columns.get(name) or pa.string()
        rows = rows.append_column(name, pa.array([value] * rows.num_rows, pa.string()).cast(kind))
    # Spark writes Parquet timestamps without a zone, and omits JSON fields that are null everywhere.
    for place, field in enumerate(rows.schema):
        kind = columns.get(field.name)
        if kind is not None and kind != field.type:
            rows = rows.set_column(place, field.name, rows[field.name].cast(kind))
    return rows


def _partitions(file: str) -> dict[str, str | None]:
    """Return the partition values in the folders of a file's path, in Hive's layout."""
    values: dict[str, str | None] = {}
    for folder in file.split("/")[:-1]:
        name, sign, value = folder.partition("=")
        if sign:
            values[unquote(name)] = None if value == _NULL else unquote(value)
    return values


def _decoded(
    content: bytes, file: str, sink: FilesSink, columns: Mapping[str, pa.DataType | None]
) -> pa.Table:
    import pyarrow as pa

    if sink.format == "parquet":
        from pyarrow import parquet

        return parquet.read_table(pa.BufferReader(content), coerce_int96_timestamp_unit="us")
    if sink.format == "orc":
        from pyarrow import orc

        return orc.read_table(pa.BufferReader(content))
    source: Any = io.BytesIO(content)
    if file.endswith(".gz"):
        source = pa.CompressedInputStream(source, "gzip")
    return _json(source, columns) if sink.format == "json" else _csv(source, sink, columns)


def _json(source: Any, columns: Mapping[str, pa.DataType | None]) -> pa.Table:
    import pyarrow as pa
    from pyarrow import json

    known = [(name, kind) for name, kind in columns.items() if kind is not None]
    # A declared column that is in no record is null in all rows.
    return json.read_json(source, parse_options=json.ParseOptions(explicit_schema=pa.schema(known)))


def _csv(source: Any, sink: FilesSink, columns: Mapping[str, pa.DataType | None]) -> pa.Table:
    from pyarrow import csv

    options = {name.lower(): str(value) for name, value in sink.options.items()}
    has_header = options.get("header", "false").lower() == "true"
    read = csv.ReadOptions(column_names=None if has_header else list(columns))
    separator = options.get("sep", options.get("delimiter", ","))
    # Spark escapes quotes with a backslash, writes nothing for null, and quotes an empty text.
    parse = csv.ParseOptions(
        delimiter=separator, double_quote=False, escape_char="\\", newlines_in_values=True
    )
    convert = csv.ConvertOptions(
        column_types={name: kind for name, kind in columns.items() if kind is not None},
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    return csv.read_csv(source, read_options=read, parse_options=parse, convert_options=convert)
