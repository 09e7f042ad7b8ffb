"""The API of the Streams page, below `/tidemill/api`; documented by `/tidemill/api/openapi.json`.

Routes are plain functions: FastAPI runs each in a thread, so none that waits for storage holds up another.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Depends, HTTPException, Query, Request

from tidemill.cli.newest_rows import Wanted, table_version
from tidemill.spec.pipeline import PipelineSpec
from tidemill_airflow.plugin import record_parts, stored_parts
from tidemill_airflow.plugin.access import LoggedIn, Viewer, dag_of
from tidemill_airflow.plugin.actions import actions_of
from tidemill_airflow.plugin.answers import (
    BackfillSeen,
    Checkpoints,
    Graph,
    History,
    LedgerLine,
    LogTail,
    Overview,
    PipelineView,
    ReasonCount,
    Records,
    Sample,
)
from tidemill_airflow.plugin.graph import graph_of
from tidemill_airflow.plugin.overview import Seen, row_of
from tidemill_airflow.plugin.snapshot import Look, Snapshot

api = APIRouter()

Limit = Annotated[int, Query(ge=1, le=500)]
Column = Annotated[str | None, Query(max_length=255)]


def _snapshot(request: Request) -> Snapshot:
    found: Snapshot = request.app.state.snapshot
    return found


Looked = Annotated[Snapshot, Depends(_snapshot)]


@dataclass(frozen=True)
class Shown:
    """One pipeline that the viewer may see."""

    seen: Seen
    look: Look
    snapshot: Snapshot
    viewer: Viewer

    @property
    def name(self) -> str:
        """The pipeline."""
        return self.seen.name

    @property
    def dag_id(self) -> str:
        """Its DAG."""
        return dag_of(self.name, self.seen.state.facts.mode)

    @property
    def spec(self) -> PipelineSpec:
        """Its declaration.

        Raises:
            HTTPException: 409, if it cannot be read.
        """
        if self.seen.spec is None:
            raise HTTPException(409, f"The file of {self.name} cannot be read: tidemill validate says why.")
        return self.seen.spec


def _visible(viewer: Viewer, seen: dict[str, Seen]) -> dict[str, Seen]:
    dags = {name: dag_of(name, each.state.facts.mode) for name, each in seen.items()}
    readable = viewer.readable(dags.values())
    return {name: seen[name] for name, dag_id in dags.items() if dag_id in readable}


def _shown(pipeline: str, viewer: LoggedIn, snapshot: Looked) -> Shown:
    """404 for a pipeline that does not exist, and the same for one that the viewer may not see."""
    look = snapshot.newest()
    seen = look.seen.get(pipeline)
    if seen is None or not _visible(viewer, {pipeline: seen}):
        raise HTTPException(404, "There is no such pipeline, or you may not see it.")
    return Shown(seen, look, snapshot, viewer)


def _shown_with_records(shown: Annotated[Shown, Depends(_shown)]) -> Shown:
    shown.viewer.check_records(shown.dag_id)
    return shown


OnePipeline = Annotated[Shown, Depends(_shown)]
OneWithRecords = Annotated[Shown, Depends(_shown_with_records)]


@api.get("/pipelines")
def overview(viewer: LoggedIn, snapshot: Looked) -> Overview:
    """Everything about all pipelines that the overview shows, in one answer."""
    look = snapshot.newest()
    seen = _visible(viewer, dict(look.seen))
    return Overview(
        environment=snapshot.place.environment,
        at=look.at,
        took_milliseconds=round(look.took_seconds * 1000),
        problem=look.problem,
        pipelines=tuple(map(row_of, seen.values())),
    )


@api.get("/graph")
def graph(viewer: LoggedIn, snapshot: Looked) -> Graph:
    """Pipelines, and what they read and write."""
    return graph_of(_visible(viewer, dict(snapshot.newest().seen)))


@api.get("/pipelines/{pipeline}")
def pipeline(shown: OnePipeline) -> PipelineView:
    """One pipeline, with the buttons that the viewer may press."""
    seen, spec, status = shown.seen, shown.seen.spec, shown.seen.state.status
    return PipelineView(
        row=row_of(seen),
        description="" if spec is None else spec.description,
        source="" if spec is None else ", ".join(one.source.kind for one in spec.streams.values()),
        transform="" if spec is None else spec.transform or "",
        tables=() if spec is None else tuple(sink.table for sink in spec.delta_sinks),
        actions=actions_of(seen, shown.viewer.may_run),
        may_see_records=shown.viewer.may_see_records(shown.dag_id),
        generation=None if status is None else status.generation,
        epoch=None if status is None else status.epoch,
        watermark=None if status is None else status.watermark,
        message="" if seen.report is None else seen.report.message,
        plan="" if seen.report is None else seen.report.explain,
    )


@api.get("/pipelines/{pipeline}/history")
def history(shown: OnePipeline) -> History:
    """The newest batches, for charts."""
    return History(points=shown.look.history.get(shown.name, ()))


@api.get("/pipelines/{pipeline}/ledger")
def ledger(shown: OnePipeline, limit: Limit = 50) -> list[LedgerLine]:
    """What each committed batch did, newest first."""
    return stored_parts.ledger_of(shown.snapshot.plane(), shown.name, shown.spec, limit)


@api.get("/pipelines/{pipeline}/checkpoints")
def checkpoints(shown: OnePipeline) -> Checkpoints:
    """Generations, and what verbs did."""
    return stored_parts.checkpoints_of(shown.snapshot.plane(), shown.name)


@api.get("/pipelines/{pipeline}/backfills")
def backfills(shown: OnePipeline) -> list[BackfillSeen]:
    """Backfills, those begun last first."""
    return stored_parts.backfills_of(shown.snapshot.plane(), shown.name)


@api.get("/pipelines/{pipeline}/quarantine")
def quarantine(shown: OnePipeline) -> list[ReasonCount]:
    """How many records are in quarantine, and why."""
    return record_parts.reasons_of(shown.snapshot.plane().layout, shown.name)


@api.get("/pipelines/{pipeline}/quarantine/records")
def rejected(shown: OneWithRecords, limit: Limit = 20) -> Records:
    """The records rejected last."""
    return record_parts.rejected_of(shown.snapshot.plane().layout, shown.name, limit)


@api.get("/pipelines/{pipeline}/sample")
def sample(
    shown: OneWithRecords, table: str | None = None, x: Column = None, y: Column = None, limit: Limit = 20
) -> Sample:
    """The newest rows of one of its tables, and a plot."""
    tables = [sink.table for sink in shown.spec.delta_sinks]
    wanted = table or (tables[0] if tables else "")
    layout = shown.snapshot.plane().layout
    if wanted not in tables or table_version(layout, wanted) is None:
        raise HTTPException(404, "The pipeline has no such table yet.")
    event_time = shown.spec.event_time.column if shown.spec.event_time else None
    return record_parts.sample_of(layout, wanted, Wanted(x, y, event_time, rows=limit))


@api.get("/pipelines/{pipeline}/log")
def log(shown: OneWithRecords) -> LogTail:
    """The end of the newest driver's log."""
    found = record_parts.log_of(shown.snapshot.plane(), shown.name)
    if found is None:
        raise HTTPException(404, "No driver of this pipeline has ever run here.")
    return found
