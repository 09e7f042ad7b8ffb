"""Devices that fell silent."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

SILENCE_MS = 15 * 60 * 1000


def transform(readings: DataFrame) -> DataFrame:
    """One row for each time that a device has sent nothing for 15 minutes: `since` its last reading.

    State: the times of a device's readings and a timer for each, for 15 minutes and the watermark. A silence
    is decided once the watermark has passed its end, when all readings in it have come: however the readings
    are cut into batches, the rows are the same.
    """
    times = readings.select("device_id", "timestamp").groupBy("device_id")
    return times.transformWithState(Silence(), "device_id string, since timestamp", "Append", "EventTime")


class Silence(StatefulProcessor):
    """One device. Times are in milliseconds."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the state."""
        self._handle = handle
        self._times = handle.getMapState("times", "at bigint", "seen boolean")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        """Wait for the end of a silence after each reading."""
        for at in {int(row["timestamp"].timestamp() * 1000) for row in rows}:
            self._times.updateValue((at,), (True,))
            self._handle.registerTimer(at + SILENCE_MS)
        yield from ()

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        """Timers expire in the order of their times, so a reading is forgotten after all before it."""
        end = expiredTimerInfo.getExpiryTimeInMs()
        since = end - SILENCE_MS
        self._times.removeKey((since,))
        if not any(since < at <= end for (at,) in self._times.keys()):  # noqa: SIM118  # no dictionary
            yield Row(device_id=key[0], since=datetime.fromtimestamp(since / 1000, tz=UTC))

    def close(self) -> None:
        """Nothing is open."""
