"""The rule for late rows of the running batch: decided here, applied by the tasks that read the rows.

Every row that Spark would drop is late by this rule, so Spark itself drops none. Each row of a batch is in
its result, in the late table or in the quarantine.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from pyspark.sql import DataFrame

from tidemill.backfill.row_origin import EventWindow
from tidemill.engine.state_operators import running_execution
from tidemill.errors import DataError
from tidemill.ledger.entry import LedgerEntry
from tidemill.payload.late_rows import LATE_RULE, LateRule

_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True)
class LateSplit:
    """Separates late rows in the batches of one query.

    Args:
        spark: The session that started the query.
        window: Event-time windows of the rows, if the analysis of the query has proved them; else None.
        before: Rows with an event time before this are late regardless of the watermark, in milliseconds
            since 1970.
    """

    spark: Any
    window: EventWindow | None
    before: int = 0

    def begin(self, frame: DataFrame, operators: int) -> None:
        """Set the rule for the tasks of the batch.

        Args:
            frame: Rows of the batch; call this method in the thread that runs it.
            operators: Number of stateful operators in its plan.
        """
        before = running_execution(self.spark, frame).prevOffsetSeqMetadata()
        watermark = before.get().batchWatermarkMs() if before.isDefined() else 0
        rule = late_rule(max(watermark, self.before), self.window, operators)
        frame.sparkSession.sparkContext.setLocalProperty(LATE_RULE, rule.as_text())


def late_rule(watermark: int, window: EventWindow | None, operators: int) -> LateRule:
    """Return the rule for late rows.

    A row of a tumbling window is late when the window has ended, as in Spark. In two other cases the row's
    own time decides: a row in several windows would be late in only some of them, and another operator, such
    as a deduplication, uses the row's time.

    Args:
        watermark: Watermark by which Spark drops rows, in milliseconds since 1970.
        window: Event-time windows of the rows, if the analysis of the query has proved them; else None.
        operators: Number of stateful operators.
    """
    if window is None or window.kind != "tumbling" or operators != 1:
        return LateRule(watermark)
    return LateRule(watermark, window.length // _MICROSECOND, window.offset // _MICROSECOND)


def check_none_dropped(entry: LedgerEntry, dropped: int) -> None:
    """Refuse a batch from which Spark has dropped rows although late rows were set aside before.

    Raises:
        DataError: TIDE-DATA-005. Nothing was written.
    """
    if not dropped:
        return
    raise DataError(
        "TIDE-DATA-005",
        "Spark dropped rows behind the watermark that are not among the late ones. Nothing was written.",
        facts={"pipeline": entry.pipeline, "batch_id": entry.batch_id, "dropped": dropped},
        fix="a stateful step goes by another time than event_time.column, such as one that was moved back: "
        "give it that column unchanged, or set `late: drop`, which counts such rows and leaves them out",
    )
