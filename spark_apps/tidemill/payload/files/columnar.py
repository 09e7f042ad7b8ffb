"""Read Parquet, ORC and Avro files, whose typed columns are compared with the declared ones.

| in the file                                                    | result                                 |
|----------------------------------------------------------------|----------------------------------------|
| a file that is not of the format, or torn                      | `damaged_file:<format>: <error>`       |
| a column of a type that is not a part of the declared one      | `wrong_file_type:<path>: <both types>` |
| a missing declared column, at any depth                        | null                                   |
| a name in another case, if there is only one such name         | the column                             |
| bytes for a declared string that are not UTF-8                 | `damaged_file`                         |

A type is a part of another type if the other type can represent all of its values: `int` is a part of
`bigint`, `double` and `decimal(10, 0)`. A timestamp of any unit and without a zone is a part of `timestamp`,
in UTC.
"""

from __future__ import annotations

import importlib.util
import io
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, cast

import pyarrow as pa
import pyarrow.compute as pc

from tidemill.payload.decoder import Decoded
from tidemill.payload.files.avro_files import DAMAGED_AVRO, AvroColumnFile
from tidemill.payload.files.byte_ranges import FileRange
from tidemill.payload.files.file_columns import NamesInFiles
from tidemill.payload.files.folder_columns import FolderColumns
from tidemill.payload.files.reading import FilePiece, damage, whole_ranges
from tidemill.payload.files.records import FileRejectedError
from tidemill.payload.json_schema import EACH_ITEM, path_text
from tidemill.payload.json_schema import Path as FieldPath
from tidemill.payload.timestamps import INSTANT, LOCAL_TIME

# Rows that are decoded at once.
_ROWS = 50_000

_DAMAGED = (pa.ArrowException, OSError, ValueError, EOFError, *DAMAGED_AVRO)


class ColumnFile(Protocol):
    """An open file with columns."""

    @property
    def schema(self) -> pa.Schema:
        """Return its columns."""

    def batches(self, columns: list[str]) -> Iterator[Decoded]:
        """Yield the rows of the range with these columns."""


class _Bytes(io.RawIOBase):
    """A seekable file object for pyarrow."""

    def __init__(self, source: FileRange) -> None:
        self._source = source
        self._place = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self._source.size}[whence]
        self._place = base + offset
        return self._place

    def tell(self) -> int:
        return self._place

    def read(self, size: int = -1) -> bytes:
        rest = max(0, self._source.size - self._place)
        found = self._source.content.read(self._place, rest if size < 0 else min(size, rest))
        self._place += len(found)
        return found


class _ParquetFile:
    def __init__(self, source: FileRange) -> None:
        import pyarrow.parquet as pq

        self._file = pq.ParquetFile(pa.PythonFile(_Bytes(source), "r"))
        self._source = source

    @property
    def schema(self) -> pa.Schema:
        return cast(pa.Schema, self._file.schema_arrow)

    def batches(self, columns: list[str]) -> Iterator[Decoded]:
        groups = [number for number in range(self._file.num_row_groups) if self._is_here(number)]
        if groups:
            yield from map(_all_good, self._file.iter_batches(_ROWS, row_groups=groups, columns=columns))

    def _is_here(self, number: int) -> bool:
        """Return True if the middle of a row group is in the range, which is Spark's rule."""
        group = self._file.metadata.row_group(number)
        columns = [group.column(place) for place in range(group.num_columns)]
        begin = min(column.dictionary_page_offset or column.data_page_offset for column in columns)
        middle = begin + sum(column.total_compressed_size for column in columns) // 2
        return bool(self._source.start <= middle < self._source.end)


