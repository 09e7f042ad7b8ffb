"""Move archived files back into their folder, for a stream that begins again: part of `reset`."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tidemill.checkpoint.cleaning.stored import StoredFiles, deleted_files, stored_files
from tidemill.checkpoint.procedure.carry_out import Step
from tidemill.checkpoint.procedure.journal import Notes
from tidemill.checkpoint.verbs.clean import FILES_AT_ONCE
from tidemill.errors import UsageError
from tidemill.spec.project import Pipeline
from tidemill.storage.store import Store


def plan_bring_back(store: Store, pipeline: Pipeline, *, without_missing: bool) -> dict[str, Any]:
    """Return the files that can be moved back and those that cannot, by stream.

    Streams without archived or deleted files are left out.

    Args:
        store: The storage.
        pipeline: The pipeline.
        without_missing: True if the operator has agreed to go without the missing files.

    Raises:
        UsageError: TIDE-FILE-004, if files cannot be moved back and the operator has not agreed.
    """
    plan: dict[str, Any] = {}
    for stream, stored in _stored(pipeline):
        deleted = deleted_files(store, pipeline, stream, stored)
        archived = {} if stored is None else stored.archived
        in_the_way = [] if stored is None else stored.in_the_way
        if archived or deleted:
            plan[stream] = {
                "archived": len(archived) - len(in_the_way),
                "bytes": sum(file.size for name, file in archived.items() if name not in in_the_way),
                "deleted": len(deleted),
                "in_the_way": len(in_the_way),
                "missing": [*deleted, *in_the_way][:3],
            }
    missing = sum(stream["deleted"] + stream["in_the_way"] for stream in plan.values())
    if missing and not without_missing:
        raise UsageError(
            "TIDE-FILE-004",
            "Files that were read before cannot be read again: rows of them would never come back. Nothing "
            "was changed.",
            facts={
                "pipeline": pipeline.name,
                "count": missing,
                "deleted": sum(stream["deleted"] for stream in plan.values()),
                "files": ", ".join(name for stream in plan.values() for name in stream["missing"]),
            },
            fix="put them back from a copy; or agree to go without them: --without-missing",
            runbook="reset-checkpoint",
        )
    return plan


def bring_back_step(pipeline: Pipeline) -> Step:
    """Return the step that moves archived files back; an existing file is never overwritten, both stay."""

    def act(_: Notes) -> None:
        for _stream, stored in _stored(pipeline):
            if stored is not None:
                _bring_back(stored)

    def missing(_: Notes) -> str:
        found = (stored for _, stored in _stored(pipeline) if stored is not None)
        return ", ".join(name for stored in found for name in stored.archived.keys() - stored.there.keys())

    return Step("bring archived files back", act, missing)


def _bring_back(stored: StoredFiles) -> None:
    kept = stored.there.keys()

    def move(name: str) -> None:
        stored.store.move_within(stored.archive_path(name), stored.source_path(name))

    with ThreadPoolExecutor(FILES_AT_ONCE) as threads:
        list(threads.map(move, [name for name in stored.archived if name not in kept]))
    stored.store.remove_empty_folders(stored.place.archive)


def _stored(pipeline: Pipeline) -> Iterator[tuple[str, StoredFiles | None]]:
    for name, stream in pipeline.streams.items():
        files = stream.spec.source.files
        if files is not None:
            yield name, stored_files(pipeline.layout, files.path)
