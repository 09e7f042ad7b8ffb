"""`tidemill plan`: show what would run, from which position, with which conf, without changing anything.

With `--spark`, a separate process checks the transform with Spark, without starting a query.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidemill.cli.invocation import invocation_of
from tidemill.cli.output import print_json, say
from tidemill.names import SOURCE_NAME, source_name

if TYPE_CHECKING:
    from tidemill.control.plane import ControlPlane
    from tidemill.spec.project import Pipeline
    from tidemill.spec.sinks import Sink
    from tidemill.storage.store import Store


# Lineage columns that are not strings.
_LINEAGE_TYPES = {"kafka_partition": "int", "kafka_offset": "long", "kafka_timestamp": "timestamp"}

UNBOUNDED = (
    "the state may grow for ever (`run.unbounded_state: accepted`, TIDE-PLAN-046); watch it: tidemill "
    "checkpoint doctor"
)


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command()(plan)


def plan(
    context: typer.Context,
    pipeline: Annotated[str, typer.Argument(help="Name of the pipeline.")],
    broker: Annotated[
        bool,
        typer.Option(
            "--broker", help="Also query the retention of the broker, and the properties of an event hub."
        ),
    ] = False,
    spark: Annotated[
        bool,
        typer.Option(
            "--spark",
            help="Also check transform, sinks and existing tables with Spark's plan, without starting a "
            "query.",
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show what would run, from which position, and how."""
    from tidemill.cli.pipeline_check import check_pipeline

    invocation = invocation_of(context)
    checked = check_pipeline(invocation.environment(), pipeline)
    document = plan_document(checked, broker)
    findings = transform_findings(invocation.control_plane(), checked) if spark else []
    if spark:
        document["spark_check"] = findings or "Spark can run it as a stream, and each sink takes its rows"
    if as_json:
        print_json(document)
    else:
        for line in _lines(document, ""):
            say(line)
    if any(finding["verdict"] == "refused" for finding in findings):
        raise typer.Exit(1)


def transform_findings(plane: ControlPlane, pipeline: Pipeline) -> list[dict[str, Any]]:
    """Findings of Spark's plan about a transform and its sinks, refusals first.

    Raises:
        TidemillError: If the transform cannot be applied at all, or Spark is not installed.
    """
    from tidemill.control.spark_part import analyse_again

    found = sorted(analyse_again(plane, pipeline), key=lambda finding: bool(finding["warns"]))
    return [{"verdict": "warning" if finding.pop("warns") else "refused", **finding} for finding in found]


def plan_document(pipeline: Pipeline, ask_broker: bool = False) -> dict[str, Any]:
    """Return everything that a driver of this pipeline would do and use, as plain data."""
    from tidemill.cli.plan_retention import last_ending, retention_document
    from tidemill.engine.driver_pod import some_pod
    from tidemill.engine.session_conf import session_conf
    from tidemill.spec.capabilities import TRIGGERS
    from tidemill.spec.without_batches import PROMISES

    spec, environment = pipeline.spec, pipeline.environment
    store = _open_store(pipeline)
    streams = {name: _stream(stream) for name, stream in pipeline.streams.items()}
    return {
        "pipeline": pipeline.name,
        "description": spec.description,
        "owner": spec.owner,
        "file": str(environment.project.pipeline_file(pipeline.name)),
        "digest": pipeline.digest,
        "environment": environment.name,
        "run": spec.run.model_copy(update={"trigger_": spec.run.own_trigger}).model_dump(
            mode="json", by_alias=True, exclude_none=True
        ),
        "batches": TRIGGERS[spec.run.trigger_of(spec.run.mode)].what,
        **({"promises": list(PROMISES)} if spec.run.is_without_batches(spec.run.mode) else {}),
        "output_mode": spec.output_mode,
        **({"warning": UNBOUNDED} if spec.run.accepts_unbounded_state else {}),
        **({"streams": streams} if spec.has_named_streams else streams[SOURCE_NAME]),
        "joined_tables": {name: pipeline.layout.table(table) for name, table in spec.tables.items()},
        "joined_files": {
            name: pipeline.layout.folder(part.source.chosen.path) for name, part in spec.joined_files.items()
        },
        "transform": spec.transform,
        "sinks": [_sink(pipeline, sink) for sink in spec.sinks],
        "paths": _paths(pipeline),
        "retention": retention_document(pipeline, ask_broker),
        "hubs": _hubs(pipeline, ask_broker),
        "checkpoint": None if store is None else _position(store, pipeline),
        "last_ending": None if store is None else last_ending(store, pipeline),
        "session_conf": session_conf(pipeline, some_pod(pipeline)),
    }


def _hubs(pipeline: Pipeline, ask: bool) -> list[dict[str, Any]]:
    """Return advice on the event hubs, with their properties if `ask`; empty if there are no hubs."""
    from tidemill.control.hubs import advice_on_hubs, look_at_hubs

    advice = advice_on_hubs(pipeline)
    if not ask or not advice:
        return advice
    from tidemill.sources.hub_facts import ask_hub

    views = look_at_hubs(pipeline, ask_hub)
    return [known | view.document() for known, view in zip(advice, views, strict=True)]


