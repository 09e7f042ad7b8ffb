"""Pipelines as one look of the Streams page has seen them, without storage and without drivers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.declared import declared
from tidemill.checkpoint.desired import Desired
from tidemill.checkpoint.query_report import QueryReport
from tidemill.checkpoint.receipts import Receipt
from tidemill.checkpoint.status import Status
from tidemill.control.decide.endings import Ending
from tidemill.control.decide.facts import Facts
from tidemill.control.decide.progress import stall_of
from tidemill.control.decide.reconcile import Reconciler
from tidemill.control.runtime import StartedDriver
from tidemill.control.stream_status import PipelineState
from tidemill.spec.restarts import RestartPolicy

if TYPE_CHECKING:
    from tidemill_airflow.plugin.overview import Seen

NOW = datetime(2026, 3, 4, 12, tzinfo=UTC)
ENDED = {"state": "stopped"}
STOPPED = Desired(state="stopped", by="ann", reason="quiet")


def ago(**time: float) -> datetime:
    """Return a moment before the look."""
    return NOW - timedelta(**time)


def seen(
    name: str = "orders",
    said: dict[str, Any] | None = None,
    desired: Desired | None = None,
    behind: Sequence[int] = (),
    receipt: Receipt | None = None,
    **declaration: Any,
) -> Seen:
    """Return a declared pipeline; its driver runs unless its status says that it ended or is missing.

    Args:
        name: The pipeline.
        said: Values of its status; None without a status.
        desired: The requested state.
        behind: Records that waited after each of its newest batches.
        receipt: Receipt of its newest driver.
        declaration: Further keys of its file, which reads the topic `orders` into `bronze/orders`.
    """
    from tidemill_airflow.plugin.overview import Seen

    spec = declared(Path(), name, **declaration).spec
    mode = spec.run.mode
    status = None if said is None else _status(name, mode, said)
    running = status is not None and status.state not in ("stopped", "failed")
    facts = Facts(
        name,
        NOW,
        mode,
        digest="d1",
        desired=desired,
        running=_driver(name, mode) if running else None,
        newest_receipt=receipt,
        newest_status=status,
        trigger=spec.run.trigger,
    )
    decision = Reconciler(RestartPolicy()).decide(facts)
    state = PipelineState(facts, decision, status, stall=stall_of(facts))
    return Seen(state, spec, report=_report(name, behind))


def receipt(name: str, stopped_at: datetime, stopped_early: bool = False) -> Receipt:
    """Return the receipt of an incremental run that ended successfully."""
    return Receipt(
        pipeline=name,
        run_id="r1",
        mode="incremental",
        result="clean",
        exit_code=0,
        stopped_at=stopped_at,
        stopped_early=stopped_early,
    )


def ended(pipeline: Seen, result: Any, ended_at: datetime, **told: Any) -> Seen:
    """Return the pipeline with a newest driver that has ended this way."""
    facts = pipeline.state.facts
    driver = replace(_driver(pipeline.name, facts.mode), alive=False)
    ending = Ending(
        run_id="r1", digest="d1", started_at=driver.started_at, ended_at=ended_at, result=result, **told
    )
    facts = replace(facts, ended=driver, endings=(ending,))
    return replace(pipeline, state=replace(pipeline.state, facts=facts))


def _status(name: str, mode: str, said: dict[str, Any]) -> Status:
    usual = {"state": "running", "run_id": "r1", "started_at": ago(days=30), "updated_at": NOW}
    return Status.model_validate({"pipeline": name, "mode": mode, **usual, **said})


def _driver(name: str, mode: Any) -> StartedDriver:
    return StartedDriver(name, mode, "r1", "d1", ago(days=30), ago(days=30), "log", "pid 1", alive=True)


def _report(name: str, behind: Sequence[int]) -> QueryReport:
    progress = tuple(
        {
            "batchId": number,
            "numInputRows": 10,
            "durationMs": {"triggerExecution": 500},
            "sources": [{"metrics": {"maxOffsetsBehindLatest": str(records)}}],
        }
        for number, records in enumerate(behind)
    )
    return QueryReport(
        pipeline=name,
        run_id="r1",
        id="id",
        query_run_id="run",
        name=name,
        started_at=NOW,
        updated_at=NOW,
        recent_progress=progress,
    )
