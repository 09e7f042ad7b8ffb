"""Parts of a pipeline's page that are read from storage when a person asks for them, without records."""

from __future__ import annotations

from collections.abc import Hashable

from tidemill.checkpoint.doctor.examine import advice_for
from tidemill.control.backfills import Backfill, list_backfills
from tidemill.control.explanation import explain_pipeline
from tidemill.control.hygiene import line_of
from tidemill.control.plane import ControlPlane
from tidemill.control.stream_status import PipelineState
from tidemill.ledger.read import Commit, read_ledger
from tidemill.spec.pipeline import PipelineSpec
from tidemill.spec.project import resolve_pipeline
from tidemill_airflow.plugin.answers import (
    BackfillSeen,
    LedgerLine,
    Paragraph,
)
from tidemill_airflow.plugin.kept_answers import KeptAnswers


def ledger_of(plane: ControlPlane, pipeline: str, spec: PipelineSpec, limit: int) -> list[LedgerLine]:
    """The newest commits of a pipeline to its tables, newest first."""
    lines = [
        _ledger_line(sink.table, commit)
        for sink in spec.delta_sinks
        for commit in read_ledger(plane.layout.table(sink.table), limit)
        if commit.entry is not None and commit.entry.pipeline == pipeline
    ]
    return sorted(lines, key=lambda line: line.committed_at, reverse=True)[:limit]


def _ledger_line(table: str, commit: Commit) -> LedgerLine:
    entry = commit.entry
    assert entry is not None  # noqa: S101  # read_ledger leaves out others
    return LedgerLine(
        table=table,
        version=commit.version,
        committed_at=commit.committed_at,
        mode=entry.mode,
        batch_id=entry.batch_id,
        generation=entry.generation,
        rows=commit.rows if entry.rows is None else entry.rows,
        quarantined_rows=entry.quarantined_rows,
        late_rows=entry.late_rows,
        watermark=entry.watermark,
        sources={name: {"start": read.start, "end": read.end} for name, read in entry.sources.items()},
        run_id=entry.run_id,
    )


def explanation_of(plane: ControlPlane, state: PipelineState, kept: KeptAnswers) -> list[Paragraph]:
    """What `tidemill explain` says, with what the doctor would change.

    How the pipeline stands is told anew each time, of the look; what the doctor says, once for each batch.

    Raises:
        SpecError: If the declaration cannot be read.
        HTTPException: As `KeptAnswers.at`.
    """
    name = state.facts.pipeline
    advised = kept.at(
        name, lambda: _batch_of(state), lambda: advice_for(plane.store, plane.environment, name)
    )
    explained = explain_pipeline(resolve_pipeline(plane.environment, name), state, advised.measured)
    helps = tuple(map(line_of, advised.findings))
    said = [*explained.paragraphs, *([("What would help", helps)] if helps else [])]
    return [Paragraph(heading=heading, sentences=sentences) for heading, sentences in said]


def _batch_of(state: PipelineState) -> Hashable:
    """The newest batch, and by which declaration the doctor measures it."""
    status = state.status
    batch = None if status is None else (status.run_id, status.generation, status.batch_id)
    return state.facts.digest, batch


def backfills_of(plane: ControlPlane, pipeline: str) -> list[BackfillSeen]:
    """All backfills of a pipeline, those begun last first."""
    return [_backfill(each) for each in list_backfills(plane, pipeline)]


def _backfill(backfill: Backfill) -> BackfillSeen:
    plan, progress = backfill.plan, backfill.progress
    done = 0 if progress is None else len(progress.done)
    chunks = None if progress is None else progress.chunks
    return BackfillSeen(
        plan=plan.digest,
        range=plan.bounds.text(),
        state=backfill.state,
        done=done,
        chunks=chunks,
        share=done / chunks if chunks else None,
        rows={} if progress is None else progress.rows,
        begun_at=None if progress is None else progress.begun_at,
        left_seconds=None if backfill.left is None else backfill.left.total_seconds(),
    )
