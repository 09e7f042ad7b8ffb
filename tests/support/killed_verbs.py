"""Operations in whose task a worker is killed: what each needs before, on the pipeline `daily`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tests.support.fault_world import DISTINCT, FORK, FaultWorld
from tests.support.rewinds import newest_batch
from tests.support.standing_task import Victim
from tidemill.checkpoint.current import read_current
from tidemill.checkpoint.holds import read_holds
from tidemill.checkpoint.verbs.backup_manifest import read_manifests

NAME = "daily"

# Name of the pipeline with state.
KEYED = "keyed"

# Step at which each operation is killed (`action_kills.of_verb`), and the victim.
VERBS: Mapping[str, tuple[str, Victim]] = {
    "backup": ("copied", "machine"),
    "rewind": ("step-not-noted", "task"),
    "restore": ("step-noted", "worker"),
    "reset": ("begun", "machine"),
    "repair": ("verified", "task"),
    "fork": ("step-not-noted", "worker"),
    "prune": ("step-not-noted", "machine"),
    "hold": ("hold-taken", "task"),
    "release": ("hold-gone", "task"),
}
OF_STATE: Mapping[str, tuple[str, Victim]] = {
    "repartition": ("step-not-noted", "machine"),
    "acknowledge": ("closed", "task"),
}


def prepared(world: FaultWorld, verb: str) -> dict[str, Any]:
    """Prepare the world for an operation, and return the operation's fields of the form."""
    world.have_batches(NAME, 2)
    prepare = _PREPARED.get(verb)
    return {} if prepare is None else prepare(world)


def prepared_with_state(world: FaultWorld, verb: str) -> dict[str, Any]:
    """Prepare the world for an operation on state, and return the operation's fields of the form."""
    world.have_batches(KEYED, 2)
    if verb == "repartition":
        world.events[KEYED].declare(run={"mode": "incremental", "shuffle_partitions": 3})
        return {"partitions": 3}
    # Other code of a query with state has to be meant.
    world.lake.transform(KEYED, DISTINCT.replace("events.drop", "events.where('true').drop"))
    return {}


def _rewind(world: FaultWorld) -> dict[str, Any]:
    return {"to": str(newest_batch(world.events[NAME].pipeline) - 1)}


def _restore(world: FaultWorld) -> dict[str, Any]:
    return {"backup": backups(world)[-1]}


def _reset(world: FaultWorld) -> dict[str, Any]:
    return {"from": world.events[NAME].end_offsets()}


def _repair(world: FaultWorld) -> dict[str, Any]:
    # Settings are those of a neighbour in the same generation.
    for _ in range(2):
        world.events[NAME].send(10)
        world.run_incremental(NAME)
    tear_newest_offsets(world)
    return {}


def _fork(world: FaultWorld) -> dict[str, Any]:
    world.events[FORK].broken_before = len(world.events[NAME].broken)
    return {"fork": FORK}


def _prune(world: FaultWorld) -> dict[str, Any]:
    backups(world)
    return {"generations": 0, "backups": 1, "records": 1, "trash_days": 0}


def _release(world: FaultWorld) -> dict[str, Any]:
    if not holds(world):
        assert world.verb("hold", NAME) == "success"
    return {"hold": "by-hand"}


_PREPARED: Mapping[str, Callable[[FaultWorld], dict[str, Any]]] = {
    "rewind": _rewind,
    "restore": _restore,
    "reset": _reset,
    "repair": _repair,
    "fork": _fork,
    "prune": _prune,
    "release": _release,
}


def backups(world: FaultWorld) -> list[str]:
    """Return names of the backups, after at least one."""
    plane = world.plane
    if not read_manifests(plane.store, plane.layout, NAME):
        assert world.verb("backup", NAME) == "success"
    return [manifest.backup for manifest in read_manifests(plane.store, plane.layout, NAME)]


def holds(world: FaultWorld) -> list[str]:
    """Return ids of the holds."""
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