def _stream(pipeline: Pipeline) -> dict[str, Any]:
    """Return the source of a stream and its columns."""
    from tidemill.cli.pipeline_check import decoded_columns, lineage_columns

    spec = pipeline.spec
    source = spec.source.chosen.model_dump(mode="json", by_alias=True, exclude_none=True)
    return {
        "source": {"kind": spec.source.kind, **source, "repeated_batch": spec.source.facts.promise},
        "decoded_columns": decoded_columns(pipeline),
        "lineage_columns": lineage_columns(pipeline),
        "event_time": spec.event_time and spec.event_time.model_dump(mode="json", exclude_none=True),
    }


def _sink(pipeline: Pipeline, sink: Sink) -> dict[str, Any]:
    from tidemill.spec.capabilities import SINKS
    from tidemill.spec.without_batches import PROMISES

    declared = sink.chosen.model_dump(mode="json", exclude_defaults=True, exclude={"writer"})
    delivery = SINKS[sink.kind].promise
    if not pipeline.spec.is_replayable:
        delivery = "nothing is promised: the source cannot be read again"
    elif pipeline.spec.run.is_without_batches(pipeline.spec.run.mode):
        delivery = PROMISES[0]
    if sink.files is not None:
        folder = pipeline.layout.folder(sink.files.path)
        warning = empty_partitions(pipeline, sink.files.partition_by)
        return {"kind": "files", "delivery": delivery, **declared, "path": folder, **warning}
    if sink.delta is None:
        return {"kind": sink.kind, "delivery": delivery, **declared}
    writer, reason = sink.delta.writer_and_reason
    return {
        "kind": "delta",
        "mode": sink.delta.mode,
        "writer": f"{writer} ({reason})",
        "delivery": delivery,
        "path": pipeline.layout.table(sink.delta.table),
        **declared,
        **empty_partitions(pipeline, sink.delta.partition_by),
    }


def empty_partitions(pipeline: Pipeline, partition_by: list[str]) -> dict[str, str]:
    """Return a warning about partition columns that may contain empty strings, if there are any.

    A transform may change the type of any column, so types are known only without a transform.
    """
    from tidemill.cli.pipeline_check import decoded_columns

    is_known = pipeline.spec.transform is None and not pipeline.spec.has_named_streams
    known = _LINEAGE_TYPES | ((decoded_columns(pipeline) if is_known else None) or {})
    texts = [column for column in partition_by if known.get(column, "string") == "string"]
    if not texts:
        return {}
    return {
        "warning": f"an empty text in {', '.join(texts)} stops the pipeline (TIDE-SINK-020), because it "
        "would read back as null: leave such rows out, or make them null in the transform"
    }


def _paths(pipeline: Pipeline) -> dict[str, str]:
    layout = pipeline.layout
    paths = {"state": layout.state(pipeline.name), "status": layout.status(pipeline.name)}
    if pipeline.spec.has_quarantine:
        paths["quarantine"] = layout.quarantine(pipeline.name)
    if pipeline.spec.keeps_late:
        paths["late"] = layout.late(pipeline.name)
    return paths


def _open_store(pipeline: Pipeline) -> Store | None:
    """Return the storage; None if it is a folder that does not exist yet."""
    from pathlib import Path

    from tidemill.storage.store import Store

    root = pipeline.layout.root
    # Opening a store creates its folder, and a plan must not create anything.
    return Store(root) if "://" in root or Path(root).is_dir() else None


def _position(store: Store, pipeline: Pipeline) -> dict[str, Any] | None:
    """Return the position of the live checkpoint; None before the first start."""
    from tidemill.checkpoint.current import read_current
    from tidemill.checkpoint.reading.batches import CheckpointBatches

    layout = pipeline.layout
    current = read_current(store, layout, pipeline.name)
    if current is None:
        return None
    generation = current.generation
    batches = CheckpointBatches(store, layout.checkpoint(pipeline.name, generation))
    planned = batches.last_planned()
    newest = batches.planned(planned) if planned is not None else None
    return {
        "generation": generation,
        "path": batches.path,
        "planned_batch": planned,
        "committed_batch": batches.last_committed(),
        "offsets": {source_name(key): end for key, end in newest.ends.items()} if newest else None,
        "watermark": newest.watermark if newest else None,
    }


def _lines(value: Any, indent: str) -> list[str]:
    """Return nested maps and lists as indented lines, without empty parts."""
    lines: list[str] = []
    for name, part in value.items():
        if isinstance(part, dict) and part:
            lines += [f"{indent}{name}:", *_lines(part, indent + "  ")]
        elif isinstance(part, list) and part and all(isinstance(item, dict) for item in part):
            lines.append(f"{indent}{name}:")
            for item in part:
                first, *rest = _lines(item, indent + "    ")
                lines += [f"{indent}  - {first.lstrip()}", *rest]
        elif part not in (None, [], {}, ""):
            lines.append(f"{indent}{name}: {part}")
    return lines
