"""Estimate the arrival time of the oldest unread event in a hub, by a binary search over offsets by time."""

from __future__ import annotations

from datetime import datetime, timedelta

from tidemill.ledger.entry import Positions
from tidemill.sources.kafka_clients import kafka_client
from tidemill.sources.offsets import KafkaOffsets
from tidemill.spec.project import Pipeline

# Number of times that the range is halved. 16 give a precision of four seconds in three days, so two such
# results, minutes apart, give a read speed.
HALVINGS = 16


def all_read_before(pipeline: Pipeline, read: Positions, kept: timedelta, now: datetime) -> datetime | None:
    """Return a time before which all events were read, at least `now - kept`; None if all are read.

    A running stream that falls behind plans its batches now but reads old events, so its batch times say
    nothing about its lag.

    Args:
        pipeline: Pipeline with one stream.
        read: Next offset of each partition; a missing partition was never read.
        kept: Retention of the hub.
        now: End of the search range.

    Raises:
        UnavailableError: If no broker answers.
    """
    topics = list(read)
    with KafkaOffsets(kafka_client(pipeline)) as offsets:
        ends = offsets.ends(topics)

        def is_unread_before(moment: datetime) -> bool:
            found = offsets.from_ends(ends, moment)
            return any(
                read[topic].get(number, 0) < offset
                for topic, partitions in found.items()
                for number, offset in partitions.items()
            )

        if not is_unread_before(now):
            return None
        before, after = now - kept, now
        for _ in range(HALVINGS):
            middle = before + (after - before) / 2
            if is_unread_before(middle):
                after = middle
            else:
                before = middle
        return before
