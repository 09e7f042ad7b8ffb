"""The journal of a request: the plan of an operation, its completed steps, and its end.

    journal/<request id>/plan.json       created at the beginning
    journal/<request id>/step-03.json    the third step is done, with its notes for later steps
    journal/<request id>/end.json        verified, or abandoned
    journal/<request id>/alive.json      heartbeat of the running attempt

All but the last are created with put-if-absent and never changed. So an attempt that stalled and resumes can
neither undo the records of another attempt nor verify an abandoned request. An unfinished request continues
with its own plan instead of a new one, because the storage has changed since.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from tidemill.checkpoint.procedure.request import check_request_id, request_stem
from tidemill.names import Layout
from tidemill.storage.store import Store

# Values that a step records for later steps and for a repeated attempt.
Notes = Mapping[str, Any]
State = Literal["begun", "verified", "abandoned"]

_PLAN, _END = "plan.json", "end.json"


class JournalEntry(BaseModel):
    """One request of an operation.

    Args:
        plan: All decisions; the steps need only the plan and the notes of earlier steps.
        steps: Names, in order.
        before: Record of the live generation when the request began.
        command: Command that completes it.
        done: Number of completed steps.
        notes: Notes of the completed steps.
        state: `verified` and `abandoned` are final.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    v: int = 1
    verb: str
    pipeline: str
    request_id: str
    by: str
    why: str
    plan: dict[str, Any]
    steps: tuple[str, ...]
    before: dict[str, Any] | None = None
    begun_at: datetime = Field(default_factory=lambda: datetime.now(UTC))
    command: str = ""
    done: int = 0
    notes: dict[str, Any] = {}
    state: State = "begun"

    @property
    def progress(self) -> str:
        """Return the progress as readable text."""
        return f"{self.done} of {len(self.steps)} steps"


def read_entry(store: Store, layout: Layout, pipeline: str, request_id: str) -> JournalEntry | None:
    """Return one request; None if it never began."""
    folder = _folder(layout, pipeline, request_id)
    document = store.read_json(f"{folder}/{_PLAN}")
    if document is None:
        return None
    steps = [name for name in store.list_names(folder) if name.startswith("step-")]
    notes = [store.read_json(f"{folder}/{name}") or {} for name in steps]
    end = store.read_json(f"{folder}/{_END}") or {"state": "begun"}
    told = {key: value for note in notes for key, value in note["notes"].items()}
    return JournalEntry.model_validate({**document, "done": len(steps), "notes": told, "state": end["state"]})


def create_entry(store: Store, layout: Layout, entry: JournalEntry) -> bool:
    """Begin a request; return False if it has already begun."""
    path = f"{_folder(layout, entry.pipeline, entry.request_id)}/{_PLAN}"
    return store.create_json(path, entry.model_dump(mode="json", exclude={"done", "notes", "state"}))


def note_step(store: Store, layout: Layout, entry: JournalEntry, notes: Notes) -> JournalEntry | None:
    """Record the next step as done; return None if another attempt already has."""
    step = {"step": entry.steps[entry.done], "at": _now(), "notes": dict(notes)}
    path = f"{_folder(layout, entry.pipeline, entry.request_id)}/step-{entry.done + 1:02d}.json"
    if not store.create_json(path, step):
        return None
    return entry.model_copy(update={"done": entry.done + 1, "notes": {**entry.notes, **notes}})


def end_entry(store: Store, layout: Layout, entry: JournalEntry, state: State) -> JournalEntry:
    """End a request unless it has ended; return it with its final state."""
    path = f"{_folder(layout, entry.pipeline, entry.request_id)}/{_END}"
    if store.create_json(path, {"state": state, "at": _now()}):
        return entry.model_copy(update={"state": state})
    return entry.model_copy(update={"state": (store.read_json(path) or {})["state"]})


def drop_entry(store: Store, layout: Layout, entry: JournalEntry) -> None:
    """Delete the journal of a request that has done nothing."""
    for file in store.list_files(_folder(layout, entry.pipeline, entry.request_id)):
        store.delete(file.path)


def alive_path(layout: Layout, pipeline: str, request_id: str) -> str:
    """Return the path of the heartbeat."""
    return f"{_folder(layout, pipeline, request_id)}/alive.json"


def read_journal(store: Store, layout: Layout, pipeline: str) -> list[JournalEntry]:
    """Return all requests, oldest first."""
    return _read(store, layout, pipeline, _requests(store, layout, pipeline))


def unfinished_entries(store: Store, layout: Layout, pipeline: str) -> list[JournalEntry]:
    """Return the unfinished requests, oldest first.

    A verified request whose hold still exists died in its last step, and counts as unfinished.
    """
    held = {name.removesuffix(".json") for name in store.list_names(layout.holds(pipeline))}
    ended = _requests(store, layout, pipeline, _END)
    begun = [name for name in _requests(store, layout, pipeline) if name not in ended or name in held]
    return [e for e in _read(store, layout, pipeline, begun) if e.state == "begun" or e.request_id in held]


def ended_requests(store: Store, layout: Layout, pipeline: str) -> list[str]:
    """Return the ids of the ended requests, oldest first."""
    return [e.request_id for e in read_journal(store, layout, pipeline) if e.state != "begun"]


def derived_request_id(
    store: Store, layout: Layout, pipeline: str, verb: str, arguments: Mapping[str, Any]
) -> str:
    """Return the id of the unfinished request of an operation with these arguments, or else a new id.

    So a command that is repeated after a crash continues its request, and a command that is repeated after
    its end begins a new one. A new id includes the time, because tables keep the ids of requests, even when
    they are copied elsewhere.
    """
    stem = request_stem(verb, arguments)
    waiting = [entry.request_id for entry in unfinished_entries(store, layout, pipeline)]
    # A request that died before it had a journal has left a hold.
    held = [name.removesuffix(".json") for name in store.list_names(layout.holds(pipeline))]
    mine = (request_id for request_id in (*waiting, *held) if request_id.rpartition("-")[0] == stem)
    return next(mine, f"{stem}-{datetime.now(UTC):%Y%m%dt%H%M%S%f}")


def as_stored(plan: Mapping[str, Any]) -> dict[str, Any]:
    """Return the plan as the journal returns it, so that first and repeated runs see the same plan."""
    stored: dict[str, Any] = json.loads(json.dumps(plan, default=str))
    return stored


def _read(store: Store, layout: Layout, pipeline: str, request_ids: list[str]) -> list[JournalEntry]:
    entries = (read_entry(store, layout, pipeline, request_id) for request_id in request_ids)
    return sorted((e for e in entries if e is not None), key=lambda entry: entry.begun_at)


def _requests(store: Store, layout: Layout, pipeline: str, having: str = _PLAN) -> list[str]:
    start = len(layout.journal(pipeline)) + 1
    parts = (file.path[start:].partition("/") for file in store.list_files(layout.journal(pipeline)))
    return [request_id for request_id, _, name in parts if name == having]


def _folder(layout: Layout, pipeline: str, request_id: str) -> str:
    return f"{layout.journal(pipeline)}/{check_request_id(request_id)}"


def _now() -> str:
    return datetime.now(UTC).isoformat()
