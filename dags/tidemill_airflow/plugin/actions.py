"""Buttons of a pipeline and the values in their forms. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tidemill.airflow_names import BACKFILL_DAG_ID, checkpoint_dag_id, incremental_dag_id, stream_dag_id
from tidemill_airflow.declared import is_backfillable
from tidemill_airflow.place import Place
from tidemill_airflow.plugin.answers import Action
from tidemill_airflow.plugin.overview import Seen


def actions_of(seen: Seen, place: Place, may_run: Callable[[str], bool]) -> tuple[Action, ...]:
    """Return the buttons of a pipeline that the viewer may use, the most useful first.

    Args:
        seen: The pipeline.
        place: The environment whose DAGs the buttons trigger.
        may_run: Returns True if the viewer may run a DAG.
    """
    here = (action.model_copy(update={"dag_id": place.dag_id(action.dag_id)}) for action in _all(seen))
    return tuple(action for action in here if may_run(action.dag_id))


def _all(seen: Seen) -> Iterator[Action]:
    name, facts = seen.name, seen.state.facts
    for hold in seen.holds:
        yield _verb("release", name, f"Release hold {hold.id}", hold=hold.id)
    if facts.mode == "incremental":
        yield Action(label="Run now", dag_id=incremental_dag_id(name), conf={})
    elif facts.mode == "stream":
        yield from (_act(name, verb) for verb in _verbs(seen))
    for verb in ("backup", "rewind", "restore", "reset"):
        yield _verb(verb, name, verb.capitalize())
    if seen.spec is not None and is_backfillable(seen.spec):
        yield Action(label="Backfill", dag_id=BACKFILL_DAG_ID, conf={"pipeline": name})


def _verbs(seen: Seen) -> tuple[str, ...]:
    facts = seen.state.facts
    if facts.running is not None and seen.holds:
        # A restart would drain a driver whose successor could not start.
        return ("suspend", "stop")
    if facts.running is not None:
        return ("restart", "suspend", "stop")
    is_suspended = facts.desired is not None and facts.desired.state == "suspended"
    return ("resume", "stop") if is_suspended else ("start", "stop") if facts.is_wanted else ("start",)


def _act(pipeline: str, verb: str) -> Action:
    return Action(label=verb.capitalize(), dag_id=stream_dag_id(pipeline), conf={"action": verb})


def _verb(verb: str, pipeline: str, label: str, **conf: str) -> Action:
    return Action(label=label, dag_id=checkpoint_dag_id(verb), conf={"pipeline": pipeline, **conf})
