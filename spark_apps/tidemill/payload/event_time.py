"""Reject events from the future: an event in the year 9999 would move the watermark and make all others late.

The result is the same in every mode and in a repeated batch, because an event is compared with its own
arrival time. The batch's clock, which Spark stores in the checkpoint, is used only if it is earlier.
Otherwise a producer that sets the broker's timestamp itself could get any event past this check.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import pyarrow as pa
import pyarrow.compute as pc

from tidemill.payload.timestamps import INSTANT

# Prefix of the reason of such a record.
AHEAD = "ahead_of_arrival:"


@dataclass(frozen=True)
class EventTimeLimit:
    """The maximum time that an event may be ahead of its arrival.

    Args:
        column: Column of the event time.
        max_ahead: The limit.
    """

    column: str
    max_ahead: timedelta

    @property
    def reason(self) -> str:
        """Return the reason for rejecting such a record."""
        return f"{AHEAD}{self.column}"

    def ahead(
        self, times: pa.TimestampArray, arrived: pa.TimestampArray | None, now: pa.TimestampArray
    ) -> pa.BooleanArray | None:
        """Return true for events that are further ahead; None if there are none.

        Args:
            times: Event times; null means none.
            arrived: Time when the source received each; None, null or before 1970 means unknown.
            now: The batch's clock.
        """
        clock, limit = _microseconds(now), self.max_ahead // timedelta(microseconds=1)
        latest = clock if arrived is None else _earlier(_microseconds(arrived), clock)
        ahead = pc.greater(_microseconds(times), pc.add(latest, limit))
        return ahead.fill_null(False) if pc.any(ahead).as_py() else None


def _microseconds(moments: pa.TimestampArray) -> pa.Int64Array:
    return moments.cast(INSTANT).cast(pa.int64())


def _earlier(arrived: pa.Int64Array, clock: pa.Int64Array) -> pa.Int64Array:
    # Records from before Kafka 0.10 have no timestamp, which appears as a time before 1970.
    counts = pc.and_(pc.greater(arrived, 0), pc.less(arrived, clock)).fill_null(False)
    return pc.if_else(counts, arrived, clock)