class _OrcFile:
    def __init__(self, source: FileRange) -> None:
        from pyarrow import orc

        _find_time_zones()
        self._file = orc.ORCFile(pa.PythonFile(_Bytes(source), "r"))
        self._source = source

    @property
    def schema(self) -> pa.Schema:
        return self._file.schema

    def batches(self, columns: list[str]) -> Iterator[Decoded]:
        count = self._file.nstripes
        for number in range(count):
            # pyarrow does not report where a stripe is, so each counts as an equal part of the file.
            if self._source.start <= number * self._source.size // count < self._source.end:
                yield _all_good(self._file.read_stripe(number, columns=columns))


def _find_time_zones(system: str = "/usr/share/zoneinfo") -> None:
    """Let the ORC library find time zones if the system has none, as in small images."""
    package = importlib.util.find_spec("tzdata")
    if "TZDIR" not in os.environ and not Path(system).is_dir() and package is not None and package.origin:
        os.environ["TZDIR"] = str(Path(package.origin).with_name("zoneinfo"))


_OPEN: dict[str, Callable[[FileRange], ColumnFile]] = {
    "parquet": _ParquetFile,
    "orc": _OrcFile,
    "avro": AvroColumnFile,
}


@dataclass(frozen=True)
class ColumnFiles:
    """Files with columns.

    Args:
        format: Format of the files.
        columns: The declared columns.
        names: Collects the columns that files have.
        folders: Provides columns from folders, which are not missing.
    """

    format: str
    columns: pa.Schema
    names: NamesInFiles
    folders: FolderColumns

    def pieces(self, source: FileRange) -> Iterator[FilePiece]:
        """Read a range."""
        try:
            file = _OPEN[self.format](source)
            found = _columns_of(file.schema, pa.struct(self.columns), ())
        except _DAMAGED as error:
            raise FileRejectedError(damage(self.format, error)) from error
        if source.is_first:
            self._report(source, file.schema, found)
        batches = file.batches([name for name in found if name is not None])
        pieces = (self._piece(source, batch, found) for batch in batches)
        yield from whole_ranges(source, pieces, _DAMAGED, self.format)

    def _report(self, source: FileRange, file: pa.Schema, found: list[str | None]) -> None:
        """Report the file's columns, and undeclared ones only if a declared column is missing."""
        given = self.folders.values_of(source)
        columns = [
            name or (column if column in given else None)
            for name, column in zip(found, self.columns.names, strict=True)
        ]
        missing = any(name is None for name in columns)
        self.names.add(columns, sorted(set(file.names) - set(found)) if missing else [])

    def _piece(self, source: FileRange, decoded: Decoded, found: list[str | None]) -> FilePiece:
        file = decoded.rows
        arrays = [
            pa.nulls(len(file), declared.type) if name is None else _as(file.column(name), declared.type)
            for declared, name in zip(self.columns, found, strict=True)
        ]
        rows = pa.RecordBatch.from_arrays(arrays, schema=self.columns)
        return FilePiece.of_columns(source, replace(decoded, rows=rows))


def _all_good(rows: pa.RecordBatch) -> Decoded:
    return Decoded(rows, pa.arange(0, len(rows)), pa.array([], pa.int64()), [])


def _columns_of(file: pa.Schema, declared: pa.StructType, path: FieldPath) -> list[str | None]:
    """Return the file's name of each declared column; None if it is missing.

    Raises:
        FileRejectedError: If a column's type is not a part of the declared one.
    """
    names: list[str | None] = []
    for column in declared:
        name = _name_in(file, column.name)
        names.append(name)
        if name is not None:
            _check_type(file.field(name).type, column.type, (*path, column.name))
    return names


def _name_in(file: pa.Schema, name: str) -> str | None:
    if len(file.get_all_field_indices(name)) == 1:
        return name
    alike = [known for known in file.names if known.lower() == name.lower()]
    return alike[0] if len(alike) == 1 else None


