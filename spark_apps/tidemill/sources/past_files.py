"""All files that a files source has had: those in its folder, and those that were archived.

Spark lists the folder first and the archive then. A file that is archived meanwhile is copied before it is
deleted, so it is in one of the two listings or in both; of two alike the one in the folder is read. If it is
gone by then, Spark fails: no row is missed without a word.

Rows of archived files say what they said before: the path at which the file came.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Set as AbstractSet

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemill.payload.source_columns import FILE, RANGE_LOCATION
from tidemill.spec.files_place import FilesPlace, files_place
from tidemill.spec.files_source import FilesSource
from tidemill.spec.project import Pipeline
from tidemill.storage.files_store import open_files

# Reads the files of a folder.
Read = Callable[[str], DataFrame]


def files_path(pipeline: Pipeline, files: FilesSource) -> str:
    """Return what Spark reads of a files source: a URI as it is declared, or a folder below the root."""
    return pipeline.layout.folder_pattern(files.path)


def read_past_files(
    pipeline: Pipeline, files: FilesSource, read: Read, wanted: AbstractSet[str] | None = None
) -> DataFrame:
    """Each file once, from the source's folder or from its archive.

    Args:
        pipeline: Whose.
        files: Its files source.
        read: Reads one folder, as ranges of files.
        wanted: Which files of the source's folder, by name below it; None for all.
    """
    here = read(files_path(pipeline, files))
    place = files_place(pipeline.layout, files.path)
    if wanted is not None:
        names = {uri: uri if place is None else place.name_of_uri(uri) for uri in here.inputFiles()}
        here = _without(here, [uri for uri, name in names.items() if name not in wanted])
    if place is None or not _has_archive(pipeline, place):
        return here
    archived = read(place.archive_path)
    uris = archived.inputFiles()
    if not uris:
        return here
    known = set(map(place.name_of_uri, here.inputFiles()))
    twice = [uri for uri in uris if place.archived_name_of_uri(uri) in known]
    archived = _without(archived, twice)
    return here.unionByName(_as_they_came(archived, *place.original_prefix(uris[0])))


def _without(records: DataFrame, uris: list[str]) -> DataFrame:
    if not uris:
        return records
    return records.where(~F.col(RANGE_LOCATION).isin(list(map(as_in_rows, uris))))


def files_of(pipeline: Pipeline, records: DataFrame) -> frozenset[str]:
    """Names of all files that records are read from, below the source's folder."""
    files = pipeline.spec.source.chosen
    place = files_place(pipeline.layout, files.path)
    uris = records.inputFiles()
    if place is None:
        return frozenset(uris)
    names = (place.name_of_uri(uri) or place.archived_name_of_uri(uri) for uri in uris)
    return frozenset(name for name in names if name is not None)


def as_in_rows(uri: str) -> str:
    """A file's URI as `_metadata.file_path` has it: of a local one with a single slash."""
    return uri.replace("file:///", "file:/", 1) if uri.startswith("file:///") else uri


def _as_they_came(archived: DataFrame, prefix: str, original: str) -> DataFrame:
    return archived.withColumn(FILE, moved_path(F.col(FILE), as_in_rows(prefix), as_in_rows(original)))


def moved_path(path: Column, before: str, after: str) -> Column:
    """Paths that begin with `before`, beginning with `after`."""
    return F.concat(F.lit(after), F.substring(path, len(before) + 1, 1_000_000))


def _has_archive(pipeline: Pipeline, place: FilesPlace) -> bool:
    """Whether there is an archived file that the declaration's `*` stand for."""
    store = open_files(pipeline.layout, place)
    if store is None:
        return False
    return any(place.archived_name_of(file.path) is not None for file in store.list_files(place.archive))
