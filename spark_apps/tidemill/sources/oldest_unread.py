"""How long the oldest event that was not read has been in its hub: found by asking where moments lie."""

from __future__ import annotations

from datetime import datetime, timedelta

from tidemill.ledger.entry import Positions
from tidemill.sources.kafka_clients import kafka_client
from tidemill.sources.offsets import KafkaOffsets
from tidemill.spec.project import Pipeline

# Times that the range is halved: 16 tell it to four seconds of three days, so that two such moments, minutes
# apart, tell a speed.
HALVINGS = 16


def all_read_before(pipeline: Pipeline, read: Positions, kept: timedelta, now: datetime) -> datetime | None:
    """A moment before which all that came was read, or `kept` ago; None if all was read.

    A stream that runs, and falls behind, plans its batches now and reads what came long ago: when it did so
    says nothing.

    Args:
        pipeline: Of one stream.
        read: Next offset of each partition; of one that is not there, nothing was read.
        kept: How long the hub keeps an event.
        now: Until when one looks.

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
