"""The check that every record of a task passes; records that may not become rows are set aside."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from tidemill.payload.event_time import EventTimeLimit
from tidemill.payload.late_rows import LateRows
from tidemill.payload.quarantine import Quarantine
from tidemill.payload.rejections import Rejections

# Returns the quarantine columns of the records at these positions.
RecordsAt = Callable[[pa.Array], Mapping[str, pa.Array]]


@dataclass(frozen=True)
class Door:
    """Requirements of records.

    Args:
        quarantine: Quarantine for rejected records.
        stops: True if the pipeline stops at the first rejected record.
        limit: Maximum time that events may be ahead; None without a limit.
        late_rows: Sets late records aside; None if they become rows.
    """

    quarantine: Quarantine
    stops: bool
    limit: EventTimeLimit | None
    late_rows: LateRows | None

    def open(self) -> DoorPass:
        """Begin a pass of a task."""
        return DoorPass(self)


class DoorPass:
    """One pass of a task over its records.

    Args:
        door: Requirements of the records.
    """

    def __init__(self, door: Door) -> None:
        self._limit = door.limit
        self._rejections = Rejections(door.quarantine, door.stops)
        self._late = None if door.late_rows is None else door.late_rows.begin()

    def reject(self, records: Mapping[str, pa.Array], reasons: Sequence[str]) -> None:
        """Set records aside.

        Args:
            records: Their known quarantine columns.
            reasons: Reason for each.

        Raises:
            DataError: TIDE-DATA-001, if the pipeline stops at a rejected record.
        """
        self._rejections.add(records, reasons)

    def rows(
        self,
        rows: pa.RecordBatch,
        records: RecordsAt,
        arrived: pa.TimestampArray | None,
        clock: pa.TimestampArray | None,
    ) -> pa.RecordBatch:
        """Return the rows that may continue.

        Args:
            rows: Decoded rows.
            records: Returns their records.
            arrived: Time when the source received each; None if unknown.
            clock: Time of the batch for each; needed with a limit.
        """
        if self._limit is not None and clock is not None:
            ahead = self._limit.ahead(rows[self._limit.column], arrived, clock)
            if ahead is not None:
                places = pc.indices_nonzero(ahead)
                self.reject(records(places), [self._limit.reason] * len(places))
                stays = pc.indices_nonzero(pc.invert(ahead))
                rows, records = rows.take(stays), _of_these(records, stays)
        return rows if self._late is None else self._late.passed(rows, records)

    def close(self) -> None:
        """End the pass."""
        self._rejections.hand_in()
        if self._late is not None:
            self._late.hand_in()


def _of_these(records: RecordsAt, stays: pa.Array) -> RecordsAt:
    return lambda places: records(stays.take(places))
