"""Models of the API's answers. Times are UTC; names of durations end in their unit."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from tidemill.checkpoint.retention.clock import Level

# Health of a pipeline, from needing an operator at once to stopped on request.
Health = Literal["bad", "warn", "good", "off"]


class Answer(BaseModel):
    """Frozen base model of all answers."""

    model_config = ConfigDict(frozen=True)


class HoldSeen(Answer):
    """A hold: reason why the pipeline cannot start, and the fix."""

    id: str
    by: str
    since: datetime
    why: str
    fix: str


class PipelineRow(Answer):
    """One pipeline in the overview.

    Args:
        dag_id: Its DAG in Airflow.
        zone: Zone of its first table; empty without a table.
        state: State in one or two words.
        reason: Reason for the state, in readable form; empty if there is none.
        runbook: Runbook page for the problem; empty without a problem.
        runbook_url: Address of that page; empty if the deployment configures none.
        lag: Number of waiting records; None if the source does not report it, and for a stream that does not
            run.
        lags: Lag of the slowest partition for each batch, newest last; missing as for `lag`.
        rate: Input rows per second, newest last (for an incremental run: processed rows); missing as for
            `lag`.
        batch_milliseconds: Duration of the newest batch.
        trigger_seconds: Time between two batches; None for an incremental pipeline.
        loss_seconds: Seconds until unread records may be deleted from the source if nothing more is read;
            None if the source deletes nothing, or if nothing was ever read.
        loss_level: Urgency of the possible data loss; never `urgent` if the retention is only assumed.
        loss_words: Basis of that estimate.
    """

    name: str
    dag_id: str
    mode: str
    owner: str
    zone: str
    health: Health
    state: str
    reason: str
    runbook: str
    runbook_url: str
    desired: str
    lag: int | None
    lags: tuple[int, ...]
    rate: tuple[float, ...]
    batch_id: int | None
    batch_milliseconds: int | None
    trigger_seconds: float | None
    committed_at: datetime | None
    quarantined_rows: int | None
    late_rows: int | None
    loss_seconds: float | None
    loss_level: Level | None
    loss_words: str
    holds: tuple[HoldSeen, ...]


class PageWarning(Answer):
    """A warning about the whole environment, and its runbook page."""

    words: str
    runbook: str
    runbook_url: str


class Overview(Answer):
    """All pipelines that the viewer may see.

    Args:
        at: Time of the snapshot; None before the first one.
        problem: Reason why the snapshot may be outdated: the newest attempt failed, or the snapshot is old;
            empty otherwise.
        reconciled_at: End of the newest reconciliation; None if none is known.
        warning: Warning that reconciliation has stopped; None while it runs.
    """

    environment: str
    at: datetime | None
    problem: str
    reconciled_at: datetime | None
    warning: PageWarning | None
    pipelines: tuple[PipelineRow, ...]


class Action(Answer):
    """A button: the DAG to trigger and the values in its form."""

    label: str
    dag_id: str
    conf: dict[str, Any]


class PipelineView(Answer):
    """One pipeline, as declared and as observed.

    Args:
        at: See `Overview.at`.
        problem: See `Overview.problem`.
        actions: Actions that the viewer may request.
        may_see_records: True if the viewer may read quarantined records, log and sample.
        tables: Tables that it writes.
        plan: Spark's plan of a batch; empty before the first one.
    """

    at: datetime | None
    problem: str
    row: PipelineRow
    description: str
    source: str
    tables: tuple[str, ...]
    actions: tuple[Action, ...]
    may_see_records: bool
    generation: str | None
    epoch: int | None
    watermark: datetime | None
    message: str
    plan: str


class Paragraph(Answer):
    """Sentences under a heading."""

    heading: str
    sentences: tuple[str, ...]


class HistoryPoint(Answer):
    """One batch.

    Args:
        parts: Milliseconds of each phase, with Spark's names.
        lag: Lag of the slowest partition in records; None if the source does not report it.
        partition_lag: Lag of each of the slowest partitions.
        watermark_delay_seconds: Distance of the watermark from the newest event.
    """

    at: datetime
    batch_id: int
    rows: int
    input_rate: float | None
    processed_rate: float | None
    batch_milliseconds: int | None
    parts: dict[str, int]
    lag: int | None
    partition_lag: dict[str, int]
    watermark_delay_seconds: float | None
    quarantined_rows: int
    late_rows: int
    state_rows: int
    state_bytes: int


class History(Answer):
    """Batches that this API server has seen, oldest first."""

    points: tuple[HistoryPoint, ...]


class LedgerLine(Answer):
    """One commit of a table."""

    table: str
    version: int
    committed_at: datetime
    mode: str
    batch_id: int | None
    generation: str | None
    rows: int | None
    quarantined_rows: int | None
    late_rows: int | None
    watermark: datetime | None
    sources: dict[str, Any]
    run_id: str


class BackfillSeen(Answer):
    """One backfill.

    Args:
        share: Finished share of the chunks; None before their number is known.
    """

    plan: str
    range: str
    state: str
    done: int
    chunks: int | None
    share: float | None
    rows: dict[str, int]
    begun_at: datetime | None
    left_seconds: float | None


class ReasonCount(Answer):
    """Number of quarantined records with one reason."""

    reason: str
    records: int
    newest: datetime | None


class Records(Answer):
    """Records as a table of text.

    Args:
        columns: Column names.
        rows: Cells as text; None for null.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str | None, ...], ...]


class PlotPoint(Answer):
    """A value and its label."""

    label: str
    value: float


class Sample(Answer):
    """The newest rows of a table, and a plot of one column."""

    table: str
    version: int
    title: str
    is_ordered: bool
    points: tuple[PlotPoint, ...]
    records: Records


class LogTail(Answer):
    """The end of a driver's log."""

    run_id: str
    process: str
    lines: tuple[str, ...]
