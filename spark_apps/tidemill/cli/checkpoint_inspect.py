"""`tidemill checkpoint inspect`: the content of a checkpoint in words."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidemill.cli.invocation import invocation_of
from tidemill.cli.output import print_json, print_table, say
from tidemill.errors import UsageError
from tidemill.spec.readable import readable_size, short_duration, shown

if TYPE_CHECKING:
    from tidemill.checkpoint.inspect import Inspection
    from tidemill.checkpoint.procedure.audit import AuditEntry
    from tidemill.spec.project import Pipeline

# Pinned settings that are shown. --json has all of them.
_TOLD_CONF = (
    "spark.sql.shuffle.partitions",
    "spark.sql.streaming.stateStore.providerClass",
    "spark.sql.streaming.multipleWatermarkPolicy",
)


# Number of newest audit entries to show. Readers want the last actions, not the history.
TOLD_ACTIONS = 5


def add_to(group: typer.Typer) -> None:
    """Register the command."""
    group.command("inspect")(inspect)


def inspect(
    context: typer.Context,
    pipeline: Annotated[str, typer.Argument(help="Name of the pipeline.")],
    generation: Annotated[
        str | None, typer.Option(help="Generation, e.g. g0002. Default: the live generation.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show batch, offsets, state, age, size and damage of a checkpoint, without changing anything."""
    resolved = invocation_of(context).pipeline(pipeline)
    found = _look(resolved, generation)
    actions = _actions(resolved)
    if as_json:
        print_json(_document(found, actions))
        return
    now = datetime.now(UTC)
    for line in _words(found, now):
        say(line)
    _print_sources(found)
    _print_schemas(found)
    _print_discovered(found)
    _print_state(found)
    _print_actions(actions, now)


def _look(pipeline: Pipeline, generation: str | None) -> Inspection:
    from tidemill.checkpoint.current import read_current, read_history
    from tidemill.checkpoint.inspect import inspect_checkpoint
    from tidemill.names import FIRST_GENERATION
    from tidemill.storage.store import Store

    layout = pipeline.layout
    store = Store(layout.root)
    live = read_current(store, layout, pipeline.name)
    wanted = generation or (live.generation if live else FIRST_GENERATION)
    records = read_history(store, layout, pipeline.name)
    record = next((record for record in records if record.generation == wanted), None)
    there = [name for name in store.list_names(layout.state(pipeline.name)) if _is_generation(name)]
    if generation is not None and wanted not in there:
        raise UsageError(
            "TIDE-CLI-020",
            "The pipeline has no such generation.",
            facts={"pipeline": pipeline.name, "generation": ascii(wanted[:20]), "there": ", ".join(there)},
            fix="name one that is there, or none for the live one",
        )
    return inspect_checkpoint(store, pipeline, wanted, live, record)


def _actions(pipeline: Pipeline) -> list[AuditEntry]:
    from tidemill.checkpoint.procedure.audit import read_audit
    from tidemill.storage.store import Store

    return read_audit(Store(pipeline.layout.root), pipeline.layout, pipeline.name, TOLD_ACTIONS)


def _is_generation(name: str) -> bool:
    return len(name) == 5 and name[0] == "g" and name[1:].isdecimal()


def _document(found: Inspection, actions: list[AuditEntry]) -> dict[str, Any]:
    record = None if found.record is None else found.record.model_dump(mode="json")
    told = [
        action.model_dump(mode="json", include={"verb", "request_id", "by", "why", "at"})
        for action in actions
    ]
    return {**dataclasses.asdict(found), "record": record, "repeats": found.repeats, "actions": told}


