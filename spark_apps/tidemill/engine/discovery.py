"""Columns of files that are not declared: inferred before the first batch, extended between batches.

Order is the guarantee. A batch is read and staged. Then the new names in its records are known, and nothing
of it is committed yet. New columns become the next version, which is stored before any row with it is
written. Then the query starts again and repeats the batch with that version. So a crash at any point leads to
the same versions and rows. All outputs of a batch have one version, which their ledger entries name.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import accumulate

import pyarrow as pa
import structlog
from pyspark import SparkContext
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemill.checkpoint.source_schemas import (
    SourceSchema,
    add_source_schema,
    newest_source_schema,
    next_source_schema,
)
from tidemill.engine.half_written import StartAgainError
from tidemill.errors import DataError, UnavailableError
from tidemill.ledger.entry import LedgerEntry
from tidemill.payload.csv_fields import CsvDialect, CsvSplitter
from tidemill.payload.discovered import MAX_COLUMNS, DiscoveredColumns, csv_form
from tidemill.payload.files.byte_ranges import FileRange, ranges_of
from tidemill.payload.files.cutters import Cutter
from tidemill.payload.files.discovered_records import inferred_from
from tidemill.payload.files.readers import cutter_of
from tidemill.payload.files.records import FileRecords, FileRejectedError
from tidemill.payload.inferred_schema import Node, added, all_merged, extended, leaves
from tidemill.payload.schema_hints import hints_of
from tidemill.payload.source_columns import FILE_TIME, RANGE_LOCATION, RANGE_SIZE, RANGE_START
from tidemill.sinks.batch_commit import StepDone, nothing_more
from tidemill.sources.read import read_ranges
from tidemill.spec.files_source import FilesSource
from tidemill.spec.project import Pipeline
from tidemill.storage.access import access_to
from tidemill.storage.store import Store

# Maximum number of files and bytes from which the first columns are inferred, as in Auto Loader. Later
# columns are found when they arrive.
FIRST_FILES = 1000
FIRST_BYTES = 2**30

_NO_COLUMNS: Node = {"type": "object", "properties": {}}

log = structlog.get_logger()


@dataclass(frozen=True)
class Discovery:
    """Columns of the streams for one start of a query.

    Args:
        pipeline: The pipeline.
        store: Store of the versions.
        run_id: Id of the driver's run.
        columns: Columns by stream name.
        step_done: Called when a version is stored.
    """

    pipeline: Pipeline
    store: Store
    run_id: str = ""
    columns: Mapping[str, DiscoveredColumns] = field(default_factory=dict)
    step_done: StepDone = nothing_more

    @property
    def identities(self) -> dict[str, str] | None:
        """Return the identities of the columns, for the ledger; None if no columns are discovered."""
        return {name: columns.identity for name, columns in self.columns.items()} or None

    def forget(self) -> None:
        """Drop names that tasks of a failed batch have found."""
        for columns in self.columns.values():
            columns.found.value = None

    def check(self, entry: LedgerEntry) -> None:
        """Check that a batch that has been read may be committed.

        Raises:
            StartAgainError: If its records have new columns, after these are stored.
            DataError: TIDE-DATA-006, if new columns must stop the pipeline; 007, if there are too many.
        """
        grown = False
        for name, columns in self.columns.items():
            newer = extended(columns.columns, columns.found.value) if columns.wants_new else columns.columns
            new = added(columns.columns, newer)
            if not new:
                continue
            self._check_wanted(name, columns, new)
            _check_count(self.pipeline, name, newer)
            self._keep(name, columns, newer, entry.batch_id)
            grown = True
        if grown:
            raise StartAgainError

    def refuse_new(self) -> None:
        """Refuse a backfill whose records have columns that no version has.

        Raises:
            DataError: TIDE-DATA-009.
        """
        for name, columns in self.columns.items():
            new = added(columns.columns, extended(columns.columns, columns.found.value))
            if new and columns.wants_new:
                raise DataError(
                    "TIDE-DATA-009",
                    "The files of a backfill have columns that the pipeline does not know yet. Only its own "
                    "runs add columns, in the order of its batches. No row was written.",
                    facts={"pipeline": self.pipeline.name, "stream": name, "new": _some(new)},
                    fix="let the stream, or an incremental run, read the new files first; then plan again",
                )

    def _check_wanted(self, name: str, columns: DiscoveredColumns, new: list[str]) -> None:
        if columns.evolution != "fail":
            return
        raise DataError(
            "TIDE-DATA-006",
            "Files have new columns, and the pipeline says to stop then. Nothing of the batch was written.",
            facts={"pipeline": self.pipeline.name, "stream": name, "new": _some(new)},
            fix="name them in `schema_hints`, or set `schema_evolution` to add_columns or rescue",
        )

    def _keep(self, name: str, columns: DiscoveredColumns, newer: Node, batch_id: int | None) -> None:
        layout, pipeline = self.pipeline.layout, self.pipeline.name
        before = newest_source_schema(self.store, layout, pipeline, name)
        if before is None or before.version != columns.version:
            return  # Another driver has stored a newer version, with which the query starts again.
        new = added(columns.columns, newer)
        schema = next_source_schema(before, newer, new, self.run_id, batch_id)
        if add_source_schema(self.store, layout.source_schemas(pipeline, name), schema):
            log.info(
                "columns_added", pipeline=pipeline, stream=name, version=schema.version, added=_some(new)
            )
            self.step_done("columns_kept")


def known_columns(context: SparkContext, store: Store, pipeline: Pipeline) -> Discovery:
    """Return the columns of the newest versions.

    Raises:
        DataError: TIDE-DATA-008, if a stream has none yet.
    """
    found = {}
    for name, files in _discovering(pipeline):
        stored = newest_source_schema(store, pipeline.layout, pipeline.name, name)
        if stored is None:
            raise DataError(
                "TIDE-DATA-008",
                "The columns of a source are not known yet: the pipeline's first start infers them.",
                facts={"pipeline": pipeline.name, "stream": name, "path": files.path},
                fix="run the pipeline once; or write `schema` in the place of `schema_evolution`",
            )
        found[name] = DiscoveredColumns.of(context, files, stored.columns, stored.version)
    return Discovery(pipeline, store, columns=found)


def discover(
    spark: SparkSession, store: Store, pipeline: Pipeline, run_id: str, step_done: StepDone = nothing_more
) -> Discovery:
    """Return the columns at the start of a query; infer unknown columns from the first files.

    Raises:
        UnavailableError: TIDE-SRC-008, if there are no records to infer from.
    """
    for name, _ in _discovering(pipeline):
        layout = pipeline.layout
        if newest_source_schema(store, layout, pipeline.name, name) is None:
            schema = _first_version(spark, pipeline.streams[name], name, run_id)
            if add_source_schema(store, layout.source_schemas(pipeline.name, name), schema):
                step_done("columns_kept")
            log.info("columns_inferred", pipeline=pipeline.name, stream=name, columns=_some([*schema.added]))
    columns = known_columns(spark.sparkContext, store, pipeline).columns
    return Discovery(pipeline, store, run_id, columns, step_done)


def lacks_first_files(spark: SparkSession, store: Store, pipeline: Pipeline) -> bool:
    """Return True if the columns of a source must be inferred and Spark finds no file of it."""
    return any(
        newest_source_schema(store, pipeline.layout, pipeline.name, name) is None
        and _lacks_files(spark, pipeline.streams[name])
        for name, _ in _discovering(pipeline)
    )


def _lacks_files(spark: SparkSession, stream: Pipeline) -> bool:
    try:
        return read_ranges(spark, stream).isEmpty()
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        return True


def _discovering(pipeline: Pipeline) -> Iterator[tuple[str, FilesSource]]:
    for name, stream in pipeline.streams.items():
        files = stream.spec.source.files
        if files is not None and files.discovers:
            yield name, files


def _first_version(spark: SparkSession, stream: Pipeline, name: str, run_id: str) -> SourceSchema:
    files = stream.spec.source.chosen
    found = _inferred(spark, stream)
    columns = extended(hints_of(files), found)
    if not any("additionalProperties" not in node for node in columns["properties"].values()):
        raise UnavailableError(
            "TIDE-SRC-008",
            "The files hold no record yet from which columns could be inferred.",
            facts={"pipeline": stream.name, "stream": name, "path": files.path},
            fix="put the first file there, and the driver goes on by itself; or name columns in "
            "`schema_hints`",
            runbook="source-unavailable",
        )
    _check_count(stream, name, columns)
    return next_source_schema(None, columns, added(_NO_COLUMNS, columns), run_id, None)


def _first_files(ranges: DataFrame, files: FilesSource) -> list[str]:
    """Return the paths of the first files."""
    times = F.col(FILE_TIME)
    rows = (
        ranges.where(F.col(RANGE_START) == 0)
        .orderBy(times.desc() if files.order == "newest" else times, RANGE_LOCATION)
        .limit(FIRST_FILES)
        .collect()
    )
    before = [0, *accumulate(row[RANGE_SIZE] for row in rows)]
    return [row[RANGE_LOCATION] for row, size in zip(rows, before, strict=False) if size < FIRST_BYTES]


def _inferred(spark: SparkSession, stream: Pipeline) -> Node | None:
    """Return the merged columns of the records in the first files."""
    files, csv = stream.spec.source.chosen, csv_form(stream.spec.source.chosen)
    ranges = read_ranges(spark, stream)
    first = _first_files(ranges, files)
    if not first:
        return None
    cutter = cutter_of(stream.spec, CsvSplitter(CsvDialect(files.separator)))
    access = access_to(stream.layout.root)

    def infer(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        everything = all_merged(
            inferred_from(records, csv)
            for batch in batches
            for source in ranges_of(batch, access)
            for records in _records(cutter, source)
        )
        yield pa.RecordBatch.from_pydict({"found": [json.dumps(everything)]})

    few = ranges.where(F.col(RANGE_LOCATION).isin(first)).coalesce(spark.sparkContext.defaultParallelism)
    return all_merged(json.loads(row["found"]) for row in few.mapInArrow(infer, "found string").collect())


def _records(cutter: Cutter, source: FileRange) -> Iterator[FileRecords]:
    """Yield the records of a range; none for a damaged file."""
    try:
        yield from cutter.records(source)
    except FileRejectedError as error:
        log.warning("file_not_readable", file=source.path, reason=error.reason)


def _check_count(pipeline: Pipeline, name: str, columns: Node) -> None:
    count = len(list(leaves(columns)))
    if count > MAX_COLUMNS:
        raise DataError(
            "TIDE-DATA-007",
            "The files have more columns than a table should; names that are data, such as dates or ids, "
            "make one with each record. Nothing of the batch was written.",
            facts={"pipeline": pipeline.name, "stream": name, "columns": count, "most": MAX_COLUMNS},
            fix="declare the object with such names as `map<string, …>` in `schema_hints`, or set "
            "`schema_evolution: rescue` with the columns that are known as hints",
        )


def _some(columns: list[str]) -> list[str]:
    """Return at most 20 names and the number of others, because the names come from the data."""
    return columns if len(columns) <= 20 else [*columns[:20], f"and {len(columns) - 20} more"]
