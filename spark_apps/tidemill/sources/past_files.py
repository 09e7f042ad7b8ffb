"""Read all files that a files source ever had: those in its folder, and the archived ones.

Spark lists the folder first and then the archive. A file that is archived in the meantime is copied before it
is deleted, so it is in at least one of the two listings. If it is in both, the one in the folder is read. If
that one is gone by then, Spark fails, so no row is silently missed.

Rows of archived files keep the original path of the file.
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
    """Return the path that Spark reads: a URI as declared, or a folder below the root."""
    return pipeline.layout.folder_pattern(files.path)


def read_past_files(
    pipeline: Pipeline, files: FilesSource, read: Read, wanted: AbstractSet[str] | None = None
) -> DataFrame:
    """Read each file once, from the source's folder or from its archive.

    Args:
        pipeline: The pipeline.
        files: Its files source.
        read: Reads one folder, as ranges of files.
        wanted: Files of the source's folder to read, by name below it; None for all.
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
    """Return the names of all files that records are read from, below the source's folder."""
    files = pipeline.spec.source.chosen
    place = files_place(pipeline.layout, files.path)
    uris = records.inputFiles()
    if place is None:
        return frozenset(uris)
    names = (place.name_of_uri(uri) or place.archived_name_of_uri(uri) for uri in uris)
    return frozenset(name for name in names if name is not None)


def as_in_rows(uri: str) -> str:
    """Return a file's URI as in `_metadata.file_path`: a single slash for a local file."""
    return uri.replace("file:///", "file:/", 1) if uri.startswith("file:///") else uri


def _as_they_came(archived: DataFrame, prefix: str, original: str) -> DataFrame:
    return archived.withColumn(FILE, moved_path(F.col(FILE), as_in_rows(prefix), as_in_rows(original)))


def moved_path(path: Column, before: str, after: str) -> Column:
    """Replace the prefix `before` of paths with `after`."""
    return F.concat(F.lit(after), F.substring(path, len(before) + 1, 1_000_000))


def _has_archive(pipeline: Pipeline, place: FilesPlace) -> bool:
    """Return True if an archived file matches the declaration's pattern."""
    store = open_files(pipeline.layout, place)
    if store is None:
        return False
    return any(place.archived_name_of(file.path) is not None for file in store.list_files(place.archive))
