"""`query.json`: what a driver says of its streaming query, for `tidemill queries` and `watch`.

A snapshot, replaced as a whole every few seconds, and when a query begins or ends; nothing decides by it.
Secrets are masked before anything is stored or served.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict

from tidemill.names import Layout
from tidemill.storage.store import Store

# Batches told of, as many as Spark itself keeps (engine/session_conf.py). Where there are fewer, the oldest
# is the first of its driver.
KEPT_PROGRESSES = 10

# What grows with the number of batches, or with the plan.
_LONG = {"recent_progress", "sink_times", "rows_aside", "explain"}


class SourceReport(BaseModel):
    """One source of a query in its newest batch, in Spark's words.

    Args:
        name: Of the source in the pipeline file, `source` where it has none; empty where there are several
            streams, of which Spark does not say which is which.
        description: Spark's own words for it, with topic or folder.
        rows: Rows read.
        input_rows_per_second: Rows that came in since the batch before, per second.
        processed_rows_per_second: Rows of the batch per second that it took.
        end_offset: Up to where it has read.
        latest_offset: Newest offset at the source, where it tells.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    name: str = ""
    description: str = ""
    rows: int = 0
    input_rows_per_second: float | None = None
    processed_rows_per_second: float | None = None
    end_offset: Any = None
    latest_offset: Any = None


class SinkReport(BaseModel):
    """One output of a query.

    Args:
        name: As in the ledger: a table, `kafka:<topic>`, `files:<path>` or `console`.
        batch_id: Newest batch that it was given.
        committed: Whether it wrote that batch; False if it had it already.
        rows: Rows of that batch; None where the output does not count.
        total_rows: Rows since the driver started.
        version: The table's version with that batch.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    name: str
    batch_id: int | None = None
    committed: bool = False
    rows: int | None = None
    total_rows: int = 0
    version: int | None = None


class BatchTimes(BaseModel):
    """How long one batch was at each sink.

    Args:
        milliseconds: By sink.
        reader: The sink that read the rows first, so that reading and transform are in its time, too; None
            if they were read apart.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    batch_id: int
    milliseconds: dict[str, int] = {}
    reader: str | None = None


class RowsAside(BaseModel):
    """Number of records that one batch rejected, that were late, and that windows dropped without a time."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    batch_id: int
    quarantined: int = 0
    late: int = 0
    no_event_time: int = 0


class QueryReport(BaseModel):
    """One streaming query.

    Args:
        run_id: Of the driver.
        id: Spark's id of the query, which lives as long as its checkpoint.
        query_run_id: Spark's id of this start; Spark calls it `runId`.
        name: Spark's unique name.
        message: What Spark says it is doing.
        is_data_available: Whether the source has new data.
        is_trigger_active: Whether a batch is at work.
        last_progress: Spark's progress of the newest batch.
        recent_progress: Those of the newest ones, oldest first, without metrics of state stores, and with
            `partitionLag` in the place of offsets: records by topic and partition, of those furthest behind.
        sink_times: Of as many batches.
        rows_aside: Of as many batches.
        explain: Spark's physical plan of a batch; empty before the first one.
        http: Address of the driver's port; empty without one.
        spark_ui: How Spark's own UI is reached; empty where it is off.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    v: int = 1
    pipeline: str
    run_id: str
    id: str
    query_run_id: str
    name: str
    active: bool = True
    started_at: datetime
    updated_at: datetime
    message: str = ""
    is_data_available: bool = False
    is_trigger_active: bool = False
    sources: tuple[SourceReport, ...] = ()
    sinks: tuple[SinkReport, ...] = ()
    last_progress: dict[str, Any] | None = None
    recent_progress: tuple[dict[str, Any], ...] = ()
    sink_times: tuple[BatchTimes, ...] = ()
    rows_aside: tuple[RowsAside, ...] = ()
    explain: str = ""
    http: str = ""
    spark_ui: str = ""

    def summary(self) -> dict[str, Any]:
        """All but what is long."""
        return self.model_dump(mode="json", exclude=_LONG)


def read_query_report(store: Store, layout: Layout, pipeline: str) -> QueryReport | None:
    """The newest report; None if no query of the pipeline ever left one."""
    document = store.read_json(layout.query_report(pipeline))
    return None if document is None else QueryReport.model_validate(document)


def write_query_report(store: Store, layout: Layout, report: QueryReport) -> None:
    """Replace the report."""
    store.write_json(layout.query_report(report.pipeline), report.model_dump(mode="json"))
