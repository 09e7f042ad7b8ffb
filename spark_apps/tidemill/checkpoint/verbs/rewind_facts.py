"""What a rewind is decided from: the checkpoint, the tables' logs, and what others know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tidemill.checkpoint.current import next_generation, read_history
from tidemill.checkpoint.reading.log_files import OffsetsFile
from tidemill.checkpoint.reading.reader import CheckpointReader
from tidemill.checkpoint.verbs.rewind import RewindFacts, TableLog, live_side
from tidemill.checkpoint.verbs.rewind_target import Target, last_batch_to_stay
from tidemill.checkpoint.verbs.table_points import table_paths
from tidemill.errors import UsageError
from tidemill.ledger.read import read_commits
from tidemill.ledger.undone import Side, UntoldError, undo_after
from tidemill.ledger.undone_files import undone_event_times, why_not_restorable
from tidemill.names import QUARANTINE_OUTPUT
from tidemill.spec.project import Pipeline
from tidemill.storage.store import Store

# Offsets by topic and partition, as Spark writes them.
Positions = Mapping[str, Mapping[str, int]]


def gather_rewind(
    store: Store,
    pipeline: Pipeline,
    target: Target,
    readers: Mapping[str, Sequence[str]],
    oldest: Positions | None,
) -> RewindFacts:
    """Read the checkpoint and the tables' logs; writes nothing.

    Args:
        store: The storage.
        pipeline: What is rewound.
        target: Where to.
        readers: Pipelines that read each table.
        oldest: Offset of the oldest record that each partition still has; None if the broker does not answer.

    Raises:
        UsageError: TIDE-CKPT-076, if the pipeline has never run.
    """
    history = read_history(store, pipeline.layout, pipeline.name)
    if not history:
        raise never_ran(pipeline.name)
    reader = CheckpointReader(store, pipeline.layout.checkpoint(pipeline.name, history[0].generation))
    batch_id, tables = _undone(pipeline, target, live_side(history), reader)
    held = batch_id in reader.commit_ids
    return RewindFacts(
        live=history[0],
        side=live_side(history),
        generation=next_generation(store, pipeline.layout, pipeline.name),
        batch_id=batch_id,
        planned=reader.offset_ids,
        committed=reader.commit_ids,
        tables=tables,
        missing_state=[problem.what for problem in reader.state_problems(batch_id + 1)] if held else [],
        expired=None if oldest is None else expired(reader.offsets(batch_id), oldest),
        readers=readers,
        topics=[sink.kafka.topic for sink in pipeline.spec.sinks if sink.kafka is not None],
    )


def _undone(
    pipeline: Pipeline, target: Target, side: Side, reader: CheckpointReader
) -> tuple[int, dict[str, TableLog]]:
    """The last batch that is to stay, and what the tables' logs and files say of those after it."""
    columns = _event_times(pipeline)
    logs = table_logs(pipeline)
    commits = {name: log.commits for name, log in logs.items()}
    batch_id = last_batch_to_stay(target, commits, side, max(reader.commit_ids, default=-1))
    return batch_id, {
        name: _looked_into(log, side, batch_id, columns.get(name)) for name, log in logs.items()
    }


def table_logs(pipeline: Pipeline) -> dict[str, TableLog]:
    """The logs of all tables that the pipeline writes."""
    paths = {**table_paths(pipeline), QUARANTINE_OUTPUT: pipeline.layout.quarantine(pipeline.name)}
    return {name: TableLog(path, read_commits(path)) for name, path in paths.items()}


def _event_times(pipeline: Pipeline) -> dict[str, str | None]:
    """Column of each appended table that says when things happened; other modes rewrite old rows, too."""
    declared = pipeline.spec.event_time.column if pipeline.spec.event_time else None
    return {s.table: s.time or declared for s in pipeline.spec.delta_sinks if s.mode == "append"}


def _looked_into(log: TableLog, side: Side, batch_id: int, column: str | None) -> TableLog:
    """What the data files of the rows that go say."""
    try:
        undo = undo_after(log.commits, side, batch_id) if log.commits else None
    except UntoldError:
        return log
    if undo is None or not undo.batches:
        return log
    reason = why_not_restorable(log.path, undo.to)
    times = undone_event_times(log.path, undo.to, column) if column and not reason else None
    return replace(log, not_restorable=reason, event_times=times)


def expired(after: OffsetsFile | None, oldest: Positions) -> dict[str, str]:
    """Partitions whose next record is gone, each with the first and the last lost offset."""
    documents = [] if after is None else [end for end in after.ends.values() if isinstance(end, dict)]
    return {
        f"{topic}-{partition}": f"{offset}-{first - 1}"
        for document in documents
        for topic, partitions in document.items()
        if isinstance(partitions, dict)
        for partition, offset in partitions.items()
        if offset >= 0 and (first := oldest.get(topic, {}).get(partition, 0)) > offset
    }


def never_ran(pipeline: str) -> UsageError:
    """The refusal of a verb that needs a checkpoint."""
    return UsageError(
        "TIDE-CKPT-076",
        "This pipeline has never run; it has no checkpoint.",
        facts={"pipeline": pipeline},
        fix=f"start it: tidemill start {pipeline}",
    )
