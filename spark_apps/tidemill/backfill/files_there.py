"""Check that all files that a live stream has read still exist.

A backfill must never replace rows by fewer rows.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from tidemill.backfill.refusal import refused
from tidemill.checkpoint.cleaning.points import all_files_read, files_finished
from tidemill.checkpoint.cleaning.stored import deleted_files, stored_files
from tidemill.checkpoint.gate.source_facts import is_there
from tidemill.names import SOURCE_NAME
from tidemill.spec.files_place import files_place
from tidemill.spec.project import Pipeline
from tidemill.storage.store import Store

# Parallel requests, if files are checked one by one.
LOOKS_AT_ONCE = 8

# Marks the name of a deleted file, because a file of that name may be another one.
_DELETED = " (deleted)"


def files_read_live(store: Store, pipeline: Pipeline, generation: str) -> frozenset[str]:
    """Return the files from which the tables' rows were made, by name below the source's folder.

    These are all files that the live generation has read, and all that were deleted since. A file in another
    folder, from an earlier declaration, is listed by its URI.

    Raises:
        GateRefusedError: TIDE-CKPT-007, if the checkpoint is damaged.
    """
    names = _names(pipeline, all_files_read(store, pipeline.layout.checkpoint(pipeline.name, generation)))
    stored = stored_files(pipeline.layout, pipeline.spec.source.chosen.path)
    # Another file may have the name by now.
    gone = (f"{name}{_DELETED}" for name in deleted_files(store, pipeline, SOURCE_NAME, stored))
    return frozenset({*names, *gone})


def files_finished_live(store: Store, pipeline: Pipeline, generation: str) -> frozenset[str] | None:
    """Return the seam of files: those that the live stream has finished, by name as above.

    The stream itself handles rejected and late rows of the other files. None if it may skip files for good
    (`max_file_age`); the backfill must read those, and they cannot be distinguished.

    Raises:
        GateRefusedError: TIDE-CKPT-007, if the checkpoint is damaged.
    """
    if pipeline.spec.source.chosen.max_file_age != "off":
        return None
    path = pipeline.layout.checkpoint(pipeline.name, generation)
    return _names(pipeline, files_finished(store, path, SOURCE_NAME))


def _names(pipeline: Pipeline, uris: AbstractSet[str]) -> frozenset[str]:
    place = files_place(pipeline.layout, pipeline.spec.source.chosen.path)
    return frozenset(uri if place is None else place.name_of_uri(uri) or uri for uri in uris)


def files_there(pipeline: Pipeline, wanted: AbstractSet[str]) -> frozenset[str]:
    """Return the files that exist in the source's folder or its archive, without duplicate names."""
    stored = stored_files(pipeline.layout, pipeline.spec.source.chosen.path)
    if stored is not None:
        return frozenset({*stored.there, *stored.archived}).difference(stored.in_the_way)
    store, ordered = Store(pipeline.layout.root), sorted(wanted)
    with ThreadPoolExecutor(LOOKS_AT_ONCE) as threads:
        there = list(threads.map(partial(is_there, store), ordered))
    return frozenset(uri for uri, found in zip(ordered, there, strict=True) if found)


def check_files_there(pipeline: Pipeline, wanted: AbstractSet[str], there: AbstractSet[str]) -> None:
    """Raise if windows would be computed from only a part of their events and replace complete ones.

    Raises:
        UsageError: TIDE-BACK-008.
    """
    # A deleted file may also be in the live stream's log.
    gone = sorted({name.removesuffix(_DELETED) for name in wanted - there})
    if gone:
        files = pipeline.spec.source.chosen
        raise refused(
            "TIDE-BACK-008",
            pipeline.name,
            "Files that the live stream has read are gone, and windows would lack their events.",
            {"files": ", ".join(gone[:3]), "count": len(gone), "after": files.after},
            "bring the files back from a copy; `after: archive` keeps those that are read from now on"
            if files.after == "delete"
            else "bring the files back",
        )
