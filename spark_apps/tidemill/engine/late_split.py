"""Which rows of the running batch are late: decided here, carried out by the tasks that read them.

Every row that Spark would drop is late here, so that Spark itself drops none: what a batch reads is in its
result, in the table of late rows or in the quarantine.
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
    """Splits the batches of one query.

    Args:
        spark: The session that started it.
        window: The windows that its rows are proven to be made of, if any.
        before: What is late whatever the watermark, in milliseconds since 1970.
    """

    spark: Any
    window: EventWindow | None
    before: int = 0

    def begin(self, frame: DataFrame, operators: int) -> None:
        """Tell the tasks of the batch which rows are late.

        Args:
            frame: Of the batch; called in the thread that runs it.
            operators: Number of stateful operators in its plan.
        """
        before = running_execution(self.spark, frame).prevOffsetSeqMetadata()
        watermark = before.get().batchWatermarkMs() if before.isDefined() else 0
        rule = late_rule(max(watermark, self.before), self.window, operators)
        frame.sparkSession.sparkContext.setLocalProperty(LATE_RULE, rule.as_text())


def late_rule(watermark: int, window: EventWindow | None, operators: int) -> LateRule:
    """Which rows are late.

    A row of a tumbling window is late when the window is over, as for Spark. A row that is in several windows
    would be late in some of them, and another operator, such as a deduplication, goes by the row's own time:
    then its own time counts.

    Args:
        watermark: By which Spark drops rows, in milliseconds since 1970.
        window: The windows that rows are proven to be made of, if any.
        operators: Number of stateful operators.
    """
    if window is None or window.kind != "tumbling" or operators != 1:
        return LateRule(watermark)
    return LateRule(watermark, window.length // _MICROSECOND, window.offset // _MICROSECOND)


def check_none_dropped(entry: LedgerEntry, dropped: int) -> None:
    """Refuse a batch of which Spark has dropped rows although the late ones had been set aside.

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
