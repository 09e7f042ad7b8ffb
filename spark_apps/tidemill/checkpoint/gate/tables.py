"""What a table's log says of one generation of one pipeline. Pure: commits in, facts out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tidemill.checkpoint.current import Base
from tidemill.checkpoint.gate.facts import TableFacts
from tidemill.ledger.entry import LedgerEntry
from tidemill.ledger.read import Commit
from tidemill.ledger.standing import standing_commits

# Newest batches whose offsets are compared between ledger and checkpoint. A driver that was fenced off can
# have overwritten the one that was running and, at worst, the one before.
COMPARED_BATCHES = 3


@dataclass(frozen=True)
class Reader:
    """Through whose eyes a log is read.

    Args:
        pipeline: Its name.
        generation: Its live generation.
        output: Name of the table in ledger entries.
        base: Where a verb took the generation from.
        repeats_backfill: Whether a first start would append again what a backfill has written.
    """

    pipeline: str
    generation: str
    output: str
    base: Base | None = None
    repeats_backfill: bool = False


def table_facts(newest_first: Sequence[Commit], transaction: int | None, reader: Reader) -> TableFacts:
    """Say which batches of the generation stand in the table.

    Without ledger entries of the generation, the transaction version tells; after a RESTORE it says too much
    and tells nothing. A generation that a verb made and that has not written yet stands where its base
    does, as long as that is not taken back.
    """
    standing = list(standing_commits(newest_first))
    batches = [commit for commit in standing if _is_batch_of(commit, reader.pipeline)]
    own = [c.entry for c in batches if c.entry is not None and c.entry.generation == reader.generation]
    backfilled_to = _backfilled_to(standing, reader.pipeline) if reader.repeats_backfill else None
    if not own:
        return TableFacts(
            _last_without_entry(standing, transaction, reader),
            transaction=transaction,
            written_by=_intruder(batches, reader),
            traced=bool(batches) or transaction is not None,
            backfilled_to=backfilled_to,
        )
    newest = own[0]
    return TableFacts(
        newest.batch_id,
        newest.query_id,
        transaction,
        {entry.batch_id: _end(entry) for entry in own[:COMPARED_BATCHES] if entry.batch_id is not None},
        _generation_of(batches[0], but=reader.generation),
        True,
        newest.shape,
        {t: topic_id for read in newest.sources.values() for t, topic_id in (read.topic_ids or {}).items()},
    )


def was_restored(commits: Iterable[Commit]) -> bool:
    """Whether any of the commits is a RESTORE."""
    return any(commit.operation == "RESTORE" for commit in commits)


def _last_without_entry(standing: list[Commit], transaction: int | None, reader: Reader) -> int | None:
    if reader.base is not None and (transaction is None or was_restored(standing)):
        return reader.base.batch_id if _base_stands(standing, reader) else None
    return None if was_restored(standing) else transaction


def _base_stands(standing: list[Commit], reader: Reader) -> bool:
    """Whether no later RESTORE has taken back the version that the generation began with."""
    version = _base_version(reader)
    restores = [c for c in standing if c.operation == "RESTORE" and c.version > version]
    return all(c.restored_to is not None and c.restored_to >= version for c in restores)


def _base_version(reader: Reader) -> int:
    """Table version that the generation began with; -1 if there was no table."""
    version = None if reader.base is None else reader.base.tables.get(reader.output)
    return -1 if version is None else version


def _intruder(batches: list[Commit], reader: Reader) -> str | None:
    """Who wrote after the generation was made, before it wrote itself."""
    if reader.base is None or reader.base.tables.get(reader.output, -1) == -1 or not batches:
        return None
    newest = batches[0]
    return _generation_of(newest, but=reader.generation) if newest.version > _base_version(reader) else None


def _generation_of(commit: Commit, but: str) -> str | None:
    generation = None if commit.entry is None else commit.entry.generation
    return None if generation == but else generation


def _is_batch_of(commit: Commit, pipeline: str) -> bool:
    entry = commit.entry
    return entry is not None and entry.pipeline == pipeline and entry.mode != "backfill"


def _end(entry: LedgerEntry) -> Any:
    return next((read.end for read in entry.sources.values()), None)


def _backfilled_to(standing: list[Commit], pipeline: str) -> Any:
    entries = (commit.entry for commit in standing)
    mine = (e for e in entries if e and e.pipeline == pipeline and e.mode == "backfill")
    return next(({name: read.end for name, read in entry.sources.items()} for entry in mine), None)
