"""The moments at which workers are killed inside the actions of DAGs, one in each kind of work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tests.support.standing_task import Moment, Victim
from tidemill.airflow_names import (
    BACKFILL_DAG_ID,
    CHECKPOINT_HYGIENE_DAG_ID,
    GAME_DAY_DAG_ID,
    SHADOW_RUN_DAG_ID,
    STREAM_ASSETS_DAG_ID,
    STREAMS_DAG_ID,
    TABLE_MAINTENANCE_DAG_ID,
    checkpoint_dag_id,
    incremental_dag_id,
    stream_dag_id,
)

STARTED = "tidemill.control.local.local_runtime:LocalRuntime.start"
OPERATORS = "tidemill_airflow.bounded_operators"
STREAM_OPERATORS = "tidemill_airflow.stream_operators"
CARRY_OUT = "tidemill.checkpoint.procedure.carry_out"
When = Literal["before", "after"]


@dataclass(frozen=True)
class Kill:
    """One kill.

    Args:
        told: Its description in a test's name.
        moment: The moment at which the task is stopped.
        victim: The process to kill.
    """

    told: str
    moment: Moment
    victim: Victim

    def __str__(self) -> str:
        return f"{self.moment.task_id}-{self.told}-{self.victim}"


def _kill(dag_id: str, task_id: str, told: str, at: str, when: When, victim: Victim) -> Kill:  # noqa: PLR0913  # a row of a table
    return Kill(told, Moment(dag_id, task_id, at, when), victim)


def of_incremental(name: str) -> list[Kill]:
    """Return a kill in each part of the one task."""
    dag_id = incremental_dag_id(name)
    return [
        _kill(dag_id, "run", "noted", "tidemill.control.ask.waiting_task:note_waiting", "after", "task"),
        _kill(dag_id, "run", "started", STARTED, "after", "machine"),
        _kill(dag_id, "run", "started", f"{OPERATORS}:wait_for", "before", "worker"),
        _kill(dag_id, "run", "finished", f"{OPERATORS}:settle", "before", "task"),
        _kill(dag_id, "run", "told", f"{OPERATORS}:conclude", "after", "machine"),
    ]


def of_stream(name: str) -> dict[str, Kill]:
    """Return a kill for each action on a stream, and one in the task `prove`, which all actions share."""
    dag_id, request = stream_dag_id(name), "tidemill.control.ask.stream_request"
    return {
        "start": _kill(dag_id, "act", "started", STARTED, "after", "machine"),
        "restart": _kill(dag_id, "act", "drained", f"{request}:start_stream", "before", "task"),
        "suspend": _kill(dag_id, "act", "asked", f"{request}:_stop", "after", "task"),
        "resume": _kill(dag_id, "act", "wished", f"{request}:_write_wish", "after", "task"),
        "stop": _kill(dag_id, "prove", "proven", f"{STREAM_OPERATORS}:proven", "after", "machine"),
    }


def of_reconciliation() -> Kill:
    """Return the kill of a reconciliation that has started a driver but has not recorded it."""
    return _kill(STREAMS_DAG_ID, "reconcile", "started", STARTED, "after", "machine")


def of_backfill() -> list[Kill]:
    """Return a kill in the plan, and in each part of the task that applies it."""
    plan, note = "tidemill.backfill.planning:plan_backfill", "tidemill.control.ask.waiting_task:note_waiting"
    return [
        _kill(BACKFILL_DAG_ID, "plan", "planned", plan, "after", "task"),
        _kill(BACKFILL_DAG_ID, "apply", "noted", note, "after", "machine"),
        _kill(BACKFILL_DAG_ID, "apply", "started", f"{OPERATORS}:wait_for", "before", "worker"),
        _kill(BACKFILL_DAG_ID, "apply", "finished", f"{OPERATORS}:conclude", "after", "task"),
    ]


def of_verb(verb: str, told: str, victim: Victim) -> Kill:
    """Return a kill in the task that carries out an operation, during one change to the checkpoint."""
    at, when = _IN_VERBS[told]
    return _kill(checkpoint_dag_id(verb), "apply", told, at, when, victim)


# Places that an operation passes.
_IN_VERBS: dict[str, tuple[str, When]] = {
    "held": (f"{CARRY_OUT}:take_hold", "after"),
    "begun": (f"{CARRY_OUT}:create_entry", "after"),
    "step-not-noted": (f"{CARRY_OUT}:note_step", "before"),
    "step-noted": (f"{CARRY_OUT}:note_step", "after"),
    "verified": (f"{CARRY_OUT}:write_audit", "before"),
    "audited": (f"{CARRY_OUT}:end_entry", "before"),
    "closed": (f"{CARRY_OUT}:drop_hold", "before"),
    "copied": ("tidemill.checkpoint.verbs.backup:_manifest", "before"),
    "hold-taken": ("tidemill.control.procedures.by_hand:hold", "after"),
    "hold-gone": ("tidemill.control.procedures.by_hand:release", "after"),
}

MAINTAIN, BACKUP = "tidemill.maintenance.maintain", "tidemill.checkpoint.verbs.backup"
EVENTS = "tidemill.control.stream_events"
PART, DRILLS = "tidemill.control.spark_part", "tidemill.control.game_day.drills"

COMPACTION = _kill(TABLE_MAINTENANCE_DAG_ID, "maintain", "done", f"{MAINTAIN}:_compact", "after", "task")
VACUUM = _kill(TABLE_MAINTENANCE_DAG_ID, "maintain", "begun", f"{MAINTAIN}:_delete", "before", "machine")
HYGIENE = _kill(CHECKPOINT_HYGIENE_DAG_ID, "look_after", "copied", f"{BACKUP}:_manifest", "before", "task")
TOLD = _kill(
    STREAM_ASSETS_DAG_ID, "tell", "looked", "tidemill.control.stream_events:look", "after", "machine"
)
SHADOW = _kill(SHADOW_RUN_DAG_ID, "run", "at-work", f"{PART}:_wait", "before", "machine")
THIRD_DRILL = Moment(GAME_DAY_DAG_ID, "play", f"{DRILLS}:Drills.do", "before", calls_before=2)
GAME_DAY = Kill("third-drill", THIRD_DRILL, "machine")
