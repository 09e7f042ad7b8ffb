"""`rewind`: move tables, offsets and state together to a batch of the live generation or an older one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tidemill.checkpoint.current import Current, read_history
from tidemill.checkpoint.procedure.carry_out import Request, Step
from tidemill.checkpoint.reading.reader import CheckpointReader
from tidemill.checkpoint.verbs.generation_copy import copy_checkpoint
from tidemill.checkpoint.verbs.go_back import NewGeneration, plan_of_prospect, restoring
from tidemill.checkpoint.verbs.prospect import AskBroker, Origin, look_ahead, never_ran, origin_of
from tidemill.checkpoint.verbs.tables import Table, read_tables
from tidemill.errors import SpecError, UsageError
from tidemill.ledger.proof import Side
from tidemill.ledger.read import Commit
from tidemill.ledger.standing import standing_commits
from tidemill.ledger.table_restore import RestoreTable
from tidemill.spec.project import Pipeline
from tidemill.spec.project_folder import Project
from tidemill.storage.advance import Told, nobody_told
from tidemill.storage.store import Store


@dataclass(frozen=True)
class Target:
    """The place to rewind to: batch, time or version. With none of them, the newest finished batch.

    Args:
        batch_id: Last batch that stays.
        moment: Later commits are undone.
        version: Version of the first table; later commits are undone.
        generation: Generation of the batches; empty for the live one.
    """

    batch_id: int | None = None
    moment: datetime | None = None
    version: int | None = None
    generation: str = ""


def parse_target(text: str, generation: str = "") -> Target:
    """Parse `118`, `v42` or an ISO 8601 time (UTC by default); an empty text needs a generation.

    Raises:
        UsageError: TIDE-CKPT-074.
    """
    if not text and generation:
        return Target(generation=generation)
    if text.isascii() and text.isdecimal():
        return Target(batch_id=int(text), generation=generation)
    if text.startswith("v") and text[1:].isascii() and text[1:].isdecimal():
        return Target(version=int(text[1:]), generation=generation)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise UsageError(
            "TIDE-CKPT-074",
            "This is no place to go back to.",
            facts={"given": ascii(text[:80])},
            fix="name a batch (118), a table version (v42) or a moment (2026-11-20T14:00:00Z)",
        ) from error
    zoned = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return Target(moment=zoned, generation=generation)


def plan_rewind(store: Store, pipeline: Pipeline, target: Target, ask_broker: AskBroker) -> dict[str, Any]:
    """Return the plan for each table, with the rows that are lost or repeated.

    Raises:
        UsageError: TIDE-CKPT-076 if the pipeline has never run, -045 if it has no such generation.
        GateRefusedError: See `look_ahead`.
    """
    history = read_history(store, pipeline.layout, pipeline.name)
    if not history:
        raise never_ran(pipeline.name)
    origin = origin_of(store, pipeline, _record(history, target.generation))
    batch_id = _last_batch_to_stay(pipeline, target, origin)
    plan = plan_of_prospect(look_ahead(pipeline, origin, history[0], batch_id, ask_broker))
    readers, unknown = _readers(pipeline.environment.project)
    topics = [sink.kafka.topic for sink in pipeline.spec.sinks if sink.kafka is not None]
    folders = [sink.files.path for sink in pipeline.spec.sinks if sink.files is not None]
    changed = [name for name, table in plan["tables"].items() if table["batches"]]
    return {
        **plan,
        "read_by": {name: readers[name] for name in changed if name in readers},
        "wrong_files": unknown,
        "sent_again": topics if plan["batches_undone"] else [],
        "files_stay": folders if plan["batches_undone"] else [],
    }


def rewind_steps(  # noqa: PLR0913  # plan arguments, action and progress callback
    store: Store,
    pipeline: Pipeline,
    request: Request,
    plan: Mapping[str, Any],
    restore: RestoreTable,
    told: Told = nobody_told,
) -> tuple[Step, ...]:
    """Return the core's steps, with the checkpoint as it was after the batch."""
    parent = pipeline.layout.checkpoint(pipeline.name, plan["parent"])

    def fill(folder: str, query_id: str) -> None:
        copy_checkpoint(CheckpointReader(store, parent), plan["batch_id"], (folder, query_id), told)

    return NewGeneration(store, pipeline.layout, request, plan).steps(fill, restoring(restore))


def last_batch_to_stay(
    target: Target, tables: Mapping[str, list[Commit]], side: Side, last_committed: int
) -> int:
    """Return the last batch before a target; -1 if no batch would stay.

    Args:
        target: The target.
        tables: Commits of each table, newest first; `target.version` is a version of the first table.
        side: Generations whose batches count.
        last_committed: Newest batch in `commits/`.
    """
    if target.batch_id is not None:
        return target.batch_id
    if target.moment is not None:
        moment = target.moment
        after = [c for commits in tables.values() for c in _batches(commits, side) if c.committed_at > moment]
    elif target.version is not None:
        first = next(iter(tables.values()), [])
        after = [commit for commit in _batches(first, side) if commit.version > target.version]
    else:
        after = []
    numbers = [number for commit in after if (number := side.batch_of(commit)) is not None]
    return min([last_committed, *(number - 1 for number in numbers)])


def _last_batch_to_stay(pipeline: Pipeline, target: Target, origin: Origin) -> int:
    tables: dict[str, Table] = {} if target.batch_id is not None else read_tables(pipeline)
    commits = {name: list(table.commits) for name, table in tables.items()}
    return last_batch_to_stay(target, commits, origin.side, max(origin.reader.commit_ids, default=-1))


def _batches(newest_first: list[Commit], side: Side) -> list[Commit]:
    batches = (c for c in standing_commits(newest_first) if side.batch_of(c) is not None)
    return [commit for commit in batches if not commit.changes_no_row]


def _record(history: list[Current], generation: str) -> Current:
    record = next((r for r in history if generation in ("", r.generation)), None)
    if record is None:
        known = sorted({record.generation for record in history})
        raise UsageError(
            "TIDE-CKPT-045",
            "The pipeline has no such generation. Nothing was changed.",
            facts={"generation": ascii(generation[:20]), "known": ", ".join(known)},
            fix="name one of those, or none for the live one",
        )
    return record


def _readers(project: Project) -> tuple[dict[str, list[str]], list[str]]:
    """Return the pipelines that read each table, and the skipped pipelines with an invalid file."""
    readers: dict[str, list[str]] = {}
    unknown = []
    for name in project.pipeline_names():
        try:
            streams = project.load_pipeline(name).streams.values()
        except SpecError:
            unknown.append(name)
            continue
        for stream in streams:
            if stream.source.delta is not None:
                readers.setdefault(stream.source.delta.table, []).append(name)
    return readers, unknown
