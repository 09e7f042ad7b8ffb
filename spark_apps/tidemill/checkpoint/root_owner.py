"""`control.json`: which control plane owns the storage root; no other one changes anything there."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tidemill.errors import DataError, FencedError
from tidemill.names import Layout
from tidemill.storage.store import Store

# Tells a driver which control plane has started it; without it, a person has.
CONTROL_PLANE_VARIABLE = "TIDEMILL_CONTROL_PLANE"

# Characters of a control plane's id that are shown: enough that no two of one storage root look the same.
SHOWN_ID_CHARACTERS = 8


class RootOwner(BaseModel):
    """A control plane, and since when the root is its own.

    Args:
        id: Tells it from every other one.
        runtime: Where its drivers run.
        place: Where it is, for a person: a folder, or a namespace.
        host: The machine, or the pod, that claimed the root.
        by: Who took the root over; empty for the first owner.
        why: The reason given for that.
        fencing: Whether drivers of the owner before may still be at work: the takeover is unfinished.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    v: int = 1
    id: str
    runtime: Literal["local", "kubernetes"]
    place: str
    host: str
    at: datetime = Field(default_factory=lambda: datetime.now(UTC))
    by: str = ""
    why: str = ""
    fencing: bool = False

    def __str__(self) -> str:
        # The same folder is another control plane on another machine, or once its `.tidemill` was deleted.
        return f"{self.runtime}, {self.place}, id {self.id[:SHOWN_ID_CHARACTERS]}"


def read_owner(store: Store, layout: Layout) -> RootOwner | None:
    """Whose the root is; None if nobody has claimed it.

    Raises:
        DataError: TIDE-CTRL-012, if the record is damaged.
    """
    try:
        document = store.read_json(layout.control)
        return None if document is None else RootOwner.model_validate(document)
    except (DataError, ValidationError) as error:
        raise DataError(
            "TIDE-CTRL-012",
            "The record of who owns the storage root is damaged.",
            facts={"file": layout.control},
            fix="see which control plane works on this root, and there: tidemill control takeover",
            runbook="other-control-plane",
        ) from error


def claim_root(store: Store, layout: Layout, owner: RootOwner) -> bool:
    """Own a root that is nobody's; of racing claims one wins."""
    return store.create_json(layout.control, owner.model_dump(mode="json"))


def write_owner(store: Store, layout: Layout, owner: RootOwner) -> None:
    """Put an owner into the place of another one, or of a record that cannot be read."""
    store.write_json(layout.control, owner.model_dump(mode="json"))


def check_started_by_owner(store: Store, layout: Layout, started_by: str | None) -> None:
    """See that the control plane that has started this driver still owns the root.

    What keeps a driver alive, such as a kubelet, knows nothing of a takeover and starts it again.

    Raises:
        FencedError: TIDE-RUN-005.
    """
    owner = read_owner(store, layout) if started_by else None
    if owner is not None and owner.id != started_by:
        raise FencedError(
            "TIDE-RUN-005",
            "Another control plane has taken this storage root over. This driver ends, and wrote nothing.",
            facts={"root": layout.root, "owner": str(owner), "since": owner.at},
            fix="nothing, if that was meant; else take the root back: tidemill control takeover",
            runbook="other-control-plane",
        )
