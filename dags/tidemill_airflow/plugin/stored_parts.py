"""Parts of a pipeline's page that are read from storage on request, without records."""

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
    """Return the newest commits of a pipeline to its tables, newest first."""
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
    """Return the text of `tidemill explain`, with the doctor's advice.

    The state of the pipeline comes from each snapshot; the doctor's advice is computed once for each batch.

    Raises:
        SpecError: If the declaration cannot be read.
        HTTPException: See `KeptAnswers.at`.
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
    """Return the newest batch and the declaration's digest, which identify the doctor's advice."""
    status = state.status
    batch = None if status is None else (status.run_id, status.generation, status.batch_id)
    return state.facts.digest, batch


def backfills_of(plane: ControlPlane, pipeline: str) -> list[BackfillSeen]:
    """Return all backfills of a pipeline, the latest begun first."""
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
