"""The API of the Streams page, below `/tidemill/api`; documented by `/tidemill/api/openapi.json`.

Routes are plain functions, which FastAPI runs in threads. Routes that read storage use `Shown.plane`, which
limits how many read at the same time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Depends, FastAPI, HTTPException, Query, Request

from tidemill.control.plane import ControlPlane
from tidemill.ledger.newest_rows import Wanted, table_version
from tidemill.spec.pipeline import PipelineSpec
from tidemill_airflow.plugin import record_parts, stored_parts
from tidemill_airflow.plugin.access import LoggedIn, Viewer, dag_of
from tidemill_airflow.plugin.actions import actions_of
from tidemill_airflow.plugin.answers import (
    BackfillSeen,
    History,
    LedgerLine,
    LogTail,
    Overview,
    Paragraph,
    PipelineView,
    ReasonCount,
    Records,
    Sample,
)
from tidemill_airflow.plugin.graph import graph_of
from tidemill_airflow.plugin.graph_answers import Graph
from tidemill_airflow.plugin.kept_answers import KeptAnswers
from tidemill_airflow.plugin.outdated import problem_of, reconcile_warning
from tidemill_airflow.plugin.overview import Seen, row_of
from tidemill_airflow.plugin.snapshot import Look, Snapshot
from tidemill_airflow.plugin.timeline import checkpoints_of
from tidemill_airflow.plugin.timeline_answers import Checkpoints

api = APIRouter()

Limit = Annotated[int, Query(ge=1, le=500)]
Column = Annotated[str | None, Query(max_length=255)]


def _snapshot(request: Request) -> Snapshot:
    found: Snapshot = request.app.state.snapshot
    return found


Looked = Annotated[Snapshot, Depends(_snapshot)]


@dataclass(frozen=True)
class Shown:
    """A pipeline that the viewer may see."""

    seen: Seen
    look: Look
    viewer: Viewer
    app: FastAPI

    @property
    def name(self) -> str:
        """Return the pipeline's name."""
        return self.seen.name

    @property
    def dag_id(self) -> str:
        """Return the id of its DAG."""
        return dag_of(self.look.place, self.name, self.seen.state.facts.mode)

    @property
    def spec(self) -> PipelineSpec:
        """Return its declaration.

        Raises:
            HTTPException: 409, if it cannot be read.
        """
        if self.seen.spec is None:
            raise HTTPException(409, f"The file of {self.name} cannot be read: tidemill validate says why.")
        return self.seen.spec

    @property
    def kept(self) -> KeptAnswers:
        """Return the cache of answers that read a whole table."""
        found: KeptAnswers = self.app.state.kept
        return found

    @contextmanager
    def plane(self) -> Iterator[ControlPlane]:
        """Yield the control plane, for reading storage.

        Raises:
            HTTPException: 503, if too many requests already read storage.
            TidemillError: See `Snapshot.plane`.
        """
        with self.app.state.gate.entered():
            # Opening takes a lock, so the gate is passed first.
            yield self.app.state.snapshot.plane()


def _problem(look: Look) -> str:
    return problem_of(look.at, look.problem, datetime.now(UTC))


def _visible(viewer: Viewer, look: Look, names: Iterable[str]) -> dict[str, Seen]:
    seen = {name: look.seen[name] for name in names}
    dags = {name: dag_of(look.place, name, each.state.facts.mode) for name, each in seen.items()}
    readable = viewer.readable(dags.values())
    return {name: seen[name] for name, dag_id in dags.items() if dag_id in readable}


def _shown(pipeline: str, viewer: LoggedIn, snapshot: Looked, request: Request) -> Shown:
    """Return the pipeline, or raise 404 if it does not exist or the viewer may not see it."""
    look = snapshot.newest()
    if pipeline not in look.seen or not _visible(viewer, look, [pipeline]):
        raise HTTPException(404, "There is no such pipeline, or you may not see it.")
    return Shown(look.seen[pipeline], look, viewer, request.app)


def _shown_with_records(shown: Annotated[Shown, Depends(_shown)]) -> Shown:
    shown.viewer.check_records(shown.dag_id)
    return shown


OnePipeline = Annotated[Shown, Depends(_shown)]
OneWithRecords = Annotated[Shown, Depends(_shown_with_records)]


@api.get("/pipelines")
def overview(viewer: LoggedIn, snapshot: Looked) -> Overview:
    """Return the overview of all pipelines in one answer."""
    look = snapshot.newest()
    seen = _visible(viewer, look, look.seen)
    return Overview(
        environment=look.place.environment_name,
        at=look.at,
        problem=_problem(look),
        reconciled_at=look.reconciled_at,
        warning=reconcile_warning(look.at, look.reconciled_at, look.streams_wanted),
        pipelines=tuple(row_of(each, look.place) for each in seen.values()),
    )


