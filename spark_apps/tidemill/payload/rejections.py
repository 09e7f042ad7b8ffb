"""The records that one pass of a task rejects; they are handed in at its end, or at the end of the batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from tidemill.errors import DataError
from tidemill.payload.quarantine import Quarantine

# Columns of a Kafka record, by their column in the quarantine.
_OF_KAFKA = {
    "topic": "kafka_topic",
    "partition": "kafka_partition",
    "offset": "kafka_offset",
    "arrived_at": "kafka_timestamp",
    "key": "kafka_key",
    "value": "kafka_value",
}
_PLACE = ("topic", "partition", "offset", "file", "line")


class Rejections:
    """Rejected records of one pass.

    Args:
        quarantine: The quarantine.
        stops: True if the pipeline stops at the first rejected record.
    """

    def __init__(self, quarantine: Quarantine, stops: bool = False) -> None:
        self._quarantine = quarantine
        self._stops = stops
        self._rows: list[pa.RecordBatch] = []

    def add(self, records: Mapping[str, pa.Array], reasons: Sequence[str]) -> None:
        """Reject records.

        Args:
            records: Known columns of the quarantine.
            reasons: Reason for each.

        Raises:
            DataError: TIDE-DATA-001, if the pipeline stops at a rejected record.
        """
        if not reasons:
            return
        if self._stops:
            raise _invalid_record(records, reasons[0])
        self._rows.append(self._quarantine.rows(records, reasons))

    def add_kafka(self, records: pa.RecordBatch, places: pa.Array, reasons: Sequence[str]) -> None:
        """Reject the Kafka records at these positions of a batch."""
        if reasons:
            self.add(kafka_records(records, places), reasons)

    def hand_in(self) -> None:
        """End the pass."""
        if self._rows:
            self._quarantine.write(self._rows)


def kafka_records(records: pa.RecordBatch, places: pa.Array) -> dict[str, pa.Array]:
    """Return the quarantine columns of the Kafka records at these positions of a batch."""
    taken = records.take(places)
    return {name: taken.column(column) for name, column in _OF_KAFKA.items()}


def _invalid_record(records: Mapping[str, pa.Array], reason: str) -> DataError:
    found = {name: records[name][0].as_py() for name in _PLACE if name in records}
    place = {name: value for name, value in found.items() if value is not None}
    return DataError(
        "TIDE-DATA-001",
        "A record does not fit, and the pipeline says to stop then.",
        facts={**place, "reason": reason},
        fix="correct the producer or the schema, or set `on_invalid` to quarantine",
    )
