"""G6: check that the source still has the records that the checkpoint continues with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tidemill.checkpoint.findings import Finding
from tidemill.checkpoint.gate.facts import CheckpointFacts, TableSourceFacts, TopicFacts
from tidemill.checkpoint.reading.source_logs import DeltaOffset, file_log_id, parse_delta_offset
from tidemill.ledger.entry import Positions


def source(facts: CheckpointFacts) -> Iterator[Finding]:
    """Compare the offsets with the broker, the table or the folder."""
    for stream in facts.each_stream():
        yield from _of_stream(stream)


def _of_stream(facts: CheckpointFacts) -> Iterator[Finding]:
    if facts.source.topics is not None:
        yield from _cluster(facts, facts.source.topics)
        yield from _topic_ids(facts, facts.source.topics)
        yield from _partitions(facts, facts.source.topics)
        yield from _expired(facts, facts.source.topics)
        yield from _beyond(facts, facts.source.topics)
    yield from _table(facts)
    yield from _files(facts)


def topic_ids(facts: CheckpointFacts) -> dict[str, str]:
    """Return the topic ids of the newest batch, from the ledger of any table."""
    return {t: topic_id for found in facts.tables.values() for t, topic_id in found.topic_ids.items()}


def _cluster(facts: CheckpointFacts, topics: TopicFacts) -> Iterator[Finding]:
    known = next((found.cluster for found in facts.tables.values() if found.cluster), None)
    if known is not None and topics.cluster is not None and known != topics.cluster:
        yield facts.error(
            "TIDE-CKPT-095",
            "The topics are read from another cluster, or event hub, than the newest batch was. Its offsets "
            "say nothing of this one: Spark would skip records, or read them again.",
            facts.about(cluster=f"{known} -> {topics.cluster}", next_offsets=facts.next_start),
            "correct the environment's brokers; or, if it is a copy, "
            f"tidemill checkpoint reset {facts.pipeline} --from OFFSETS --skip-unread, with those of the "
            "same place in it",
            runbook="topic-recreated",
        )


def _topic_ids(facts: CheckpointFacts, topics: TopicFacts) -> Iterator[Finding]:
    known = topic_ids(facts)
    changed = {
        topic: f"{known[topic]} -> {now}" for topic, now in topics.ids.items() if known.get(topic, now) != now
    }
    if changed:
        yield facts.error(
            "TIDE-CKPT-021",
            "A topic was deleted and made again under its name. Spark would take the old offsets for places "
            "in the new topic, and never read the records before them.",
            facts.about(topic_ids=changed, next_offsets=facts.next_start),
            f"tidemill checkpoint reset {facts.pipeline} --from earliest",
            runbook="topic-recreated",
        )


def _partitions(facts: CheckpointFacts, topics: TopicFacts) -> Iterator[Finding]:
    known = _positions(facts.end_of(facts.planned))
    gone = [f"{t}-{p}" for t, ps in known.items() for p in ps if p not in topics.ends.get(t, {})]
    if gone:
        yield facts.error(
            "TIDE-CKPT-022",
            "Partitions that the checkpoint has read are gone from the broker: the topic was deleted, or "
            "made again with fewer. Spark would fail at every start.",
            facts.about(partitions=gone),
            f"tidemill checkpoint reset {facts.pipeline} --from earliest",
            runbook="topic-recreated",
        )


def _expired(facts: CheckpointFacts, topics: TopicFacts) -> Iterator[Finding]:
    lost = {
        f"{topic}-{partition}": f"{offset}..{oldest - 1}"
        for topic, partition, offset in _flat(_positions(facts.next_start))
        if offset >= 0 and (oldest := topics.oldest.get(topic, {}).get(partition, 0)) > offset
    }
    if lost:
        yield facts.error(
            "TIDE-CKPT-020",
            "The broker no longer has records that were not read yet: retention has removed them. "
            "Spark would fail at every start, or skip them if it were told to.",
            facts.about(lost=lost),
            "bring the records into the table from an archive, then "
            f"tidemill checkpoint reset {facts.pipeline} --from earliest --skip-unread",
            runbook="retention-expired",
        )


def _beyond(facts: CheckpointFacts, topics: TopicFacts) -> Iterator[Finding]:
    beyond = {
        f"{topic}-{partition}": f"{offset} > {end}"
        for topic, partition, offset in _flat(_positions(facts.end_of(facts.planned)))
        if (end := topics.ends.get(topic, {}).get(partition)) is not None and offset > end
    }
    if beyond:
        yield facts.error(
            "TIDE-CKPT-021",
            "The checkpoint has read further than the topic goes: it was made again, or truncated. Spark "
            "would fail, or wait until the topic has grown past the old offsets and skip what came before.",
            facts.about(offsets_beyond_end=beyond),
            f"tidemill checkpoint reset {facts.pipeline} --from earliest",
            runbook="topic-recreated",
        )


def _table(facts: CheckpointFacts) -> Iterator[Finding]:
    newest = parse_delta_offset(facts.end_of(facts.planned))
    table = facts.source.table
    problem = None if table is None or newest is None else _table_problem(table, newest)
    if table is not None and problem:
        yield facts.error(
            "TIDE-CKPT-023",
            f"The table to read {problem}. Spark would fail at every start, or skip rows.",
            facts.about(
                next_offsets=facts.next_start,
                table_id=table.table_id,
                table_version=table.version,
                missing_versions=list(table.missing[:5]),
                missing_files=list(table.missing_files[:5]),
            ),
            f"bring the table back, or tidemill checkpoint reset {facts.pipeline} --from earliest",
            runbook="source-table-changed",
        )


def _table_problem(table: TableSourceFacts, newest: DeltaOffset) -> str | None:
    if table.missing:
        return "no longer has the commits that come next in its log"
    if table.table_id is None:
        return "is gone"
    if newest.table_id != table.table_id:
        return "was dropped and made again: its versions began anew"
    # After the last file of a version, the offset names the next version, which may not exist yet.
    if newest.version > table.version + 1:
        return "is older than what was read of it: it was put back from a copy"
    return "no longer has the files that come next: VACUUM has removed them" if table.missing_files else None


def _files(facts: CheckpointFacts) -> Iterator[Finding]:
    missing = facts.source.missing
    if missing:
        yield facts.error(
            "TIDE-CKPT-024",
            "Files that must be read again are gone. Spark would fail, or go on without their rows.",
            facts.about(planned_batch=facts.planned, missing=list(missing[:5]), more=len(missing[5:])),
            "put the files back",
            runbook="source-files-gone",
        )
    # A reset is an approval to leave out the archived files whose place is taken.
    archived = facts.source.archived + (facts.source.in_the_way if facts.base is None else ())
    if archived:
        yield facts.error(
            "TIDE-CKPT-105",
            "The folder's archive has files, and the pipeline has never read any. It would begin with those "
            "in the folder, and never read the archived ones.",
            facts.about(archived=list(archived[:5]), more=len(archived[5:])),
            "move them back into the folder, to read them with the others; or move the archive elsewhere, to "
            "go without them",
            runbook="source-files-gone",
        )


def _positions(document: Any) -> Positions:
    """Return the Kafka offset document; empty for those of other sources."""
    if not isinstance(document, dict):
        return {}
    return {topic: value for topic, value in document.items() if isinstance(value, dict)}


def _flat(positions: Positions) -> Iterator[tuple[str, str, int]]:
    for topic, partitions in positions.items():
        for partition, offset in partitions.items():
            yield topic, partition, offset


def kind_of_offsets(document: Any) -> frozenset[str]:
    """Return the kinds of source that write such an offset document; empty if the document is unknown."""
    if not isinstance(document, Mapping):
        return frozenset({"rate", "socket"}) if isinstance(document, int) else frozenset()
    if parse_delta_offset(document) is not None:
        return frozenset({"delta"})
    if file_log_id(document) is not None:
        return frozenset({"files"})
    if document and all(isinstance(value, Mapping) for value in document.values()):
        # Continuous processing writes these notes for the rate source, one for each partition.
        of_clock = all("runTimeMs" in value for value in document.values())
        return frozenset({"rate"} if of_clock else {"kafka", "eventhubs", "iothub"})
    return frozenset()
