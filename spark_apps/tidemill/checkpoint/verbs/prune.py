"""`prune`: move unneeded files to the trash, and delete old trash.

It can run while the stream runs, because no driver, start or restore reads the files it moves. So it takes no
hold and fences no driver. The live generation, its parent and generations with a backup always stay.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import PurePosixPath
from typing import Any

from tidemill.checkpoint.current import Current, read_current, read_history
from tidemill.checkpoint.procedure.carry_out import Request, Step
from tidemill.checkpoint.procedure.journal import Notes, ended_requests
from tidemill.checkpoint.procedure.trash import TrashedRequest, move_to_trash, read_trash
from tidemill.checkpoint.verbs.backup_manifest import read_manifests
from tidemill.names import GENERATION_PATTERN, Layout
from tidemill.spec.project import Pipeline
from tidemill.storage.store import Store, StoredFile

# A backup without a manifest counts as abandoned after this time without a write. It is far longer than the
# copy of the largest checkpoint takes.
ABANDONED_BACKUP = timedelta(days=1)

# Maximum number of files and folders that one run moves, to limit the damage of a wrong `--keep`. A stream
# that restarts every minute creates fewer epochs and receipts in a day.
MAX_MOVES = 5_000


@dataclass(frozen=True)
class Keep:
    """Amounts to keep, in addition to the files that always stay.

    Args:
        generations: Number of newest old generations.
        backups: Number of newest complete backups.
        records: Number of newest receipts, epochs, journal entries and listings of joined
            folders, each.
        trash: Time that trash stays.
    """

    generations: int = 2
    backups: int = 3
    records: int = 100
    trash: timedelta = timedelta(days=7)


@dataclass(frozen=True)
class PruneFacts:
    """The facts that decide a prune.

    Args:
        state: State folder.
        files: All files below it.
        live: Record of the live generation.
        backed_up: Generation of each complete backup, by backup.
        trash: Content of the trash.
        closed: Ended journal entries, oldest first.
        now: Reference time for ages.
        recorded: Generations that are or were live; None if unknown. Any other generation is left over from
            an abandoned request or was created by hand, so no operation returns to it.
    """

    state: str
    files: tuple[StoredFile, ...]
    live: Current | None
    backed_up: Mapping[str, str]
    trash: tuple[TrashedRequest, ...]
    closed: tuple[str, ...]
    now: datetime
    recorded: frozenset[str] | None = None


def gather_prune(store: Store, pipeline: Pipeline) -> PruneFacts:
    """Read the facts; write nothing."""
    layout, name = pipeline.layout, pipeline.name
    return PruneFacts(
        layout.state(name),
        tuple(store.list_files(layout.state(name))),
        read_current(store, layout, name),
        {manifest.backup: manifest.generation for manifest in read_manifests(store, layout, name)},
        tuple(read_trash(store, layout, name)),
        tuple(ended_requests(store, layout, name)),
        datetime.now(UTC),
        frozenset(record.generation for record in read_history(store, layout, name)),
    )


def plan_prune(facts: PruneFacts, keep: Keep) -> dict[str, Any]:
    """Return the paths to move, oldest first, and the trash to delete."""
    backups = _old_backups(facts, keep)
    moves = [
        *_old_generations(facts, keep, backups),
        *(f"backups/{name}" for name in backups),
        *_old_records(facts, keep, "receipts"),
        *_old_records(facts, keep, "epochs"),
        *_old_listings(facts, keep),
        *(f"journal/{name}" for name in _all_but_newest(facts.closed, keep.records)),
    ][:MAX_MOVES]
    old = [trashed for trashed in facts.trash if facts.now - trashed.newest > keep.trash]
    return {
        "moves": [{"path": path, **_weight(facts, path)} for path in moves],
        "deletes": [{"path": f"trash/{t.request_id}", "files": t.files, "bytes": t.size} for t in old],
    }


def prune_steps(store: Store, layout: Layout, request: Request, plan: Mapping[str, Any]) -> tuple[Step, ...]:
    """Return the steps: move to the trash, then delete old trash."""
    move = partial(_move, store, layout, request, [item["path"] for item in plan["moves"]])
    delete = partial(_delete, store, layout.state(request.pipeline), [i["path"] for i in plan["deletes"]])
    return (
        Step("move to trash", move, partial(_left, store, layout, request, plan["moves"])),
        Step("delete old trash", delete, partial(_left, store, layout, request, plan["deletes"])),
    )


def _left(
    store: Store, layout: Layout, request: Request, items: Iterable[Mapping[str, Any]], _: Notes
) -> str:
    """Name the paths that still exist and should be gone."""
    state, kept = layout.state(request.pipeline), _protected(read_current(store, layout, request.pipeline))
    files = (PurePosixPath(file.path).relative_to(state) for file in store.list_files(state))
    there = {str(path) for file in files for path in (file, *file.parents)} - kept
    return ", ".join(f"the removal of {item['path']}" for item in items if item["path"] in there)


def _move(store: Store, layout: Layout, request: Request, paths: Iterable[str], _: Notes) -> None:
    for path in paths:
        # Check again, because an operation may have made the generation live since the plan.
        if path not in _protected(read_current(store, layout, request.pipeline)):
            folder = f"{layout.state(request.pipeline)}/{path}"
            move_to_trash(store, layout, request.pipeline, request.request_id, folder)


def _delete(store: Store, state: str, paths: Iterable[str], _: Notes) -> None:
    for path in paths:
        store.delete_folder(f"{state}/{path}")


def _protected(live: Current | None) -> set[str]:
    if live is None:
        return set()
    return {live.generation} if live.base is None else {live.generation, live.base.generation}


def _old_generations(facts: PruneFacts, keep: Keep, old_backups: Iterable[str]) -> list[str]:
    kept_backups = set(facts.backed_up) - set(old_backups)
    protected = _protected(facts.live) | {facts.backed_up[name] for name in kept_backups}
    # Without a record, the live generation is unknown, so all generations stay.
    generations = _names(facts, "") if facts.live is not None else []
    candidates = [name for name in generations if re.fullmatch(GENERATION_PATTERN, name)]
    removable = [name for name in candidates if name not in protected]
    never_live = [n for n in removable if facts.recorded is not None and n not in facts.recorded]
    old = [name for name in removable if name not in never_live]
    return [*never_live, *_all_but_newest(old, keep.generations)]


def _old_backups(facts: PruneFacts, keep: Keep) -> list[str]:
    names = _names(facts, "backups/")
    complete = [name for name in names if name in facts.backed_up]
    incomplete = [name for name in names if name not in facts.backed_up]
    abandoned = [n for n in incomplete if facts.now - _newest(facts, f"backups/{n}") > ABANDONED_BACKUP]
    return [*_all_but_newest(complete, keep.backups), *abandoned]


def _old_records(facts: PruneFacts, keep: Keep, folder: str) -> list[str]:
    # The newest epoch fences older drivers, so it stays even with `--keep 0`.
    return [f"{folder}/{name}" for name in _all_but_newest(_names(facts, f"{folder}/"), max(1, keep.records))]


def _old_listings(facts: PruneFacts, keep: Keep) -> list[str]:
    """Listings of joined folders. Their names are digests; each query writes the ones that it reads again."""
    listings = sorted(_files(facts, "listings"), key=lambda file: file.modified)
    names = [PurePosixPath(file.path).name for file in listings]
    return [f"listings/{name}" for name in _all_but_newest(names, max(1, keep.records))]


def _all_but_newest(sorted_names: Iterable[str], count: int) -> list[str]:
    names = list(sorted_names)
    return names[: max(0, len(names) - count)]


def _names(facts: PruneFacts, folder: str) -> list[str]:
    """Return the names directly below a folder, sorted."""
    prefix = f"{facts.state}/{folder}"
    below = (file.path.removeprefix(prefix) for file in facts.files if file.path.startswith(prefix))
    return sorted({path.partition("/")[0] for path in below})


def _newest(facts: PruneFacts, path: str) -> datetime:
    return max(file.modified for file in _files(facts, path))


def _weight(facts: PruneFacts, path: str) -> dict[str, int]:
    files = _files(facts, path)
    return {"files": len(files), "bytes": sum(file.size for file in files)}


def _files(facts: PruneFacts, path: str) -> list[StoredFile]:
    whole = f"{facts.state}/{path}"
    return [file for file in facts.files if file.path == whole or file.path.startswith(f"{whole}/")]