def _words(found: Inspection, now: datetime) -> Iterator[str]:
    yield _identity(found, now)
    yield _progress(found, now)
    if found.watermark is not None:
        yield f"The watermark is {shown(found.watermark)}."
    if found.newest_file is not None and found.oldest_file is not None:
        oldest, newest = short_duration(now - found.oldest_file), short_duration(now - found.newest_file)
        yield f"{found.files} files, {readable_size(found.size)}; written between {oldest} and {newest} ago."
    for key in _TOLD_CONF:
        if key in found.conf:
            yield f"Pinned at birth: {key}={found.conf[key]}"
    yield from (f"DAMAGE: {damage}" for damage in found.damages)
    if found.loadable is not None:
        yield f"The state after batch {found.loadable - 1} can still be loaded."
    if found.files and not found.damages:
        yield "No damage was found."


def _identity(found: Inspection, now: datetime) -> str:
    place = "the live generation" if found.is_live else "not the live generation"
    if found.record is None:
        return f"{found.generation} ({place}): nothing is recorded of it."
    record = found.record
    base = (
        "" if record.base is None else f", from {record.base.generation} up to batch {record.base.batch_id}"
    )
    return (
        f"{record.pipeline} {found.generation}, {place}: {record.why}, by {record.by}, "
        f"{short_duration(now - record.since)} ago{base}. Query {found.query_id or 'not started'}."
    )


def _progress(found: Inspection, now: datetime) -> str:
    if found.planned is None:
        return "No batch was planned yet."
    if found.is_noted:
        last = "none is committed" if found.committed is None else f"note {found.committed} is committed"
        return f"Continuous processing, without batches: {last}; what was written since is written again."
    age = "" if found.planned_at is None else f", planned {short_duration(now - found.planned_at)} ago"
    if found.repeats is None:
        return f"Batch {found.planned} is committed{age}; nothing is left to repeat."
    done = "no batch is committed" if found.committed is None else f"batch {found.committed} is committed"
    return f"{done.capitalize()}; batch {found.planned}{age}, is not: the next start runs it again."


def _print_sources(found: Inspection) -> None:
    rows = [row for source in found.sources for row in _positions(source.name, source.begin, source.end)]
    if rows:
        say("")
        print_table(("source", "part", "began at", "read up to"), rows)


def _positions(name: str, begin: Any, end: Any) -> Iterator[tuple[object, ...]]:
    """Yield one row for each partition of a topic, and one for any other source."""
    if isinstance(end, dict) and end and all(isinstance(value, dict) for value in end.values()):
        starts = begin if isinstance(begin, dict) else {}
        for topic, partitions in sorted(end.items()):
            for partition, offset in sorted(partitions.items(), key=lambda item: item[0].zfill(9)):
                yield name, f"{topic}[{partition}]", starts.get(topic, {}).get(partition), offset
        return
    told = ", ".join(f"{key} {value}" for key, value in end.items()) if isinstance(end, dict) else end
    yield name, None, begin, told


def _print_schemas(found: Inspection) -> None:
    if found.schemas:
        say("")
        print_table(
            ("table read", "schema", "from version", "columns"),
            ((s.table_id, s.number, s.version, ", ".join(s.columns)) for s in found.schemas),
        )


def _print_discovered(found: Inspection) -> None:
    if found.discovered:
        say("")
        print_table(
            ("stream", "columns", "since", "of batch", "added"),
            ((d.stream, d.version, shown(d.at), d.batch_id, ", ".join(d.added)) for d in found.discovered),
        )


def _print_actions(actions: list[AuditEntry], now: datetime) -> None:
    if actions:
        say("")
        print_table(
            ("what was done", "when", "by", "why"),
            ((a.verb, f"{short_duration(now - a.at)} ago", a.by, a.why) for a in actions),
        )


def _print_state(found: Inspection) -> None:
    if not found.operators:
        return
    say("")
    print_table(
        ("operator", "name", "partitions", "stores", "versions", "files", "size"),
        (
            (
                operator.number,
                operator.name or "not described",
                operator.partitions,
                len(operator.stores),
                f"{operator.oldest}-{operator.newest}",
                operator.files,
                readable_size(operator.size),
            )
            for operator in found.operators
        ),
    )
