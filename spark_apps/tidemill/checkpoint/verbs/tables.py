"""The tables of a pipeline: their positions, and how each is brought to a batch. Read from their logs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

from tidemill.checkpoint.current import BaseTable, Current
from tidemill.errors import GateRefusedError
from tidemill.ledger.entry import LedgerEntry
from tidemill.ledger.proof import Side, Undo, UnprovenError, UntoldError, way_to
from tidemill.ledger.read import History, open_table, unreadable_log
from tidemill.ledger.standing import standing_commits
from tidemill.ledger.table_restore import version_is_gone
from tidemill.ledger.undone_files import undone_event_times, why_not_restorable
from tidemill.names import ASIDE_OUTPUTS
from tidemill.spec.project import Pipeline


@dataclass(frozen=True)
class Table:
    """One table that a pipeline writes, in its current version.

    Args:
        name: Name as in ledger entries; `quarantine` and `late` are the tables of rejected and late records.
        path: Path of the table.
        table_id: Id of the table.
        commits: Commits, newest first, read only as far back as a caller iterates.
    """

    name: str
    path: str
    table_id: str
    commits: History

    @property
    def version(self) -> int:
        """Return the newest version."""
        return next(iter(self.commits)).version

    def newest_entry(self, side: Side, until: int | None = None) -> LedgerEntry | None:
        """Return the ledger entry of the side's newest batch in the table, as of a version."""
        commits = (c for c in self.commits if until is None or c.version <= until)
        entries = (c.entry for c in standing_commits(commits) if side.batch_of(c) is not None)
        return next(entries, None)


@dataclass(frozen=True)
class Way:
    """The restore that brings one table to a batch.

    Args:
        table: The current table.
        undo: Effects of the restore.
        told: Entry of the newest batch that stays.
        event_times: First and last event time of the removed rows, if the files record them.
    """

    table: Table
    undo: Undo
    told: LedgerEntry | None
    event_times: tuple[datetime, datetime] | None = None


def table_paths(pipeline: Pipeline) -> dict[str, str]:
    """Return the path of each Delta table that the pipeline writes."""
    paths = {sink.table: pipeline.layout.table(sink.table) for sink in pipeline.spec.delta_sinks}
    return {**paths, **{output: pipeline.layout.aside(output, pipeline.name) for output in ASIDE_OUTPUTS}}


def read_tables(pipeline: Pipeline) -> dict[str, Table]:
    """Return the pipeline's existing tables, by name.

    Raises:
        DataError: TIDE-LEDG-001, if a log is damaged.
    """
    found = (_read(name, path) for name, path in table_paths(pipeline).items())
    return {table.name: table for table in found if table is not None}


def ways_to(
    pipeline: Pipeline,
    side: Side,
    batch_id: int,
    left: Collection[str] | None,
    ids: Mapping[str, str | None],
) -> dict[str, Way]:
    """Return how each table is brought to a batch, proven by its log and checked in advance where possible.

    Args:
        pipeline: Pipeline of the tables.
        side: Generations whose batches count.
        batch_id: Last batch that stays.
        left: Further generations whose batches may be undone; None for all of the pipeline.
        ids: Known ids that the tables must have.

    Raises:
        GateRefusedError: TIDE-CKPT-040 if other writers would lose rows; -072 if a version is gone or the log
            is too short; -080 if a table is not the one that the batches were written to; -092 if the table
            never had exactly these batches.
    """
    tables = _all_tables(pipeline, ids)
    return {name: _way(pipeline, table, side, batch_id, left) for name, table in tables.items()}


def stands_at(pipeline: Pipeline, live: Current, batch_id: int) -> dict[str, BaseTable]:
    """Return the current version of each table that has all batches up to this one and no later batch.

    Raises:
        GateRefusedError: TIDE-CKPT-072, -080, -092.
    """
    found = {}
    for name, table in _all_tables(pipeline, {}).items():
        undo = _undo(pipeline, table, live.side, batch_id, ())
        if undo.returns:
            raise _unproven(pipeline, table, batch_id, "batches were written and taken back since")
        found[name] = BaseTable(id=table.table_id, version=undo.to)
    return found