def _check_type(found: pa.DataType, declared: pa.DataType, path: FieldPath) -> None:
    found = _plain(found)
    if pa.types.is_struct(declared) and pa.types.is_struct(found):
        _columns_of(pa.schema(list(found)), declared, path)
    elif pa.types.is_list(declared) and _is_list(found):
        _check_type(found.value_type, declared.value_type, (*path, EACH_ITEM))
    elif pa.types.is_map(declared) and pa.types.is_map(found):
        _check_type(found.key_type, declared.key_type, (*path, "key"))
        _check_type(found.item_type, declared.item_type, (*path, EACH_ITEM))
    elif not _is_part(found, declared):
        raise FileRejectedError(f"wrong_file_type:{path_text(path)}: {found} is not {declared}")


def _plain(kind: pa.DataType) -> pa.DataType:
    """Return a type without its storage form."""
    if pa.types.is_dictionary(kind):
        return _plain(kind.value_type)
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    is_bytes = (
        pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind) or pa.types.is_binary_view(kind)
    )
    return pa.binary() if is_bytes else kind


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


# Number of integer bits that a floating-point type represents exactly.
_EXACT_BITS = {pa.float32(): 24, pa.float64(): 53}


def _is_part(found: pa.DataType, declared: pa.DataType) -> bool:
    """Return True if a declared type can represent all values of a file's type."""
    if found == declared or pa.types.is_null(found):
        return True
    if declared in (INSTANT, LOCAL_TIME):
        return bool(pa.types.is_timestamp(found))
    if declared in (pa.string(), pa.binary()):
        return found in (pa.string(), pa.binary())
    if pa.types.is_integer(found):
        bits = _bits(found)
        if pa.types.is_integer(declared):
            return bits <= _bits(declared)
        if pa.types.is_decimal(declared):
            return bool(10 ** (declared.precision - declared.scale) >= 2**bits)
        return bool(bits <= _EXACT_BITS.get(declared, 0))
    if pa.types.is_decimal(found) and pa.types.is_decimal(declared):
        digits = found.precision - found.scale
        return bool(found.scale <= declared.scale and digits <= declared.precision - declared.scale)
    return bool(declared == pa.float64() and found in (pa.float16(), pa.float32()))


def _bits(kind: pa.DataType) -> int:
    return int(kind.bit_width) - bool(pa.types.is_signed_integer(kind))


def _as(array: pa.Array, declared: pa.DataType) -> pa.Array:
    """Return values of a file in their declared type."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if array.offset:
        # Copied, because the values of a slice do not begin at its offset.
        array = array.take(pa.arange(0, len(array)))
    if array.type == declared:
        return array
    if pa.types.is_dictionary(array.type):
        return _as(array.dictionary_decode(), declared)
    if pa.types.is_struct(declared):
        return _as_struct(array, declared)
    if pa.types.is_map(declared):
        keys, items = _as(array.keys, declared.key_type), _as(array.items, declared.item_type)
        return pa.MapArray.from_arrays(array.offsets, keys, items, mask=array.is_null())
    if pa.types.is_list(declared):
        lists = array.cast(pa.list_(array.type.value_type))
        # Offsets of a slice do not begin at 0, and a null may have items.
        items = _as(lists.flatten(), declared.value_type)
        lengths = pc.fill_null(pc.list_value_length(lists), 0)
        offsets = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths)])
        return pa.ListArray.from_arrays(offsets.cast(pa.int32()), items, mask=lists.is_null())
    if pa.types.is_timestamp(declared):
        return array.cast(pa.timestamp("us", array.type.tz), safe=False).cast(declared)
    return array.cast(declared)


def _as_struct(array: pa.StructArray, declared: pa.StructType) -> pa.StructArray:
    file = pa.schema(list(array.type))
    children = []
    for column in declared:
        name = _name_in(file, column.name)
        child = None if name is None else pc.struct_field(array, name)
        children.append(pa.nulls(len(array), column.type) if child is None else _as(child, column.type))
    return pa.StructArray.from_arrays(children, fields=list(declared), mask=array.is_null())