@api.get("/graph")
def graph(viewer: LoggedIn, snapshot: Looked) -> Graph:
    """Return pipelines with their inputs and outputs."""
    look = snapshot.newest()
    found = graph_of(_visible(viewer, look, look.seen))
    return found.model_copy(update={"at": look.at, "problem": _problem(look)})


@api.get("/pipelines/{pipeline}")
def pipeline(shown: OnePipeline) -> PipelineView:
    """Return one pipeline, with the buttons that the viewer may use."""
    seen, spec, status = shown.seen, shown.seen.spec, shown.seen.state.status
    return PipelineView(
        at=shown.look.at,
        problem=_problem(shown.look),
        row=row_of(seen, shown.look.place),
        description="" if spec is None else spec.description,
        source="" if spec is None else ", ".join(one.source.kind for one in spec.streams.values()),
        tables=() if spec is None else tuple(sink.table for sink in spec.delta_sinks),
        actions=actions_of(seen, shown.look.place, shown.viewer.may_run),
        may_see_records=shown.viewer.may_see_records(shown.dag_id),
        generation=None if status is None else status.generation,
        epoch=None if status is None else status.epoch,
        watermark=None if status is None else status.watermark,
        message="" if seen.report is None else seen.report.message,
        plan="" if seen.report is None else seen.report.explain,
    )


@api.get("/pipelines/{pipeline}/explanation")
def explanation(shown: OnePipeline) -> list[Paragraph]:
    """Return the text of `tidemill explain`."""
    with shown.plane() as plane:
        return stored_parts.explanation_of(plane, shown.seen.state, shown.app.state.advice)


@api.get("/pipelines/{pipeline}/history")
def history(shown: OnePipeline) -> History:
    """Return the newest batches for charts."""
    return History(points=shown.look.history.get(shown.name, ()))


@api.get("/pipelines/{pipeline}/ledger")
def ledger(shown: OnePipeline, limit: Limit = 50) -> list[LedgerLine]:
    """Return the committed batches, newest first."""
    with shown.plane() as plane:
        return stored_parts.ledger_of(plane, shown.name, shown.spec, limit)


@api.get("/pipelines/{pipeline}/checkpoints")
def checkpoints(shown: OnePipeline) -> Checkpoints:
    """Return generations, executed operations and backups."""
    with shown.plane() as plane:
        return checkpoints_of(plane, shown.name)


@api.get("/pipelines/{pipeline}/backfills")
def backfills(shown: OnePipeline) -> list[BackfillSeen]:
    """Return backfills, the latest begun first."""
    with shown.plane() as plane:
        return stored_parts.backfills_of(plane, shown.name)


@api.get("/pipelines/{pipeline}/quarantine")
def quarantine(shown: OnePipeline) -> list[ReasonCount]:
    """Return the number of quarantined records by reason."""
    with shown.plane() as plane:
        path = plane.layout.quarantine(shown.name)
        return shown.kept.of(path, "reasons", lambda: record_parts.reasons_of(path))


@api.get("/pipelines/{pipeline}/quarantine/records")
def rejected(shown: OneWithRecords, limit: Limit = 20) -> Records:
    """Return the latest rejected records."""
    with shown.plane() as plane:
        path = plane.layout.quarantine(shown.name)
        return shown.kept.of(path, ("records", limit), lambda: record_parts.rejected_of(path, limit))


@api.get("/pipelines/{pipeline}/sample")
def sample(
    shown: OneWithRecords, table: str | None = None, x: Column = None, y: Column = None, limit: Limit = 20
) -> Sample:
    """Return the newest rows of one of its tables, and a plot."""
    tables = [sink.table for sink in shown.spec.delta_sinks]
    wanted = table or (tables[0] if tables else "")
    event_time = shown.spec.event_time.column if shown.spec.event_time else None
    asked = Wanted(x, y, event_time, rows=limit)
    with shown.plane() as plane:
        layout = plane.layout
        if wanted not in tables or table_version(layout, wanted) is None:
            raise HTTPException(404, "The pipeline has no such table yet.")
        path = layout.table(wanted)
        return shown.kept.of(path, asked, lambda: record_parts.sample_of(layout, wanted, asked))


@api.get("/pipelines/{pipeline}/log")
def log(shown: OneWithRecords) -> LogTail:
    """Return the end of the newest driver's log."""
    with shown.plane() as plane:
        found = record_parts.log_of(plane, shown.name)
    if found is None:
        raise HTTPException(404, "No driver of this pipeline has ever run here.")
    return found
