"""What a table's log says of one generation of one pipeline. Pure: commits in, facts out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Literal

from tidemill.checkpoint.gate.facts import TableFacts
from tidemill.ledger.entry import LedgerEntry, Positions
from tidemill.ledger.proof import Side, why_unproven
from tidemill.ledger.read import FIRST_PAGE, Commit
from tidemill.ledger.standing import standing_commits

# Newest batches whose offsets are compared between ledger and checkpoint. A driver that was fenced off can
# have overwritten the one that was running and, at worst, the one before.
COMPARED_BATCHES = 3

# Offsets by partition, or from the oldest record on.
Begins = Positions | Literal["earliest"]


@dataclass(frozen=True)
class Reader:
    """Through whose eyes a log is read.

    Args:
        generation: The generation that is to go on.
        side: Whose batches lead to it.
        output: Name of the table in ledger entries.
        began_at: Version of the table that a verb began the generation with; -1 without one.
        begins: Where a first start would begin to append what backfills may have written; None where it
            appends nothing, or nobody knows where.
    """

    generation: str
    side: Side
    output: str
    began_at: int = -1
    begins: Begins | None = None


@dataclass(frozen=True)
class OpenTable:
    """What a table says beside its commits.

    Args:
        table_id: Its id; None if there is no table.
        transaction: Newest batch that Delta holds for written.
    """

    table_id: str | None = None
    transaction: int | None = None


def table_facts(commits: Iterable[Commit], table: OpenTable, reader: Reader) -> TableFacts:
    """Say which batches of the generation stand in the table.

    Reads as far back as the generation's newest entries; all of the log only if someone restored the table
    by hand lately, or if there are none. Then the transaction version tells; after a RESTORE it says too
    much and tells nothing.
    """
    standing = list(_as_far_as_needed(standing_commits(commits), reader))
    entries = [commit.entry for commit in standing if commit.entry is not None]
    own = [entry for entry in entries if _is_own(entry, reader)]
    facts = TableFacts(
        table_id=table.table_id,
        transaction=table.transaction,
        written_by=_intruder(standing, reader),
        traced=table.transaction is not None or any(_is_live(entry, reader) for entry in entries),
    )
    if own:
        return replace(facts, **_told_by(own), hole=_hole(commits, own[0].batch_id, reader))
    restored = any(_is_by_hand(commit) for commit in commits)
    backfills = [e for e in entries if e.pipeline == reader.side.pipeline and e.mode == "backfill"]
    return replace(
        facts,
        last_batch=None if restored else table.transaction,
        log_from=min((commit.version for commit in commits), default=None),
        backfilled_to=_backfilled_to(backfills, reader.begins),
    )


def _backfilled_to(backfills: Sequence[LedgerEntry], begins: Begins | None) -> Positions | None:
    """Where backfills ended, by partition; empty if nobody can say; None if a first start repeats nothing."""
    if not backfills or begins is None:
        return None
    highest: Positions = {}
    for entry in backfills:
        if not entry.sources:
            return {}
        for end in entry.ends.values():
            for topic, partitions in (end or {}).items():
                for partition, offset in partitions.items():
                    of_topic = highest.setdefault(topic, {})
                    of_topic[partition] = max(offset, of_topic.get(partition, 0))
    return highest if begins == "earliest" or _is_below(begins, highest) else None


def _is_below(begins: Positions, highest: Positions) -> bool:
    """Whether records of some partition would be read that a backfill has read; -2 stands for the oldest."""
    return any(
        -1 != begins.get(topic, {}).get(partition, offset) < offset
        for topic, partitions in highest.items()
        for partition, offset in partitions.items()
    )


def as_of(found: TableFacts, finished: int | None) -> TableFacts:
    """What a table said when a batch was finished, of one that a stream has gone on writing.

    Only where Delta and the ledger agree upon the newest batch: what contradicts itself stays as it is.
    """
    newest = found.last_batch
    if newest is None or found.transaction != newest or newest <= (-1 if finished is None else finished):
        return found
    return replace(found, last_batch=finished, transaction=finished)


def _told_by(own: Sequence[LedgerEntry]) -> dict[str, Any]:
    """What the newest entries of the generation say."""
    newest = own[0]
    return {
        "last_batch": newest.batch_id,
        "begun": True,
        "query_id": newest.query_id,
        "ends": {e.batch_id: e.ends for e in own if e.batch_id is not None},
        "shape": newest.shape,
        "code": newest.code.digest,
        "models": newest.code.models or {},
        "cluster": newest.cluster,
        "clusters": {name: read.cluster for name, read in newest.sources.items()},
        "topic_ids": newest.topic_ids,
    }


def _hole(commits: Iterable[Commit], newest: int | None, reader: Reader) -> str | None:
    """What speaks against the newest batch although it stands.

    Below it only a driver that ran meanwhile can have hidden a RESTORE by hand.
    """
    if newest is None or not any(_is_by_hand(commit) for commit in islice(commits, FIRST_PAGE)):
        return None
    return why_unproven(list(commits), reader.side, newest, reader.output)


def _as_far_as_needed(standing: Iterable[Commit], reader: Reader) -> Iterator[Commit]:
    """Up to the entries that are compared, or that with which the generation began."""
    found = 0
    for commit in standing:
        yield commit
        if commit.entry is not None and _is_own(commit.entry, reader):
            found += 1
            if found == COMPARED_BATCHES or commit.entry.mode == "base":
                return


def _intruder(standing: Iterable[Commit], reader: Reader) -> str | None:
    """Another generation that wrote after this one had, or after it was made."""
    for commit in standing:
        entry = commit.entry
        if entry is None or not _is_live(entry, reader):
            continue
        if _is_own(entry, reader):
            return None
        later = commit.version > reader.began_at and reader.side.batch_of(commit) is None
        if later and not commit.changes_no_row:
            return entry.generation
    return None


def _is_by_hand(commit: Commit) -> bool:
    return commit.operation == "RESTORE" and not commit.is_by_verb


def _is_own(entry: LedgerEntry, reader: Reader) -> bool:
    return _is_live(entry, reader) and entry.generation == reader.generation


def _is_live(entry: LedgerEntry, reader: Reader) -> bool:
    return entry.pipeline == reader.side.pipeline and entry.mode != "backfill"
