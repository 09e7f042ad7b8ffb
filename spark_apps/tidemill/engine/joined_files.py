"""Joined folders, which each batch reads completely with the decoders of file sources.

Spark lists a folder when the query starts, and each batch reads the listed files. At the beginning of a
batch, `joined_read.py` checks for a newer listing. A task reads a file only if it is unchanged since the
listing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemill.engine.scala import items
from tidemill.errors import DataError, TidemillError, UnavailableError
from tidemill.ledger.entry import FilesRead
from tidemill.payload.arrow_pass import map_in_arrow
from tidemill.payload.decode import Stage
from tidemill.payload.files.readers import file_reader
from tidemill.payload.files.reading import file_decoding
from tidemill.payload.quarantine import Quarantine
from tidemill.payload.source_columns import AS_LISTED
from tidemill.sources.file_listing import FileListing, kept_listing, listing_of, no_files
from tidemill.sources.file_scan import unread_names
from tidemill.sources.past_files import files_path
from tidemill.sources.read import scan_files
from tidemill.spec.project import Pipeline
from tidemill.storage.store import Store

# Option of a scan with the name of its source, to find the source in a plan.
SOURCE_OPTION = "tidemill.files.joined"

# Id of the error for a folder whose files have changed since they were listed.
FILES_CHANGED = "TIDE-JOIN-002"

_WAIT = (
    "nothing, if the change is complete; else replace files by renaming complete ones, or join a Delta table"
)

# Maximum number of file names in an error.
_SHOWN = 3


def read_joined_files(
    spark: SparkSession, pipeline: Pipeline, read: Mapping[str, FilesRead]
) -> dict[str, DataFrame]:
    """Return the rows of each joined folder, by source name.

    Args:
        spark: The session.
        pipeline: Pipeline with the sources.
        read: Files to read instead of the current ones, by source.

    Raises:
        AbsentError: TIDE-JOIN-001, if a folder is missing or empty.
        UnavailableError: TIDE-JOIN-002, if files in `read` were deleted or changed.
    """
    return {
        name: _decoded(spark, part, name, _scan(spark, part, name, read.get(name)))
        for name, part in pipeline.joined_files.items()
    }


def listings_now(spark: SparkSession, pipeline: Pipeline) -> dict[str, FileListing]:
    """Return the current files of each joined folder.

    Raises:
        AbsentError: TIDE-JOIN-001, if a folder is missing or empty.
    """
    return {
        name: _listed(spark, part, name, _scan_folder(spark, part, name))
        for name, part in pipeline.joined_files.items()
    }


def keep_listings(spark: SparkSession, pipeline: Pipeline, store: Store) -> dict[str, FilesRead]:
    """Store the current listing of each joined folder, to read the same files again; see `listings_now`."""
    found = listings_now(spark, pipeline)
    for listing in found.values():
        listing.keep(store, pipeline.layout, pipeline.name)
    return {name: listing.read for name, listing in found.items()}


def files_changed(spark: SparkSession, pipeline: Pipeline, read: Mapping[str, FilesRead]) -> bool:
    """Return True if files that were read are deleted or changed. New files do not count."""
    try:
        for name, files in read.items():
            _scan(spark, pipeline.joined_files[name], name, files)
    except UnavailableError as error:
        return error.error_id == FILES_CHANGED
    return False


def source_of(relation: Any) -> str | None:
    """Return the source of a relation in a plan; None if the relation reads no joined folder."""
    name = relation.options().get(SOURCE_OPTION)
    return str(name.get()) if name.isDefined() else None


def _scan(spark: SparkSession, part: Pipeline, name: str, read: FilesRead | None) -> DataFrame:
    """Return the scan of all current files, or of the files that were read before."""
    scan = _scan_folder(spark, part, name)
    now = _listed(spark, part, name, scan)
    if read is None or now.read == read:
        return scan
    before = kept_listing(Store(part.layout.root), part.layout, part.name, read)
    if before is None:
        raise _not_as_they_were(part, name, {"reason": f"the listing {read.digest} is gone"})
    if changed := before.changed_in(now):
        facts = {"files": ", ".join(changed[:_SHOWN]), "count": len(changed)}
        raise _not_as_they_were(part, name, facts)
    # The only change is new files.
    return _scan_files(spark, part, name, [file.path for file in before.files])


def _scan_folder(spark: SparkSession, part: Pipeline, name: str) -> DataFrame:
    try:
        return _scan_files(spark, part, name)
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        raise no_files(part, name, "it does not exist") from error


def _scan_files(
    spark: SparkSession, part: Pipeline, name: str, files: Sequence[str] | None = None
) -> DataFrame:
    folder = files_path(part, part.spec.source.chosen)
    return scan_files(spark, part, folder, files, **{SOURCE_OPTION: name})


def _listed(spark: SparkSession, part: Pipeline, name: str, scan: DataFrame) -> FileListing:
    plan: Any = scan._jdf.queryExecution().analyzed()
    (leaf,) = items(plan.collectLeaves())
    listing = listing_of(spark, leaf.relation().location())
    if unread := unread_names(spark, part):
        raise _unusable(part.name, name, {"files": ", ".join(unread[:_SHOWN])}, "a name is not UTF-8")
    if not listing.files:
        raise no_files(part, name, "it has no file with content")
    return listing


def _decoded(spark: SparkSession, part: Pipeline, name: str, scan: DataFrame) -> DataFrame:
    # The quarantine stays empty, because the first bad record stops the batch.
    quarantine = Quarantine.at(spark.sparkContext, part.layout.quarantine(part.name), "")
    decoding = file_decoding(part, file_reader(part, None), quarantine)
    rows = scan.withColumn(AS_LISTED, F.lit(True)).coalesce(spark.sparkContext.defaultParallelism)
    return map_in_arrow(rows, _saying_which(part.name, name, decoding.stage), decoding.spark_schema)


def _saying_which(pipeline: str, name: str, stage: Stage) -> Stage:
    """Return a stage whose errors name the source and the fix for a joined file."""

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            yield from stage(batches)
        except TidemillError as error:
            # Not chained, because `classify` would take the first error of a chain.
            raise _of_joined_files(pipeline, name, error) from None

    return read


def _of_joined_files(pipeline: str, name: str, error: TidemillError) -> TidemillError:
    if error.error_id == "TIDE-DATA-012":
        return UnavailableError(
            FILES_CHANGED,
            "A file of a joined folder was changed or removed after it was listed. The batch is repeated "
            "with the files that are there then.",
            facts={"pipeline": pipeline, "source": name, **error.facts},
            fix=_WAIT,
            runbook="source-unavailable",
        )
    if error.error_id in ("TIDE-DATA-001", "TIDE-DATA-013"):
        reason = str(error.facts.get("reason", ""))
        return _unusable(pipeline, name, {k: v for k, v in error.facts.items() if k != "reason"}, reason)
    return error


def _unusable(pipeline: str, name: str, facts: Mapping[str, object], reason: str) -> DataError:
    return DataError(
        "TIDE-JOIN-003",
        "A joined folder has a record or file that cannot be read, and rows would be joined without it.",
        facts={"pipeline": pipeline, "source": name, **facts, "reason": reason},
        fix="correct the file, or move it out of the folder; or correct the `schema`, `payload` or `options` "
        "of the source; then start the pipeline",
        runbook="files-unreadable",
    )


def _not_as_they_were(part: Pipeline, name: str, facts: Mapping[str, object]) -> UnavailableError:
    return UnavailableError(
        FILES_CHANGED,
        "Files of a joined folder were changed or removed after they were listed.",
        facts={"pipeline": part.name, "source": name, **facts},
        fix=_WAIT,
        runbook="source-unavailable",
    )
