"""`acknowledge`: an operator accepts a changed declaration or changed code for the live generation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from tidemill.checkpoint.current import Accepted, Current, read_current
from tidemill.checkpoint.gate import check, gather_facts
from tidemill.checkpoint.gate.changes import lacks_meaning, unaccepted
from tidemill.checkpoint.procedure.carry_out import Request, Step
from tidemill.checkpoint.procedure.journal import Notes
from tidemill.checkpoint.verbs.go_back import switch_to
from tidemill.checkpoint.verbs.prospect import never_ran
from tidemill.spec.project import Pipeline
from tidemill.storage.store import Store


def plan_acknowledge(store: Store, pipeline: Pipeline, check_state: Callable[[], None]) -> dict[str, Any]:
    """Return the changes, and the record that accepts them.

    Args:
        store: Control files.
        pipeline: The changed pipeline.
        check_state: Raises if the state does not fit the new code. Spark must plan the code for that, so it
            is called only if the code was changed and no analysis of it is stored.

    Raises:
        UsageError: TIDE-CKPT-076, if the pipeline has never run.
        GateRefusedError: If the gate has any other finding, as at a start; also see `check_state`.
    """
    live = read_current(store, pipeline.layout, pipeline.name)
    if live is None:
        raise never_ran(pipeline.name)
    facts = gather_facts(store, pipeline, live.generation)
    accepted = Accepted(shape=facts.declared.shape, code=facts.declared.code)
    check(replace(facts, accepted=accepted))
    if lacks_meaning(facts):
        check_state()
    return {
        "changed": unaccepted(facts),
        "live": live.model_dump(mode="json"),
        "accepted": accepted.model_dump(mode="json"),
    }


def acknowledge_steps(
    store: Store, pipeline: Pipeline, request: Request, plan: Mapping[str, Any]
) -> tuple[Step, ...]:
    """Return the step: the generation stays, and its new record stores what is accepted, by whom and why."""

    def accept(_: Notes) -> None:
        live = Current.model_validate(plan["live"])
        new = {
            "number": live.number + 1,
            "since": datetime.now(UTC),
            "why": f"acknowledge: {request.why}",
            "by": request.by,
            "request_id": request.request_id,
            "accepted": Accepted.model_validate(plan["accepted"]),
        }
        switch_to(store, pipeline.layout, live.model_copy(update=new))

    def missing(_: Notes) -> str:
        newest = read_current(store, pipeline.layout, pipeline.name)
        there = newest is not None and newest.request_id == request.request_id
        return "" if there else "a record of the live generation that accepts the change"

    return (Step("accept", accept, missing),)
