"""`tidemill checkpoint repair`: make `offsets/` say again what the ledger says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import typer

from tidemill.cli.invocation import invocation_of
from tidemill.cli.procedure_run import (
    Apply,
    ApprovedBy,
    AsJson,
    Asked,
    By,
    Name,
    Reason,
    RequestId,
    VerbParts,
    run_procedure,
)

if TYPE_CHECKING:
    from tidemill.checkpoint.verbs.repair import RepairFacts
    from tidemill.spec.project import Pipeline
    from tidemill.storage.store import Store


def add_to(group: typer.Typer) -> None:
    """Register the verb."""
    group.command()(repair)


def repair(  # noqa: PLR0913  # the options of a command line
    context: typer.Context,
    pipeline: Name,
    apply: Apply = False,
    reason: Reason = "",
    by: By = "",
    approved_by: ApprovedBy = "",
    request_id: RequestId = "",
    as_json: AsJson = False,
) -> None:
    """Write overwritten or torn offsets again, as the ledger has them."""
    from tidemill.checkpoint.verbs.repair import plan_repair, repair_steps
    from tidemill.storage.store import Store

    invocation = invocation_of(context)
    resolved = invocation.pipeline(pipeline)
    store = Store(resolved.layout.root)
    asked = Asked(invocation, "repair", pipeline, (), apply, by, reason, approved_by, request_id, as_json)
    parts = VerbParts(
        lambda: plan_repair(_facts(store, resolved)),
        lambda request, plan: repair_steps(store, resolved.layout, request, plan),
        _lines,
        has_work=lambda plan: bool(plan["files"]),
    )
    run_procedure(asked, resolved, parts)


def _facts(store: Store, pipeline: Pipeline) -> RepairFacts:
    from tidemill.checkpoint.current import read_current
    from tidemill.checkpoint.verbs.repair import COMPARED_BATCHES, RepairFacts
    from tidemill.checkpoint.verbs.table_points import newest_entries
    from tidemill.names import FIRST_GENERATION

    live = read_current(store, pipeline.layout, pipeline.name)
    generation = FIRST_GENERATION if live is None else live.generation
    folder = f"{pipeline.layout.checkpoint(pipeline.name, generation)}/offsets"
    numbers = sorted(int(name) for name in store.list_names(folder) if name.isdecimal())
    # One more than is compared: a torn file takes its settings from the one before it.
    contents = {number: store.read(f"{folder}/{number}") for number in numbers[-COMPARED_BATCHES - 1 :]}
    return RepairFacts(
        generation,
        {number: content for number, content in contents.items() if content is not None},
        tuple(newest_entries(pipeline, generation)),
    )


def _lines(plan: Mapping[str, Any]) -> list[str]:
    lines = []
    for file in plan["files"]:
        found = "torn" if file["found"] is None else file["found"]
        lines.append(f"offsets/{file['batch_id']}: {found} -> {file['ledger']}")
    return lines or ["offsets and ledger agree as far as the ledger knows; nothing to repair"]
