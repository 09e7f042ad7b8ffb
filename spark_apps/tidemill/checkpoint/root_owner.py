"""`control.json`: the control plane that owns the storage root; other control planes change nothing there."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tidemill.errors import DataError, FencedError
from tidemill.names import Layout
from tidemill.storage.store import Store

# Names the control plane that started a driver. It is unset if a user started the driver.
CONTROL_PLANE_VARIABLE = "TIDEMILL_CONTROL_PLANE"

# Characters of a control plane's id that are shown, enough to distinguish the control planes of one storage
# root.
SHOWN_ID_CHARACTERS = 8


class RootOwner(BaseModel):
    """A control plane and the time when it took ownership.

    Args:
        id: Unique id.
        runtime: Runtime of its drivers.
        place: Readable location: a folder, or a namespace.
        host: Machine or pod that claimed the root.
        by: Operator who took the root over; empty for the first owner.
        why: Reason for the takeover.
        fencing: True while the takeover is unfinished: drivers of the previous owner may still run.
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
        # The id distinguishes control planes in the same folder: on another machine, or after `.tidemill` was
        # deleted.
        return f"{self.runtime}, {self.place}, id {self.id[:SHOWN_ID_CHARACTERS]}"


def read_owner(store: Store, layout: Layout) -> RootOwner | None:
    """Return the owner of the root; None if no control plane has claimed it.

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
    """Claim a root without an owner; if several claims race, only one succeeds."""
    return store.create_json(layout.control, owner.model_dump(mode="json"))


def write_owner(store: Store, layout: Layout, owner: RootOwner) -> None:
    """Replace the owner or an unreadable record."""
    store.write_json(layout.control, owner.model_dump(mode="json"))


def check_started_by_owner(store: Store, layout: Layout, started_by: str | None) -> None:
    """Check that the control plane that started this driver still owns the root.

    A kubelet or another supervisor does not know about a takeover and would restart the driver.

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
