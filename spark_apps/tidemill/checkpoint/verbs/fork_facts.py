"""What a fork is decided from: the original's checkpoint and tables, and what is in the fork's place."""

from __future__ import annotations

from tidemill.checkpoint.current import read_current, read_history
from tidemill.checkpoint.reading.reader import CheckpointReader
from tidemill.checkpoint.verbs.fork import ForkFacts, OriginTable
from tidemill.checkpoint.verbs.rewind import TableLog, live_side
from tidemill.checkpoint.verbs.rewind_facts import never_ran, table_logs
from tidemill.ledger.table_copy import size_of, table_is_there
from tidemill.ledger.table_restore import version_is_gone
from tidemill.ledger.undone import Side, UntoldError, undo_after
from tidemill.spec.project import Pipeline
from tidemill.storage.store import Store


def gather_fork(store: Store, origin: Pipeline, fork: Pipeline, batch_id: int | None) -> ForkFacts:
    """Read; writes nothing.

    Args:
        store: The storage.
        origin: The original.
        fork: Its fork.
        batch_id: Last batch that both share; by default the newest committed one.

    Raises:
        UsageError: TIDE-CKPT-076, if the original has never run.
        GateRefusedError: TIDE-CKPT-072, if a table's log no longer tells where the batch is.
    """
    history = read_history(store, origin.layout, origin.name)
    if not history:
        raise never_ran(origin.name)
    reader = CheckpointReader(store, origin.layout.checkpoint(origin.name, history[0].generation))
    last = max(reader.commit_ids, default=-1) if batch_id is None else batch_id
    side = live_side(history)
    declared = {sink.table for sink in origin.spec.delta_sinks}
    logs = {name: log for name, log in table_logs(origin).items() if name in declared}
    return ForkFacts(
        origin=origin.name,
        generation=history[0].generation,
        batch_id=last,
        is_held=_is_held(reader, last),
        tables={name: _origin_table(log, side, last) for name, log in logs.items()},
        origin_spec=origin.spec,
        fork=fork.name,
        fork_spec=fork.spec,
        fork_paths={sink.table: fork.layout.table(sink.table) for sink in fork.spec.delta_sinks},
        occupied=_occupied(store, fork),
    )


def _is_held(reader: CheckpointReader, batch_id: int) -> bool:
    planned = {batch_id, max(0, batch_id - 1)} <= set(reader.offset_ids)
    return planned and batch_id in reader.commit_ids and not reader.state_problems(batch_id + 1)


def _origin_table(log: TableLog, side: Side, batch_id: int) -> OriginTable:
    if not log.commits:
        return OriginTable(log.path, None)
    try:
        version = undo_after(log.commits, side, batch_id).to
    except UntoldError as error:
        raise version_is_gone(log.path, None, str(error)) from error
    return OriginTable(log.path, version, *size_of(log.path, version))


def _occupied(store: Store, fork: Pipeline) -> tuple[str, ...]:
    live = read_current(store, fork.layout, fork.name)
    state = [] if live is None else [f"generation {live.generation}"]
    tables = [s.table for s in fork.spec.delta_sinks if table_is_there(fork.layout.table(s.table))]
    return (*state, *tables)
