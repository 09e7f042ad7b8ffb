"""Create the reader of a files source: how its files are cut, and how their records are decoded."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyspark.accumulators import Accumulator

from tidemill.payload.avro_decoder import AvroDecoder
from tidemill.payload.csv_decoder import CsvDecoder, field_places
from tidemill.payload.csv_fields import CsvDialect, CsvSplitter
from tidemill.payload.declared_columns import declared_schema
from tidemill.payload.decoder import MAX_BLOCK_BYTES, Decoded, Decoder
from tidemill.payload.decoders import decoder_of
from tidemill.payload.discovered import DiscoveredColumns
from tidemill.payload.files.avro_files import avro_pieces
from tidemill.payload.files.byte_ranges import FileRange
from tidemill.payload.files.columnar import ColumnFiles
from tidemill.payload.files.cutters import (
    NO_NAMES,
    CsvRecords,
    Cutter,
    DelimitedMessages,
    FieldNames,
    Lines,
    WholeFile,
)
from tidemill.payload.files.discovered_records import DiscoveredRecords
from tidemill.payload.files.file_columns import FileColumns, NamesInFiles
from tidemill.payload.files.folder_columns import FolderColumns
from tidemill.payload.files.reading import FileReader, RangeReader, RecordReader
from tidemill.payload.files.records import FileRecords
from tidemill.payload.json_decoder import JsonDecoder
from tidemill.payload.json_schema import PayloadSchema
from tidemill.payload.json_text import primitives_as_strings
from tidemill.payload.text_decoder import TextDecoder
from tidemill.spec.files_place import files_place
from tidemill.spec.files_source import FilesSource
from tidemill.spec.pipeline import PipelineSpec
from tidemill.spec.project import Pipeline


def file_reader(
    pipeline: Pipeline,
    discovered: DiscoveredColumns | None,
    report: Accumulator[FileColumns] | None = None,
) -> tuple[FileReader, FolderColumns | None]:
    """Return the reader of a pipeline's files, and the provider of columns from their folders.

    Args:
        pipeline: The pipeline.
        discovered: Its columns, if they are not declared.
        report: Carries the column names in files to the driver.

    Raises:
        SpecError: If a schema cannot be enforced.
    """
    files, spec = pipeline.spec.source.chosen, pipeline.spec
    if discovered is not None:
        records = DiscoveredRecords(discovered)
        cutter = cutter_of(spec, CsvSplitter(dialect_of(files)), discovered.columns["properties"])
        return RecordReader(cutter, records.decode, records.columns, records.finish), None
    if spec.payload is None and spec.file_format in ("parquet", "orc", "avro"):
        declared = declared_schema(files)
        given = _folders(pipeline, declared)
        names = NamesInFiles(declared.arrow_schema.names, report)
        opened = ColumnFiles(spec.file_format, declared.arrow_schema, names, given)
        return RangeReader(opened.columns, opened.pieces, names.finish), given
    decoder, schema = _decoder(pipeline, files)
    if isinstance(decoder, AvroDecoder):
        return RangeReader(decoder.columns, partial(avro_pieces, decoder)), None
    folders = None if schema is None else _folders(pipeline, schema)
    return _record_reader(pipeline, decoder, folders, report), folders


def _folders(pipeline: Pipeline, schema: PayloadSchema) -> FolderColumns:
    return FolderColumns(schema, files_place(pipeline.layout, pipeline.spec.source.chosen.path))


def _decoder(pipeline: Pipeline, files: FilesSource) -> tuple[Decoder, PayloadSchema | None]:
    """Return the decoder of the records, and its schema if that can have columns from folders."""
    schemas: Path = pipeline.environment.project.schemas
    if pipeline.spec.payload is not None:
        decoder = decoder_of(pipeline.spec.payload, schemas, dialect=dialect_of(files))
        return decoder, decoder.schema if isinstance(decoder, JsonDecoder | CsvDecoder) else None
    schema = declared_schema(files)
    if files.format == "json":
        return JsonDecoder(schema, MAX_BLOCK_BYTES), schema
    if files.format == "csv":
        return CsvDecoder(schema, dialect_of(files), MAX_BLOCK_BYTES), schema
    return TextDecoder(MAX_BLOCK_BYTES, schema.arrow_schema), schema


def _record_reader(
    pipeline: Pipeline,
    decoder: Decoder,
    folders: FolderColumns | None,
    report: Accumulator[FileColumns] | None,
) -> RecordReader:
    files = pipeline.spec.source.chosen
    if isinstance(decoder, CsvDecoder):
        names = partial(_names_without_folders, decoder.columns.names, folders)
        seen = NamesInFiles(decoder.columns.names, report)
        header = partial(_header_seen, seen, decoder.columns.names, folders)
        cutter = cutter_of(pipeline.spec, decoder.splitter, decoder.columns.names, FieldNames(names, header))
        return RecordReader(cutter, partial(_decode_fields, decoder), decoder.columns, seen.finish)
    cutter = cutter_of(pipeline.spec)
    if isinstance(decoder, JsonDecoder) and files.is_set("primitivesAsString"):
        return RecordReader(cutter, partial(_decode_as_strings, decoder), decoder.columns)
    return RecordReader(cutter, partial(_decode, decoder), decoder.columns)


def cutter_of(
    spec: PipelineSpec,
    splitter: CsvSplitter | None = None,
    columns: Collection[str] = (),
    names: FieldNames = NO_NAMES,
) -> Cutter:
    """Return the cutter for the files of a single stream.

    Args:
        spec: Declaration of the pipeline.
        splitter: Splits CSV records.
        columns: Columns that the header of a CSV file may name.
        names: Names of fields of CSV files.
    """
    files = spec.source.chosen
    if splitter is not None and spec.file_format == "csv":
        has_header = files.discovers or files.is_set("header")
        known = frozenset(name.lower() for name in columns) if has_header else None
        return CsvRecords(splitter, known, files.encoding, names)
    if spec.file_format == "protobuf":
        return DelimitedMessages()
    if files.is_set("wholetext") or files.is_set("multiLine"):
        return WholeFile(spec.file_format == "json", files.encoding)
    separator = files.option("lineSep", "")
    return Lines(separator.encode() or None, files.encoding)


def dialect_of(files: FilesSource) -> CsvDialect:
    """Return the form of the fields of CSV files."""
    return CsvDialect(
        files.separator,
        files.option("quote", '"'),
        files.option("escape", ""),
        files.option("nullValue", ""),
        files.option("comment", ""),
    )


def _decode(decoder: Decoder, records: FileRecords) -> Decoded:
    return decoder.decode(records.values)


def _decode_as_strings(decoder: JsonDecoder, records: FileRecords) -> Decoded:
    strings = pa.struct(decoder.columns)
    values = [primitives_as_strings(value, strings) for value in records.values.to_pylist()]
    return decoder.decode(pa.array(values, pa.binary()))


def _decode_fields(decoder: CsvDecoder, records: FileRecords) -> Decoded:
    return decoder.decode(records.values, records.names)


def _header_seen(
    seen: NamesInFiles,
    columns: list[str],
    folders: FolderColumns | None,
    source: FileRange,
    names: tuple[str, ...],
) -> None:
    """Report the names of a header. A column from a folder is not missing."""
    given = {} if folders is None else folders.values_of(source)
    places = field_places(columns, names)
    found = [
        column if place is not None or column in given else None
        for column, place in zip(columns, places, strict=True)
    ]
    used = set(places)
    seen.add(found, [name for place, name in enumerate(names) if place not in used])


def _names_without_folders(
    columns: list[str], folders: FolderColumns | None, source: FileRange
) -> tuple[str, ...] | None:
    """Return the names of the fields of a file without a header, if other columns come from folders."""
    given = {} if folders is None else folders.values_of(source)
    return tuple(name for name in columns if name not in given) if given else None
