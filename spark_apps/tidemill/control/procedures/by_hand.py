"""The operations without steps: a backup, a hold, and its release."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tidemill.control.procedures.run import Asking, acting_words, check_allowed
from tidemill.storage.advance import Told, nobody_told

if TYPE_CHECKING:
    from tidemill.checkpoint.holds import Hold
    from tidemill.checkpoint.verbs.backup_manifest import Manifest
    from tidemill.control.plane import ControlPlane
    from tidemill.spec.project import Pipeline


def back_up(plane: ControlPlane, asking: Asking, pipeline: Pipeline, told: Told = nobody_told) -> Manifest:
    """Copy the live checkpoint."""
    from tidemill.checkpoint.verbs.backup import BackupRequest, take_backup

    plane.own()
    request = BackupRequest(asking.person, asking.reason, datetime.now(UTC))
    return take_backup(plane.store, pipeline, request, told)


def hold(plane: ControlPlane, asking: Asking, pipeline: Pipeline, hold_id: str) -> tuple[Hold, bool]:
    """Forbid starts; return the hold, and True if it was created now and did not exist before."""
    from tidemill.checkpoint.holds import Hold
    from tidemill.checkpoint.verbs.release import hold_by_hand

    plane.own()
    releasing = Asking("release", (hold_id,), asking.by, asking.command)
    to_do = asking.command(*acting_words(releasing, pipeline.name, pipeline.environment))
    wanted = Hold(id=hold_id, by=asking.person, why=asking.reason, to_do=to_do)
    return wanted, hold_by_hand(plane.store, pipeline.layout, pipeline.name, wanted)


def release(
    plane: ControlPlane, asking: Asking, pipeline: Pipeline, hold_id: str, *, force: bool = False
) -> Hold:
    """Release a hold and return it."""
    from tidemill.checkpoint.holds import Hold
    from tidemill.checkpoint.verbs.release import release as let_go

    check_allowed(plane, asking, pipeline, forbids_starts=False)
    released = Hold(id=hold_id, by=asking.person, why=asking.reason)
    return let_go(plane.store, pipeline.layout, pipeline.name, released, force=force)
