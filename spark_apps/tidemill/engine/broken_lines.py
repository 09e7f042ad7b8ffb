"""Which lines of their files broken records are. Spark's readers do not tell; a second look does.

Only files that hold a broken line are read again, as plain text. A line is known by its text: of the same
text in one file all lines are broken, so each of them gets a row, and one that two uses of the source have
read gets one all the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import unquote
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from tidemill.payload.event_time import AHEAD
from tidemill.payload.exact_paths import exact_reader
from tidemill.payload.quarantine import QUARANTINE_SCHEMA, Quarantine
from tidemill.sources.read import plain_lines
from tidemill.spec.project import Pipeline
from tidemill.spec.sources import FilesSource
from tidemill.storage.access import access_to
from tidemill.storage.parquet_part import PartFile, write_part

# Options that cut the text otherwise than line by line as UTF-8: their lines cannot be told.
_OTHER_LINES = frozenset({"multiline", "encoding", "charset"})

_PART_SCHEMA = "name string, size long, rows long, statistics string"


def broken_lines(
    spark: SparkSession,
    pipeline: Pipeline,
    quarantine: Quarantine,
    archived: Mapping[str, str] | None = None,
) -> BrokenLines | None:
    """What finds the lines of broken records; None if no source has lines that are not told.

    Streams of one format whose options differ would need their files told apart: their lines are not told.

    Args:
        spark: The session.
        pipeline: Whose records.
        quarantine: Where they are.
        archived: Where files are by now that were archived, by the path that rows name.
    """
    found: dict[str, FilesSource | None] = {}
    for stream in pipeline.spec.streams.values():
        files = stream.source.files
        # Whoever reads a file as a whole tells its lines.
        if files is not None and files.has_lines and not (files.discovers and files.format == "csv"):
            other = found.setdefault(files.format, files)
            found[files.format] = other if other is not None and other.options == files.options else None
    told = tuple(files for files in found.values() if files is not None)
    return BrokenLines(spark, told, quarantine, archived or {}) if told else None


def _as_it_came(path: Column, moved: Mapping[str, str]) -> Column:
    """The path at which a file came, which its rows name, by the path at which it is."""
    if not moved:
        return path
    came = F.create_map(*(F.lit(part) for name, archived in moved.items() for part in (archived, name)))
    return F.coalesce(came[path], path)


def _is_of(source: FilesSource) -> Column:
    """Which reasons are those of broken lines of this source; other records are kept as rows in JSON."""
    if not source.discovers:
        return F.col("reason") == f"malformed_{source.format}"
    return ~F.col("reason").startswith(AHEAD) & (F.col("reason") != "malformed_csv")


@dataclass(frozen=True)
class BrokenLines:
    """Puts the line into rejected records of text files.

    Args:
        spark: The session.
        files: The sources, one for each format.
        quarantine: Where the records are.
        archived: Where files are by now that were archived, by the path that their rows name; of the past.
    """

    spark: SparkSession
    files: tuple[FilesSource, ...]
    quarantine: Quarantine
    archived: Mapping[str, str] = field(default_factory=dict)

    def told(self, parts: Sequence[PartFile]) -> list[PartFile]:
        """The parts made anew with lines; as they are if no line can be told."""
        for files in self.files:
            parts = self._told_of(files, parts)
        return list(parts)

    def _told_of(self, source: FilesSource, parts: Sequence[PartFile]) -> list[PartFile]:
        options = {name.lower(): value for name, value in source.options.items()}
        if not parts or options.keys() & _OTHER_LINES:
            return list(parts)
        paths = [f"{self.quarantine.path}/{part.name}" for part in parts]
        rejected = exact_reader(self.spark).schema(from_arrow_schema(QUARANTINE_SCHEMA)).parquet(*paths)
        # Another stream's payload can be malformed in the same way; its records are in no file.
        is_line = _is_of(source) & F.col("file").isNotNull() & F.col("line").isNull()
        broken, others = rejected.where(is_line), rejected.where(~is_line)
        if broken.isEmpty():
            return list(parts)
        separator = {"lineSep": options["linesep"]} if "linesep" in options else {}
        return self._written(self._with_lines(broken, separator).unionByName(others))

    def _with_lines(self, broken: DataFrame, separator: dict[str, str]) -> DataFrame:
        # Spark tells a file's path as a URI.
        names = [row["file"] for row in broken.select("file").distinct().collect()]
        moved = {name: self.archived[name] for name in names if name in self.archived}
        text = plain_lines(self.spark, [unquote(moved.get(name, name)) for name in names], separator)
        # Spark cuts a file into blocks and reads each in order.
        places = text.select(
            _as_it_came(F.col("_metadata.file_path"), moved).alias("file"),
            F.col("_metadata.file_block_start").alias("block"),
            F.monotonically_increasing_id().alias("place"),
            F.col("value").cast("binary").alias("value"),
        )
        number = F.row_number().over(Window.partitionBy("file").orderBy("block", "place"))
        lines = places.select("file", "value", number.cast("long").alias("line"))
        once = broken.dropDuplicates(["file", "value"]).drop("line")
        return once.join(lines, ["file", "value"], "left").select(*QUARANTINE_SCHEMA.names)

    def _written(self, rows: DataFrame) -> list[PartFile]:
        path, access = self.quarantine.path, access_to(self.quarantine.path)

        def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            part = write_part(path, f"part-{uuid4().hex}.parquet", QUARANTINE_SCHEMA, batches, access)
            if part is not None:
                yield pa.RecordBatch.from_pylist([vars(part)])

        written = rows.coalesce(1).mapInArrow(write, _PART_SCHEMA).collect()
        return [PartFile(**row.asDict()) for row in written]
