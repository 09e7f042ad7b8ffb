"""`query.json`: a driver's report of its streaming query, for `tidemill queries` and `watch`.

It is a snapshot, replaced as a whole every few seconds, and when a query begins or ends. No decision depends
on it. Secrets are masked before anything is stored or served.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict

from tidemill.names import Layout
from tidemill.storage.store import Store

# Number of reported batches, the same as Spark keeps (engine/session_conf.py). If there are fewer, the oldest
# one is the first of its driver.
KEPT_PROGRESSES = 10

# Fields that grow with the number of batches or with the plan.
_LONG = {"recent_progress", "sink_times", "rows_aside", "explain"}


class SourceReport(BaseModel):
    """One source of a query in its newest batch.

    Args:
        name: Name of the source in the pipeline file, or `source` if it has none. Empty if there are several
            streams, because Spark does not report which is which.
        description: Spark's description of it, with topic or folder.
        rows: Rows read.
        input_rows_per_second: Rows that arrived since the batch before, per second.
        processed_rows_per_second: Rows of the batch per second of its duration.
        end_offset: End offset of the batch.
        latest_offset: Newest offset at the source, if the source reports it.
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
        name: Name as in the ledger: a table, `kafka:<topic>`, `files:<path>` or `console`.
        batch_id: Newest batch that it received.
        committed: True if it wrote that batch, False if it already had it.
        rows: Rows of that batch; None if the output does not count rows.
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
    """The time that one batch took at each sink.

    Args:
        milliseconds: Duration by sink.
        reader: The sink that read the rows first, so that its time includes reading and the transform; None
            if the rows were read separately.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    batch_id: int
    milliseconds: dict[str, int] = {}
    reader: str | None = None


class RowsAside(BaseModel):
    """Numbers of rows in one batch that were rejected, late, or dropped by windows for lack of a time."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    batch_id: int
    quarantined: int = 0
    late: int = 0
    no_event_time: int = 0


class QueryReport(BaseModel):
    """One streaming query.

    Args:
        run_id: Run of the driver.
        id: Spark's id of the query, which is fixed for the life of its checkpoint.
        query_run_id: Spark's id of this start (`runId` in Spark).
        name: Spark's unique name.
        message: Spark's message about its current activity.
        is_data_available: True if the source has new data.
        is_trigger_active: True while a batch runs.
        last_progress: Spark's progress of the newest batch.
        recent_progress: Progress of the newest batches, oldest first, without state store metrics. In place
            of the offsets, `partitionLag` has the lag in records, by topic and partition, of the partitions
            with the most lag.
        sink_times: Sink times of the same batches.
        rows_aside: Rejected and late rows of the same batches.
        explain: Spark's physical plan of a batch; empty before the first batch.
        http: Address of the driver's HTTP port; empty without one.
        spark_ui: Address of Spark's UI; empty if it is off.
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
        """Return the report without the long fields."""
        return self.model_dump(mode="json", exclude=_LONG)


def read_query_report(store: Store, layout: Layout, pipeline: str) -> QueryReport | None:
    """Return the newest report; None if no query of the pipeline ever wrote one."""
    document = store.read_json(layout.query_report(pipeline))
    return None if document is None else QueryReport.model_validate(document)


def write_query_report(store: Store, layout: Layout, report: QueryReport) -> None:
    """Replace the report."""
    store.write_json(layout.query_report(report.pipeline), report.model_dump(mode="json"))
