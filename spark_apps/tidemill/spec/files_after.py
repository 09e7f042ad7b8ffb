"""Checks before files that were read are archived or deleted (`after` of a files source)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from tidemill.errors import SpecError
from tidemill.names import Layout
from tidemill.spec.files_place import files_place, overlap
from tidemill.spec.files_source import FilesSource

if TYPE_CHECKING:
    from tidemill.spec.project import Pipeline

# Expressions that give a transform the file of a row.
_PATH_OF_A_ROW = re.compile(r"\b(_metadata|input_file_name|input_file_block_\w+)\b")


def cleaned_sources(pipeline: Pipeline) -> dict[str, FilesSource]:
    """Return the files sources whose files are archived or deleted, by stream name."""
    found = ((name, stream.spec.source.files) for name, stream in pipeline.streams.items())
    return {name: files for name, files in found if files is not None and files.after != "keep"}


def check_after(pipeline: Pipeline) -> None:
    """Check one pipeline.

    Raises:
        SpecError: TIDE-FILE-001 if its files cannot be archived or belong to Tidemill; -003 if its rows
        depend
            on the path of their file.
    """
    for stream, files in cleaned_sources(pipeline).items():
        why = why_no_place(pipeline.layout, files.path)
        if why:
            raise SpecError(
                "TIDE-FILE-001",
                f"Files of this folder cannot be archived or deleted: {why}.",
                facts={"pipeline": pipeline.name, "stream": stream, "path": files.path},
                fix="name a folder of its own that begins without `*`, below the storage root or on this "
                "machine (file://); or remove `after`",
            )
        if files.after == "archive":
            _check_rows(pipeline)


def check_files_of_all(pipelines: Iterable[Pipeline]) -> None:
    """Check that nothing else reads or writes folders whose files are archived or deleted.

    Raises:
        SpecError: TIDE-FILE-002.
    """
    known = list(pipelines)
    folders = [found for pipeline in known for found in _folders(pipeline)]
    for pipeline in known:
        for stream, files in cleaned_sources(pipeline).items():
            mine = pipeline.layout.folder_parts(files.path)
            others = [w for w, folder in folders if w != (pipeline.name, stream) and overlap(mine, folder)]
            if others:
                raise SpecError(
                    "TIDE-FILE-002",
                    "Files are archived or deleted that another stream or sink needs: it would miss them.",
                    facts={
                        "pipeline": pipeline.name,
                        "stream": stream,
                        "path": files.path,
                        "other": ", ".join(f"{name} ({part})" for name, part in others),
                    },
                    fix="give each a folder of its own, or remove `after`",
                )


def _folders(pipeline: Pipeline) -> Iterator[tuple[tuple[str, str], list[str]]]:
    """Yield the folders that a pipeline reads, by source, and those that its files sinks write."""
    for name, stream in pipeline.parts.items():
        if stream.spec.source.files is not None:
            yield (pipeline.name, name), pipeline.layout.folder_parts(stream.spec.source.files.path)
    for place, sink in enumerate(pipeline.spec.sinks):
        if sink.files is not None:
            yield (pipeline.name, f"sinks[{place}]"), pipeline.layout.folder_parts(sink.files.path)


def why_no_place(layout: Layout, path: str) -> str:
    """Return why the files of a folder cannot be archived or deleted; empty if they can."""
    if files_place(layout, path) is None:
        return "its path begins with `*`, names no folder, or is an archive itself"
    if layout.is_own(path):
        return "Tidemill's own files are there, or it holds them"
    if "://" in path and not path.startswith(("file://", f"{layout.root}/")):
        return (
            "it is on a store, and not below the storage root as that is spelled: only there can a verb see "
            "whether a file is gone"
        )
    return ""


def _check_rows(pipeline: Pipeline) -> None:
    project = pipeline.environment.project
    for key, reference in {"transform": pipeline.spec.transform, **pipeline.spec.sink_transforms}.items():
        file = None if reference is None else project.transform_file(reference)
        told = None if file is None or not file.is_file() else _PATH_OF_A_ROW.search(file.read_text())
        if told is not None:
            raise SpecError(
                "TIDE-FILE-003",
                "The transform asks which file a row is of, and an archived file has another path: a "
                "backfill would give other rows.",
                facts={"pipeline": pipeline.name, "key": key, "file": file, "uses": told[1]},
                fix="leave it out, or remove `after: archive`",
            )
