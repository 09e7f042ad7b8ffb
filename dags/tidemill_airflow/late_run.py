"""Notify the environment's channels of a late run; the run continues."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from airflow.sdk.definitions.callback import AsyncCallback
from airflow.sdk.definitions.deadline import DeadlineAlert, DeadlineReference

from tidemill.spec.units import format_duration
from tidemill_airflow.notify import channels_of, tell_all
from tidemill_airflow.place import Place, place_from

if TYPE_CHECKING:
    from datetime import timedelta

    from tidemill.control.news import Notice


def deadline_of(place: Place, pipeline: str, deadline: timedelta | None) -> DeadlineAlert | None:
    """Return the deadline of an incremental pipeline's DAG; None if it has none.

    The deadline counts from the time at which the run was queued. An unpaused DAG runs once for the last
    interval, however old that interval is, and a run that waits for the previous one can be late as well. The
    callback is asynchronous because only some executors run synchronous callbacks.
    """
    if deadline is None:
        return None
    told = {"place": place.as_document(), "pipeline": pipeline, "within": format_duration(deadline)}
    return DeadlineAlert(
        reference=DeadlineReference.DAGRUN_QUEUED_AT,
        interval=deadline,
        callback=AsyncCallback(tell_late, kwargs=told),
        name=f"{pipeline} ends within {format_duration(deadline)}",
    )


async def tell_late(
    place: dict[str, str], pipeline: str, within: str, context: dict[str, Any] | None = None
) -> None:
    """Notify that a run has not ended in time. Runs in the triggerer, so blocking calls run in a thread.

    Args:
        place: Project and environment, as plain data.
        pipeline: Pipeline of the run.
        within: The deadline, in words.
        context: Airflow's data about the run.
    """
    await asyncio.to_thread(_tell, place_from(place), pipeline, within, context or {})


def _tell(place: Place, pipeline: str, within: str, context: dict[str, Any]) -> None:
    channels = channels_of(place.declared())
    run = context.get("dag_run") or {}
    notice = notice_of_late(place.environment_name, pipeline, within, run)
    not_told = tell_all(channels, dict.fromkeys(channels.names, notice), context)
    for name in sorted(not_told & set(channels.refused)):
        raise channels.refused[name]


def notice_of_late(environment: str, pipeline: str, within: str, run: dict[str, Any]) -> Notice:
    """Return the notice of a late run."""
    from tidemill.control.news import Notice

    named = {"dag_id": run.get("dag_id"), "dag_run_id": run.get("dag_run_id"), "state": run.get("state")}
    return Notice(
        subject=f"Tidemill {environment}: {pipeline} is late",
        text=f"{pipeline}: its run {named['dag_run_id']} (DAG {named['dag_id']}) has not ended within "
        f"{within} of being queued. It goes on; nothing was stopped.",
        environment=environment,
        changes=({"pipeline": pipeline, "late": {"within": within, **named}},),
    )
