"""Holds: a file `holds/<id>.json` forbids the start of a pipeline and records who, why and the next action.

An operation takes a hold under its request id before it changes anything, and releases it when the gate
passes. Operators take and release other holds.
"""

from __future__ import annotations

from datetime import UTC, datetime

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tidemill.checkpoint.procedure.journal import alive_path
from tidemill.checkpoint.procedure.request import check_request_id
from tidemill.checkpoint.procedure.sign_of_life import SignOfLife
from tidemill.errors import DataError
from tidemill.names import Layout
from tidemill.storage.store import Store


class Hold(BaseModel):
    """A reason why a pipeline must not start.

    Args:
        id: Id of the request that took the hold, or a name that an operator chose.
        by: Operator who took it.
        why: One sentence.
        to_do: Command that ends the hold.
        alive: Last heartbeat of the operation that took the hold; None for an operator's hold.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    v: int = 1
    id: str
    by: str
    at: datetime = Field(default_factory=lambda: datetime.now(UTC))
    why: str
    to_do: str = ""
    alive: SignOfLife | None = None

    @property
    def facts(self) -> dict[str, object]:
        """Return id, operator, time and reason, and the heartbeat of the operation if there is one."""
        at_work = {} if self.alive is None else {"verb": self.alive.told()}
        return {"hold": self.id, "by": self.by, "since": f"{self.at:%F %T}", "why": self.why, **at_work}


def read_holds(store: Store, layout: Layout, pipeline: str) -> list[Hold]:
    """Return all holds of a pipeline, sorted by id. An unreadable hold still counts as a hold."""
    names = store.list_names(layout.holds(pipeline))
    holds = (_read(store, layout, pipeline, name.removesuffix(".json")) for name in names)
    return [hold for hold in holds if hold is not None]


def take_hold(store: Store, layout: Layout, pipeline: str, hold: Hold) -> bool:
    """Take a hold; return False if a hold with this id already exists, which then stays unchanged."""
    path = _path(layout, pipeline, check_request_id(hold.id))
    return store.create_json(path, hold.model_dump(mode="json", exclude={"alive"}))


def is_held(store: Store, layout: Layout, pipeline: str, hold_id: str) -> bool:
    """Return True if the hold with this id exists."""
    return store.read(_path(layout, pipeline, check_request_id(hold_id))) is not None


def drop_hold(store: Store, layout: Layout, pipeline: str, hold_id: str) -> None:
    """Remove a hold if it exists. Operators use `release`, which checks and audits."""
    store.delete(_path(layout, pipeline, check_request_id(hold_id)))


def _read(store: Store, layout: Layout, pipeline: str, hold_id: str) -> Hold | None:
    try:
        document = store.read_json(_path(layout, pipeline, hold_id))
        if document is None:
            # Released since the listing.
            return None
        alive = store.read_json(alive_path(layout, pipeline, hold_id))
        return Hold.model_validate({**document, "alive": alive})
    except (DataError, ValidationError):
        why = "the hold's file cannot be read"
        return Hold(id=hold_id, by="unknown", at=datetime.fromtimestamp(0, UTC), why=why)


def _path(layout: Layout, pipeline: str, hold_id: str) -> str:
    return f"{layout.holds(pipeline)}/{hold_id}.json"
