"""Check a copy's folder in the live root: symbolic links could lead deletions to other data."""

from __future__ import annotations

import os
from pathlib import Path

from tidemill.errors import GateRefusedError


def check_own_place(place: str, runbook: str) -> None:
    """Check that no symbolic link is in the path to a folder or below it. Object stores have no links.

    Args:
        place: Full path; it need not exist.
        runbook: Name of the runbook page for the error.

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
