"""Derive the facts of one generation from a table's log. Pure: commits in, facts out."""

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

# Number of newest batches whose offsets are compared between ledger and checkpoint. A fenced driver can have
# overwritten the running batch and, at worst, the batch before it.
COMPARED_BATCHES = 3

# Offsets by partition, or "earliest" for the oldest record.
Begins = Positions | Literal["earliest"]


@dataclass(frozen=True)
class Reader:
    """The generation for which a log is read.

    Args:
        generation: Generation that is to continue.
        side: Generations whose batches lead to it.
        output: Name of the table in ledger entries.
        began_at: Version of the table when an operation began the generation; -1 if no operation did.
        begins: Offsets where a first start would append rows that backfills may have written; None if it
            appends nothing, or if the offsets are unknown.
    """

    generation: str
    side: Side
    output: str
    began_at: int = -1
    begins: Begins | None = None


@dataclass(frozen=True)
class OpenTable:
    """The facts of a table that are not in its commits.

    Args:
        table_id: Id of the table; None if the table does not exist.
        transaction: Newest batch that Delta counts as written.
    """

    table_id: str | None = None
    transaction: int | None = None


def table_facts(commits: Iterable[Commit], table: OpenTable, reader: Reader) -> TableFacts:
    """Find out which batches of the generation are in the table.

    The log is read back to the generation's newest entries. It is read completely only if a RESTORE by hand
    is recent, or if the generation has no entries. Without entries, the transaction version gives the newest
    batch, except after a RESTORE, when it is too high.
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
    """Return where backfills ended, by partition; empty if unknown; None if a first start repeats nothing."""
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
    """Return True if a first start would read records that a backfill has read; -2 is the oldest offset."""
    return any(
        -1 != begins.get(topic, {}).get(partition, offset) < offset
        for topic, partitions in highest.items()
        for partition, offset in partitions.items()
    )


def as_of(found: TableFacts, finished: int | None) -> TableFacts:
    """Return the facts as of a finished batch, for a table that a stream continues to write.

    They change only if Delta and the ledger agree on the newest batch, so contradictions stay visible.
    """
    newest = found.last_batch
    if newest is None or found.transaction != newest or newest <= (-1 if finished is None else finished):
        return found
    return replace(found, last_batch=finished, transaction=finished)


def _told_by(own: Sequence[LedgerEntry]) -> dict[str, Any]:
    """Return the facts from the newest entries of the generation."""
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
    """Return why older batches may be missing although the newest batch is in the table.

    A RESTORE by hand can be hidden below the newest batch only if a driver ran at the time.
    """
    if newest is None or not any(_is_by_hand(commit) for commit in islice(commits, FIRST_PAGE)):
        return None
    return why_unproven(list(commits), reader.side, newest, reader.output)


def _as_far_as_needed(standing: Iterable[Commit], reader: Reader) -> Iterator[Commit]:
    """Yield commits up to the last entry to compare, or up to the entry that began the generation."""
    found = 0
    for commit in standing:
        yield commit
        if commit.entry is not None and _is_own(commit.entry, reader):
            found += 1
            if found == COMPARED_BATCHES or commit.entry.mode == "base":
                return


def _intruder(standing: Iterable[Commit], reader: Reader) -> str | None:
    """Return another generation that wrote after this one had, or after this one was made."""
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
