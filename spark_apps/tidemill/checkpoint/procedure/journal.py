"""The journal of a request: what a verb planned, how far it came, and how it ended.

    journal/<request id>/plan.json       made when it begins
    journal/<request id>/step-03.json    the third step is done, and what the later ones need of it
    journal/<request id>/end.json        verified, or abandoned
    journal/<request id>/alive.json      the sign of life of the attempt at work

Each but the last is made by put-if-absent and never changed. So an attempt that stood still and wakes up can
neither undo what another one has noted since, nor verify what was abandoned. An unfinished request is
continued with its own plan, not a new one, because the world has changed since.
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

# What a step tells the later ones, and a repeated attempt.
Notes = Mapping[str, Any]
State = Literal["begun", "verified", "abandoned"]

_PLAN, _END = "plan.json", "end.json"


class JournalEntry(BaseModel):
    """One request of a verb.

    Args:
        plan: All that was decided; the steps need nothing else but the notes of earlier ones.
        steps: Names, in order.
        before: Record of the live generation when the request began.
        command: What completes it.
        done: How many steps are done.
        notes: What they told.
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
        """How far it came, for a person."""
        return f"{self.done} of {len(self.steps)} steps"


def read_entry(store: Store, layout: Layout, pipeline: str, request_id: str) -> JournalEntry | None:
    """One request; None if it never began."""
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
    """Begin a request; False if it has begun before."""
    path = f"{_folder(layout, entry.pipeline, entry.request_id)}/{_PLAN}"
    return store.create_json(path, entry.model_dump(mode="json", exclude={"done", "notes", "state"}))


def note_step(store: Store, layout: Layout, entry: JournalEntry, notes: Notes) -> JournalEntry | None:
    """Note the next step as done; None if someone else has."""
    step = {"step": entry.steps[entry.done], "at": _now(), "notes": dict(notes)}
    path = f"{_folder(layout, entry.pipeline, entry.request_id)}/step-{entry.done + 1:02d}.json"
    if not store.create_json(path, step):
        return None
    return entry.model_copy(update={"done": entry.done + 1, "notes": {**entry.notes, **notes}})


def end_entry(store: Store, layout: Layout, entry: JournalEntry, state: State) -> JournalEntry:
    """End a request, unless it has ended; returns it with the state that counts."""
    path = f"{_folder(layout, entry.pipeline, entry.request_id)}/{_END}"
    if store.create_json(path, {"state": state, "at": _now()}):
        return entry.model_copy(update={"state": state})
    return entry.model_copy(update={"state": (store.read_json(path) or {})["state"]})


def drop_entry(store: Store, layout: Layout, entry: JournalEntry) -> None:
    """Forget a request that has done nothing."""
    for file in store.list_files(_folder(layout, entry.pipeline, entry.request_id)):
        store.delete(file.path)


def alive_path(layout: Layout, pipeline: str, request_id: str) -> str:
    """Where the attempt at work shows that it lives."""
    return f"{_folder(layout, pipeline, request_id)}/alive.json"


def read_journal(store: Store, layout: Layout, pipeline: str) -> list[JournalEntry]:
    """All requests, oldest first."""
    return _read(store, layout, pipeline, _requests(store, layout, pipeline))


def unfinished_entries(store: Store, layout: Layout, pipeline: str) -> list[JournalEntry]:
    """Requests that were begun and not brought to their end, oldest first.

    A verified request whose hold is still there died on its last step, and counts.
    """
    held = {name.removesuffix(".json") for name in store.list_names(layout.holds(pipeline))}
    ended = _requests(store, layout, pipeline, _END)
    begun = [name for name in _requests(store, layout, pipeline) if name not in ended or name in held]
    return [e for e in _read(store, layout, pipeline, begun) if e.state == "begun" or e.request_id in held]


def ended_requests(store: Store, layout: Layout, pipeline: str) -> list[str]:
    """Ids of the requests that have come to their end, oldest first."""
    return [e.request_id for e in read_journal(store, layout, pipeline) if e.state != "begun"]


def derived_request_id(
    store: Store, layout: Layout, pipeline: str, verb: str, arguments: Mapping[str, Any]
) -> str:
    """The id of a verb with these arguments: that of its unfinished request, else a new one.

    So a command that is repeated after a crash continues, and one that is repeated after its end begins anew.
    The moment is part of a new one: tables keep the ids of requests, also where they are carried to.
    """
    stem = request_stem(verb, arguments)
    waiting = [entry.request_id for entry in unfinished_entries(store, layout, pipeline)]
    # A request that died before its journal has left a hold.
    held = [name.removesuffix(".json") for name in store.list_names(layout.holds(pipeline))]
    mine = (request_id for request_id in (*waiting, *held) if request_id.rpartition("-")[0] == stem)
    return next(mine, f"{stem}-{datetime.now(UTC):%Y%m%dt%H%M%S%f}")


def as_stored(plan: Mapping[str, Any]) -> dict[str, Any]:
    """A plan as the journal gives it back, so that first and repeated runs see the same."""
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
