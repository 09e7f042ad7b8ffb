"""Where a reset begins, and what that means for each partition: what is never read, and what again. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tidemill.checkpoint.gate.facts import TopicFacts
from tidemill.errors import UsageError
from tidemill.ledger.entry import Positions


@dataclass(frozen=True)
class Beginning:
    """Where a reset begins.

    Args:
        start: First offset to read of each partition; None for a source that is not Kafka's, which begins
            as its declaration says.
        asked: Whether the broker was asked for it: then it names all partitions that there are.
        topics: That the pipeline reads now; None if a pattern says it.
    """

    start: Positions | None
    asked: bool = False
    topics: frozenset[str] | None = None

    def is_gone(self, topic: str, partition: str) -> bool:
        """Whether nothing more is to be read of a partition that was read before."""
        if self.start is None or partition in self.start.get(topic, {}):
            return False
        return self.asked or (self.topics is not None and topic not in self.topics)


@dataclass(frozen=True)
class ReadBefore:
    """How far a table has read.

    Args:
        ends: Next offset of each partition.
        topic_ids: Ids that the topics had.
        cluster: Whose offsets they are, by topic.
    """

    ends: Positions
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    cluster: Mapping[str, str] = field(default_factory=dict)

    def is_of_another(self, topic: str, now: TopicFacts) -> bool:
        """Whether the offsets are known to be those of another topic of this name.

        Its id tells, or the cluster; else that it has fewer records than were read: not every broker has ids.
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
    """One row for each table and partition: where the table stands, and where it is begun.

    Args:
        beginning: The new one.
        read: By table.
        topics: What the source says now, of each stream; empty if nobody was asked.

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
    """The rows as parts of a plan, with the numbers of records that are never read, or read again.

    Each record counts once, however many tables lack it, or have it.
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
    """See that a plan leaves nothing out that was not read yet, whether its source still has it or not.

    Raises:
        UsageError: TIDE-CKPT-104.
    """
    gaps = [row for row in plan["partitions"] if row["never_read"] or row.get("is_unknown")]
    if not gaps:
        return
    shown = {
        f"{row['topic']}-{row['partition']} {row.get('unread_from')} -> {row['begins_at']}" for row in gaps
    }
    # Where the tables stand is no place in another topic.
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
                # Offsets of another topic name other records, unless those were copied.
                "read_again": 0 if is_another else again,
                "read_again_if_copied": again if is_another else 0,
                "is_another": is_another,
                "is_unknown": unread is None and begins is not None,
                "gone": beginning.is_gone(topic, partition),
            }
