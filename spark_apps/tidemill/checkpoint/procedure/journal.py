"""The journal: `journal/<request id>.json`, what a verb planned and how far it came.

An unfinished entry is what a repeated run continues with: its plan, not a new one, because the world has
changed since.
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


class JournalEntry(BaseModel):
    """One request of a verb.

    Args:
        plan: All that was decided; the steps need nothing else.
        steps: Names, in order.
        done: Names of the steps that are behind it.
        before: Record of the live generation when the request began.
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
    done: tuple[str, ...] = ()
    before: dict[str, Any] | None = None
    state: Literal["begun", "verified", "abandoned"] = "begun"
    begun_at: datetime = Field(default_factory=lambda: datetime.now(UTC))
    ended_at: datetime | None = None
    command: str = ""


def read_entry(store: Store, layout: Layout, pipeline: str, request_id: str) -> JournalEntry | None:
    """One request; None if it never began."""
    document = store.read_json(_path(layout, pipeline, check_request_id(request_id)))
    return None if document is None else JournalEntry.model_validate(document)


def read_journal(store: Store, layout: Layout, pipeline: str) -> list[JournalEntry]:
    """All requests, oldest first."""
    names = [n.removesuffix(".json") for n in store.list_names(layout.journal(pipeline))]
    entries = (read_entry(store, layout, pipeline, name) for name in names)
    return sorted((e for e in entries if e is not None), key=lambda entry: entry.begun_at)


def create_entry(store: Store, layout: Layout, entry: JournalEntry) -> bool:
    """Begin a request; False if it has begun before."""
    return store.create_json(_path(layout, entry.pipeline, entry.request_id), entry.model_dump(mode="json"))


def write_entry(store: Store, layout: Layout, entry: JournalEntry) -> None:
    """Note how far a request came."""
    store.write_json(_path(layout, entry.pipeline, entry.request_id), entry.model_dump(mode="json"))


def drop_entry(store: Store, layout: Layout, entry: JournalEntry) -> None:
    """Forget a request that has done nothing."""
    store.delete(_path(layout, entry.pipeline, entry.request_id))


def unfinished_entries(store: Store, layout: Layout, pipeline: str) -> list[JournalEntry]:
    """Requests that were begun and not brought to their end, oldest first.

    A verified request whose hold is still there died on its last step, and counts.
    """
    held = set(store.list_names(layout.holds(pipeline)))
    entries = read_journal(store, layout, pipeline)
    return [e for e in entries if e.state == "begun" or f"{e.request_id}.json" in held]


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


def _path(layout: Layout, pipeline: str, request_id: str) -> str:
    return f"{layout.journal(pipeline)}/{request_id}.json"
