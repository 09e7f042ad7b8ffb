"""Verbs in whose task a worker is killed: what each needs before, on the pipeline `daily`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.support.fault_world import FORK, TRANSFORM, FaultWorld
from tests.support.rewinds import newest_batch
from tests.support.standing_task import Victim
from tidemill.checkpoint.current import read_current
from tidemill.checkpoint.holds import read_holds
from tidemill.checkpoint.verbs.backup_manifest import read_manifests

NAME = "daily"

# Where each is killed (`action_kills.of_verb`), and what is killed.
VERBS: Mapping[str, tuple[str, Victim]] = {
    "backup": ("copied", "machine"),
    "rewind": ("step-not-noted", "task"),
    "restore": ("step-noted", "worker"),
    "reset": ("begun", "machine"),
    "repair": ("verified", "task"),
    "fork": ("step-not-noted", "worker"),
    "acknowledge": ("closed", "task"),
    "prune": ("step-not-noted", "machine"),
    "hold": ("hold-taken", "task"),
    "release": ("hold-gone", "task"),
}


def prepared(world: FaultWorld, verb: str) -> dict[str, Any]:
    """See that there is what a verb is about; its own fields of the form."""
    world.have_batches(NAME, 2)
    match verb:
        case "rewind":
            return {"to": str(newest_batch(world.events[NAME].pipeline) - 1)}
        case "restore":
            return {"backup": backups(world)[-1]}
        case "reset":
            return {"from": world.events[NAME].end_offsets()}
        case "repair":
            tear_newest_offsets(world)
        case "acknowledge":
            world.lake.transform(NAME, TRANSFORM.format(number=2))
        case "fork":
            return {"fork": FORK}
        case "prune":
            backups(world)
            return {"generations": 0, "backups": 1, "records": 1, "trash_days": 0}
        case "release":
            if not holds(world):
                assert world.verb("hold", NAME) == "success"
            return {"hold": "by-hand"}
    return {}


def backups(world: FaultWorld) -> list[str]:
    """Names of the backups, after at least one."""
    plane = world.plane
    if not read_manifests(plane.store, plane.layout, NAME):
        assert world.verb("backup", NAME) == "success"
    return [manifest.backup for manifest in read_manifests(plane.store, plane.layout, NAME)]


def holds(world: FaultWorld) -> list[str]:
    """Ids of the holds."""
    return [hold.id for hold in read_holds(world.plane.store, world.plane.layout, NAME)]


def tear_newest_offsets(world: FaultWorld) -> None:
    """Cut the newest file of `offsets/` in two, as a zombie does that is killed while it overwrites it."""
    plane = world.plane
    live = read_current(plane.store, plane.layout, NAME)
    assert live is not None
    checkpoint = plane.layout.checkpoint(NAME, live.generation)
    newest = max(int(name) for name in plane.store.list_names(f"{checkpoint}/offsets") if name.isdecimal())
    path = f"{checkpoint}/offsets/{newest}"
    content = plane.store.read(path)
    assert content is not None
    plane.store.write(path, content[: len(content) // 2])
