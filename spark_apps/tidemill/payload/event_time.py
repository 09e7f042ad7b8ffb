"""Events from the future. One from the year 9999 would take the watermark there and make all others late.

The same in every mode, and in a batch that is repeated: an event is measured against its own arrival. The
clock is the batch's, which Spark keeps in the checkpoint, and counts only where it is earlier: else a
producer that sets the broker's timestamp itself could carry any event past this check.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import pyarrow as pa
import pyarrow.compute as pc

from tidemill.payload.timestamps import INSTANT

# What the reason of such a record begins with.
AHEAD = "ahead_of_arrival:"


@dataclass(frozen=True)
class EventTimeLimit:
    """How far an event may be ahead of its arrival.

    Args:
        column: Of the event time.
        max_ahead: The limit.
    """

    column: str
    max_ahead: timedelta

    @property
    def reason(self) -> str:
        """Why such a record is rejected."""
        return f"{AHEAD}{self.column}"

    def ahead(
        self, times: pa.TimestampArray, arrived: pa.TimestampArray | None, now: pa.TimestampArray
    ) -> pa.BooleanArray | None:
        """Which events are further ahead; None if none is.

        Args:
            times: Event times; one that is null is none.
            arrived: When the source took each; None if it does not tell, null or before 1970 likewise.
            now: The batch's clock.
        """
        clock, limit = _microseconds(now), self.max_ahead // timedelta(microseconds=1)
        latest = clock if arrived is None else _earlier(_microseconds(arrived), clock)
        ahead = pc.greater(_microseconds(times), pc.add(latest, limit))
        return ahead.fill_null(False) if pc.any(ahead).as_py() else None


def _microseconds(moments: pa.TimestampArray) -> pa.Int64Array:
    return moments.cast(INSTANT).cast(pa.int64())


def _earlier(arrived: pa.Int64Array, clock: pa.Int64Array) -> pa.Int64Array:
    # Records of before Kafka 0.10 have no timestamp, which comes as a moment before 1970.
    counts = pc.and_(pc.greater(arrived, 0), pc.less(arrived, clock)).fill_null(False)
    return pc.if_else(counts, arrived, clock)
