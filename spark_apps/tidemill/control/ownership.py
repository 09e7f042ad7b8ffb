"""Ownership of a storage root by a control plane. The first start claims it; a takeover moves it."""

from __future__ import annotations

import socket
from typing import Literal

from tidemill.checkpoint.root_owner import RootOwner, claim_root, read_owner
from tidemill.control.runtime import Identity
from tidemill.errors import GateRefusedError
from tidemill.names import Layout
from tidemill.storage.store import Store


def as_owner(identity: Identity, runtime: Literal["local", "kubernetes"]) -> RootOwner:
    """Return the control plane as the owner of a root."""
    return RootOwner(id=identity.id, runtime=runtime, place=identity.place, host=socket.gethostname())


def own_root(store: Store, layout: Layout, owner: RootOwner) -> None:
    """Raise unless `owner` owns the root; claim the root if it has no owner.

    Raises:
        GateRefusedError: TIDE-CTRL-010, if another control plane owns it; TIDE-CTRL-011, if its takeover is
            unfinished.
        DataError: TIDE-CTRL-012, if the owner cannot be determined.
    """
    standing = read_owner(store, layout)
    if standing is None:
        claim_root(store, layout, owner)
        standing = read_owner(store, layout)
    if standing is None or standing.id != owner.id:
        raise _belongs_to(standing, owner, layout)
    if standing.fencing:
        raise GateRefusedError(
            "TIDE-CTRL-011",
            "The takeover of this storage root was interrupted; former drivers may still write.",
            facts={"root": layout.root, "by": standing.by, "at": standing.at},
            fix=f"complete it: {TAKEOVER}",
            runbook="other-control-plane",
        )


TAKEOVER = "tidemill control takeover --reason TEXT --apply"


def _belongs_to(standing: RootOwner | None, asking: RootOwner, layout: Layout) -> GateRefusedError:
    facts: dict[str, object] = {}
    if standing is not None:
        facts = {"owner": str(standing), "on": standing.host, "since": standing.at}
        facts |= {"by": standing.by, "why": standing.why} if standing.by else {}
    return GateRefusedError(
        "TIDE-CTRL-010",
        "Another control plane works on this storage root. Nothing was started, stopped or changed.",
        facts={"root": layout.root, **facts, "this_is": str(asking)},
        fix=f"ask there; if it is gone for good, take the root over: {TAKEOVER}",
        runbook="other-control-plane",
    )