def _all_tables(pipeline: Pipeline, ids: Mapping[str, str | None]) -> dict[str, Table]:
    tables = read_tables(pipeline)
    for name, path in table_paths(pipeline).items():
        there = None if name not in tables else tables[name].table_id
        wanted = ids.get(name, there)
        if (there is None and name not in ASIDE_OUTPUTS) or (wanted is not None and wanted != there):
            raise _another_table(pipeline, path, there, wanted)
    return tables


def _read(name: str, path: str) -> Table | None:
    from deltalake.exceptions import DeltaError

    try:
        table = open_table(path)
    except DeltaError as error:
        raise unreadable_log(path, error) from error
    return None if table is None else Table(name, path, str(table.metadata().id), History(path, table))


def _way(pipeline: Pipeline, table: Table, side: Side, batch_id: int, left: Collection[str] | None) -> Way:
    undo = _undo(pipeline, table, side, batch_id, left)
    told = table.newest_entry(side, undo.to)
    if undo.to == undo.version:
        return Way(table, undo, told)
    if reason := why_not_restorable(table.path, undo.to):
        raise version_is_gone(pipeline.name, table.path, undo.to, reason)
    column = _event_time(pipeline, table.name)
    times = undone_event_times(table.path, undo.to, column) if column and undo.batches else None
    return Way(table, undo, told, times)


def _undo(pipeline: Pipeline, table: Table, side: Side, batch_id: int, left: Collection[str] | None) -> Undo:
    commits = list(table.commits)
    entries = (commit.entry for commit in commits if left is None)
    known = {entry.generation for entry in entries if entry and entry.generation}
    try:
        return way_to(commits, side, batch_id, table.name, left or known)
    except UntoldError as error:
        raise version_is_gone(pipeline.name, table.path, None, str(error)) from error
    except UnprovenError as error:
        raise _unproven(pipeline, table, batch_id, str(error)) from error


def _event_time(pipeline: Pipeline, table: str) -> str | None:
    """Return the event-time column of an appended table; other modes also rewrite old rows."""
    times = {s.event_time.column for s in pipeline.spec.streams.values() if s.event_time is not None}
    declared = times.pop() if len(times) == 1 else None
    sinks = (sink for sink in pipeline.spec.delta_sinks if sink.table == table and sink.mode == "append")
    return next((sink.time or declared for sink in sinks), None)


def _span(numbers: Collection[int]) -> str:
    return f"{min(numbers)}-{max(numbers)}"


def _unproven(pipeline: Pipeline, table: Table, batch_id: int, reason: str) -> GateRefusedError:
    return GateRefusedError(
        "TIDE-CKPT-092",
        "The table does not stand where this batch left it, and never did as a whole. Nothing was changed. "
        "What is missing would be missing for ever.",
        facts={"table": table.path, "batch_id": batch_id, "because": reason},
        fix="choose a batch before the gap, bring the table back, or read the source again: "
        f"tidemill checkpoint reset {pipeline.name} --from earliest",
        runbook="rewind",
    )


def _another_table(pipeline: Pipeline, path: str, there: str | None, wanted: str | None) -> GateRefusedError:
    return GateRefusedError(
        "TIDE-CKPT-080",
        "The table is missing, or is not the one that these batches were written to. Nothing was changed. "
        "Spark would go on after rows that are not there.",
        facts={"table": path, "table_id": there, "wanted_id": wanted},
        fix="first copy the table that the batches were written to here, complete and with its _delta_log; "
        f"or read the source again: tidemill checkpoint reset {pipeline.name} --from earliest",
        runbook="restore-checkpoint",
    )
