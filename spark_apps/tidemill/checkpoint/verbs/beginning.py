"""The beginning of a reset and its effect on each partition: records never read, and records read again.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tidemill.checkpoint.gate.facts import TopicFacts
from tidemill.errors import UsageError
from tidemill.ledger.entry import Positions


@dataclass(frozen=True)
class Beginning:
    """The offsets where a reset begins.

    Args:
        start: First offset to read of each partition; None for a source other than Kafka, which begins as
            declared.
        asked: True if the offsets come from the broker; then they include all partitions.
        topics: Topics that the pipeline reads now; None for a pattern.
    """

    start: Positions | None
    asked: bool = False
    topics: frozenset[str] | None = None

    def is_gone(self, topic: str, partition: str) -> bool:
        """Return True if a partition that was read before will not be read any more."""
        if self.start is None or partition in self.start.get(topic, {}):
            return False
        return self.asked or (self.topics is not None and topic not in self.topics)


@dataclass(frozen=True)
class ReadBefore:
    """The read position of a table.

    Args:
        ends: Next offset of each partition.
        topic_ids: Ids of the topics at that time.
        cluster: Cluster of the offsets, by topic.
    """

    ends: Positions
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    cluster: Mapping[str, str] = field(default_factory=dict)

    def is_of_another(self, topic: str, now: TopicFacts) -> bool:
        """Return True if the offsets are known to be those of another topic with the same name.

        The evidence is a different topic id, a different cluster, or fewer records than were read, because
        not every broker has topic ids.
        """
        pairs = (
            (self.topic_ids.get(topic), now.ids.get(topic)),
            (self.cluster.get(topic), now.cluster),
        )
        ends = now.ends.get(topic, {})
        is_beyond = any(end > ends.get(number, end) for number, end in self.ends.get(topic, {}).items())
        return is_beyond or any(then and there and then != there for then, there in pairs)


def compare(
    beginning: Beginning, read: Mapping[str, ReadBefore], topics: Sequence[TopicFacts] = ()
) -> list[dict[str, Any]]:
    """Return one row per table and partition, with the table's position and the new beginning.

    Args:
        beginning: The new beginning.
        read: Read positions by table.
        topics: Current facts of each stream's source; empty if no broker was asked.

    Raises:
        UsageError: TIDE-CKPT-043, if a partition that was read has no beginning.
    """
    known = {} if beginning.start is None else read
    rows = [row for table, before in known.items() for row in _rows(table, before, beginning, topics)]
    unnamed = (row for row in rows if row["begins_at"] is None and not row["gone"])
    missing = sorted({f"{row['topic']}-{row['partition']}" for row in unnamed})
    if missing:
        raise UsageError(
            "TIDE-CKPT-043",
            "Partitions that the pipeline has read have no beginning. Spark would read them as new ones, "
            "from their oldest record.",
            facts={"missing": ", ".join(missing)},
            fix="name an offset for each partition; -2 is earliest, -1 is latest",
        )
    return rows


def left_and_repeated(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the rows as parts of a plan, with the numbers of records that are never read or read again.

    Each record counts once, even if several tables lack it or have it.
    """

    def counted_once(key: str) -> int:
        most: dict[tuple[str, str], int] = {}
        for row in rows:
            place = row["topic"], row["partition"]
            most[place] = max(most.get(place, 0), row[key])
        return sum(most.values())

    return {
        "partitions": rows,
        "never_read": counted_once("never_read"),
        "read_again": counted_once("read_again"),
        "read_again_if_copied": counted_once("read_again_if_copied"),
    }


def check_unread(pipeline: str, plan: Mapping[str, Any]) -> None:
    """Check that a plan skips no unread records, even if the source no longer has them.

    Raises:
        UsageError: TIDE-CKPT-104.
    """
    gaps = [row for row in plan["partitions"] if row["never_read"] or row.get("is_unknown")]
    if not gaps:
        return
    shown = {
        f"{row['topic']}-{row['partition']} {row.get('unread_from')} -> {row['begins_at']}" for row in gaps
    }
    # Offsets of the tables are meaningless in another topic.
    is_another = any(row.get("is_another") for row in gaps)
    earlier = (
        "at its oldest record: --from earliest" if is_another else "where the tables stand: --from OFFSETS"
    )
    raise UsageError(
        "TIDE-CKPT-104",
        "Records that were not read yet would never be read. Nothing was changed."
        if plan["never_read"]
        else "Nothing says how far the source was read: records might never be read. Nothing was changed.",
        facts={
            "pipeline": pipeline,
            "never_read": plan["never_read"],
            "tables": ", ".join(sorted({row["table"] for row in gaps})),
            "partitions": ", ".join(sorted(shown)[:3]),
        },
        fix=f"begin {earlier}; or let the data's owner agree: --skip-unread. "
        f"What an archive has of them comes back by tidemill backfill plan {pipeline} --from BEGIN --to END",
        runbook="reset-checkpoint",
    )


def _rows(
    table: str, before: ReadBefore, beginning: Beginning, topics: Sequence[TopicFacts]
) -> Iterable[dict[str, Any]]:
    start = beginning.start or {}
    for topic in sorted({*start, *before.ends}):
        known, new = before.ends.get(topic, {}), start.get(topic, {})
        is_another = any(before.is_of_another(topic, now) for now in topics if topic in now.oldest)
        for partition in sorted({*known, *new}, key=int):
            stands, begins = known.get(partition), new.get(partition)
            oldest = next((now.oldest[topic].get(partition) for now in topics if topic in now.oldest), None)
            unread = oldest if stands is None or is_another else stands
            again = 0 if stands is None or begins is None else max(0, stands - begins)
            yield {
                "table": table,
                "topic": topic,
                "partition": partition,
                "stands_at": stands,
                "begins_at": begins,
                "unread_from": unread,
                "never_read": 0 if unread is None or begins is None else max(0, begins - unread),
                # Offsets of another topic refer to other records, unless the records were copied.
                "read_again": 0 if is_another else again,
                "read_again_if_copied": again if is_another else 0,
                "is_another": is_another,
                "is_unknown": unread is None and begins is not None,
                "gone": beginning.is_gone(topic, partition),
            }
