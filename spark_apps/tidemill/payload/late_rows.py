"""Find late rows, and send them to a separate table.

The decision uses the row and the watermark by which Spark drops rows in its batch: the one that the batch
before ran with. That watermark is in the checkpoint (`batchWatermarkMs` of `offsets/N-1`), so a repeated
batch decides the same.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext

from tidemill.payload.quarantine import QUARANTINE_SCHEMA, Quarantine
from tidemill.payload.rejections import Rejections
from tidemill.payload.timestamps import INSTANT

# Columns of a late record: its event time, the watermark that it missed, and the quarantine's columns.
LATE_SCHEMA = pa.schema([("event_time", INSTANT), ("watermark", INSTANT), *QUARANTINE_SCHEMA])

# Local property with the batch's rule, of the thread that runs the batch. Spark passes it to the tasks.
LATE_RULE = "tidemill.late"


@dataclass(frozen=True)
class LateRule:
    """The rule for late rows in one batch; a row without an event time is late, as no window takes it.

    Args:
        watermark: Milliseconds since 1970, as Spark stores them; a time that is not after it is late.
        window: Length of tumbling windows in microseconds, whose end is compared; 0 to compare the row's own
            time.
        offset: Offset of the window starts from 1970, in microseconds.
    """

    watermark: int
    window: int = 0
    offset: int = 0

    def late(self, times: pa.TimestampArray) -> pa.BooleanArray | None:
        """Return true for late rows, by their event times; None if there are none."""
        moments = times.cast(INSTANT).cast(pa.int64())
        counts = self._ends(moments) if self.window else moments
        late = pc.less_equal(counts, self.watermark * 1000).fill_null(True)
        return late if pc.any(late).as_py() else None

    def _ends(self, moments: pa.Int64Array) -> pa.Int64Array:
        since = pc.subtract(moments, self.offset)
        # Arrow divides towards zero, but a window before 1970 begins below.
        into = pc.subtract(since, pc.multiply(pc.divide(since, self.window), self.window))
        into = pc.if_else(pc.less(into, 0), pc.add(into, self.window), into)
        return pc.add(pc.subtract(moments, into), self.window)

    def as_text(self) -> str:
        """Return the value of `LATE_RULE`."""
        return json.dumps(asdict(self))


@dataclass(frozen=True)
class LateRows:
    """Sets late rows aside, in the tasks that read them.

    Args:
        column: Column of the event time.
        table: Table for their records.
    """

    column: str
    table: Quarantine

    def begin(self) -> LatePass:
        """Begin a pass of a task.

        Raises:
            RuntimeError: If the task has no rule of its batch.
        """
        task = TaskContext.get()
        text = task.getLocalProperty(LATE_RULE) if task else None
        if text is None:
            raise RuntimeError(f"a task that sets late rows aside runs outside of a batch: no {LATE_RULE}")
        return LatePass(self.column, LateRule(**json.loads(text)), self.table)


class LatePass:
    """One pass of a task over its rows.

    Args:
        column: Column of the event time.
        rule: Rule of the batch.
        table: Table for the late rows.
    """

    def __init__(self, column: str, rule: LateRule, table: Quarantine) -> None:
        self._column = column
        self._rule = rule
        self._rejections = Rejections(table)

    def passed(
        self, rows: pa.RecordBatch, records: Callable[[pa.Array], Mapping[str, pa.Array]]
    ) -> pa.RecordBatch:
        """Return the rows that are not late, and set the others aside.

        Args:
            rows: Decoded rows.
            records: Returns the quarantine columns of the records at these positions.
        """
        late = self._rule.late(rows[self._column])
        if late is None:
            return rows
        times = rows[self._column].filter(late)
        watermark = pa.scalar(self._rule.watermark * 1000, pa.int64()).cast(INSTANT)
        known = records(pc.indices_nonzero(late))
        told = {"event_time": times, "watermark": pa.repeat(watermark, len(times))}
        self._rejections.add({**known, **told}, self._reasons(times))
        return rows.filter(pc.invert(late))

    def hand_in(self) -> None:
        """End the pass."""
        self._rejections.hand_in()

    def _reasons(self, times: pa.TimestampArray) -> list[str]:
        unknown, behind = f"no_event_time:{self._column}", f"behind_watermark:{self._column}"
        reasons: list[str] = pc.if_else(times.is_null(), unknown, behind).to_pylist()
        return reasons
