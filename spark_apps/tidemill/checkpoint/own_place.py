"""The place of a copy inside the live root: what is deleted there must be the copy's, and links lead away."""

from __future__ import annotations

import os
from pathlib import Path

from tidemill.errors import GateRefusedError


def check_own_place(place: str, runbook: str) -> None:
    """See that no link is on the way to a folder, nor below it. Object stores have none.

    Args:
        place: Full path; it need not exist.
        runbook: Page of what would be done there.

    Raises:
        GateRefusedError: TIDE-CTRL-094.
    """
    local = place.removeprefix("file://")
    if "://" in local:
        return
    real = os.path.realpath(local)
    link = next((path for path in Path(local).rglob("*") if path.is_symlink()), None)
    if real != local or link is not None:
        raise GateRefusedError(
            "TIDE-CTRL-094",
            "The place of a copy leads elsewhere. Nothing was changed.",
            facts={"place": place, "leads_to": real, "link": link or place},
            fix="see who has put a link there, and remove it",
            runbook=runbook,
        )
