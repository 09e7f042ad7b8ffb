"""The scan of a files source: Spark lists, orders and remembers the files, and splits large ones into ranges.

Tasks read the ranges themselves (`payload/files`), so the scan is the same for every format. Spark's own
readers treat file names as patterns, skip folders, and parse differently from the decoders of topics.
"""

from __future__ import annotations

from itertools import takewhile
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemill.names import plain_parts
from tidemill.payload.source_columns import (
    FILE,
    FILE_TIME,
    RANGE_LENGTH,
    RANGE_LOCATION,
    RANGE_SIZE,
    RANGE_START,
)
from tidemill.spec.files_place import WILDCARDS
from tidemill.spec.project import Pipeline

# spark_apps/jvm
FILE_RANGES = "io.tidemill.files.FileRanges"

# Spark requires columns for every file format, but a range has none.
SCAN_SCHEMA = "nothing boolean"

# Formats of which a task can read a part of a file.
_SPLITTABLE = frozenset({"json", "csv", "text", "parquet", "orc", "avro"})


def ranges(scan: DataFrame) -> DataFrame:
    """Return the ranges of a scan, with the columns of `payload/files/byte_ranges.py`."""
    columns = {
        RANGE_LOCATION: "file_path",
        FILE: "file_path",
        FILE_TIME: "file_modification_time",
        RANGE_START: "file_block_start",
        RANGE_LENGTH: "file_block_length",
        RANGE_SIZE: "file_size",
    }
    return scan.select(*(F.col(f"_metadata.{field}").alias(name) for name, field in columns.items()))


def scan_options(pipeline: Pipeline, folder: str) -> dict[str, str]:
    """Return the scan's options: the files of a folder to include, and if they are split."""
    files = pipeline.spec.source.chosen
    options = {"recursiveFileLookup": "true", "splittable": str(_is_splittable(pipeline)).lower()}
    if (pattern := files.option("pathGlobFilter", "")) != "":
        options["pathGlobFilter"] = pattern
    if not files.recursive or WILDCARDS & set(files.path):
        # `WantedFiles` reads these as session settings, because Spark passes options on in lower case.
        options["tidemill.files.folder"] = folder
        options["tidemill.files.recursive"] = str(files.recursive).lower()
    return options


def scanned_folder(pipeline: Pipeline) -> str:
    """Return the folder that a stream lists: its path up to a wildcard, which `WantedFiles` applies."""
    return pipeline.layout.folder_pattern(_fixed_path(pipeline)).rstrip("/")


def unread_names(session: SparkSession, pipeline: Pipeline) -> list[str]:
    """Return the files and folders below `scanned_folder` that Java could not open by their names."""
    jvm: Any = session._jvm
    folder = pipeline.layout.folder_parts(_fixed_path(pipeline))
    paths = jvm.io.tidemill.hadoop.UnreadableNames.paths()
    # Read by index, because the end of an iterator is an exception that takes twenty calls into the JVM.
    found = [plain_parts(paths.get(place)) for place in range(paths.size())]
    return ["/".join(parts[len(folder) :]) for parts in found if parts[: len(folder)] == folder]


def _fixed_path(pipeline: Pipeline) -> str:
    declared = pipeline.spec.source.chosen.path
    return "/".join(takewhile(lambda part: not WILDCARDS & set(part), declared.split("/")))


def _is_splittable(pipeline: Pipeline) -> bool:
    files = pipeline.spec.source.chosen
    whole = files.is_set("multiLine") and pipeline.spec.file_format == "json"
    return (
        pipeline.spec.file_format in _SPLITTABLE
        and files.encoding is None
        and not whole
        and not files.is_set("wholetext")
    )
