"""What the API answers: one model for each answer. Times are UTC; spans end in their unit."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from tidemill.checkpoint.retention.clock import Level

# How a pipeline is doing, from what a person must look at first to what runs nowhere by wish.
Health = Literal["bad", "warn", "good", "off"]


class Answer(BaseModel):
    """Frozen, and complete."""

    model_config = ConfigDict(frozen=True)


class HoldSeen(Answer):
    """What forbids a start, and what ends it."""

    id: str
    by: str
    since: datetime
    why: str
    fix: str


class PipelineRow(Answer):
    """One pipeline in the overview.

    Args:
        dag_id: Its DAG in Airflow.
        zone: Of its first table; empty without one.
        state: In one word or two.
        reason: Why it is in that state, for a person; empty where there is nothing to say.
        runbook: Page for what is wrong; empty if nothing is.
        runbook_url: Where that page can be read; empty where the deployment does not say.
        lag: Records that wait; None if the source does not tell, and of a stream that does not run.
        lags: Those of the slowest partition, batch after batch, newest last; as `lag`.
        rate: Rows a second that came in, newest last (of an incremental run: that it worked off); as `lag`.
        batch_milliseconds: How long the newest batch took.
        trigger_seconds: How often there should be a batch; None of an incremental pipeline.
        loss_seconds: Time until what it has not read may be gone from its source, if it reads nothing more;
            None for a source that forgets nothing, or if nothing was ever read.
        loss_level: How urgent that is; where it is only assumed what the source keeps, never `urgent`.
        loss_words: How that is known.
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
    """What a person must know of the whole environment, and the page for it."""

    words: str
    runbook: str
    runbook_url: str


class Overview(Answer):
    """All pipelines that the viewer may see.

    Args:
        at: When they were looked at; None if nobody has looked yet.
        problem: Why that may no longer be so: the newest look failed, or is old; empty if neither.
        reconciled_at: When the newest reconciliation ended; None if none is known.
        warning: That reconciliation is dead; None while it lives.
    """

    environment: str
    at: datetime | None
    problem: str
    reconciled_at: datetime | None
    warning: PageWarning | None
    pipelines: tuple[PipelineRow, ...]


class Action(Answer):
    """A button: which DAG, and what its form is filled in with."""

    label: str
    dag_id: str
    conf: dict[str, Any]


class PipelineView(Answer):
    """One pipeline, as declared and as it is.

    Args:
        at: As `Overview.at`.
        problem: As `Overview.problem`.
        actions: What the viewer may ask for.
        may_see_records: Whether the viewer may look at quarantined records, log and sample.
        tables: What it writes.
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
        parts: Milliseconds of each part of it, in Spark's words.
        lag: Records by which the slowest partition was behind; None if the source does not tell.
        partition_lag: The same of each partition, of those that are furthest behind.
        watermark_delay_seconds: How far the watermark was behind the newest event.
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
        share: Part of the chunks that is done; None before it is known how many there are.
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
    """Records in quarantine with one reason."""

    reason: str
    records: int
    newest: datetime | None


class Records(Answer):
    """Records as a table of text.

    Args:
        columns: Their names.
        rows: Cells as text; None where there is nothing.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str | None, ...], ...]


class PlotPoint(Answer):
    """A value and what it belongs to."""

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
