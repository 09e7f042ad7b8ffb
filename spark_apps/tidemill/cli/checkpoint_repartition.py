"""`tidemill checkpoint repartition`: another number of state partitions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

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

Partitions = Annotated[int, typer.Argument(min=1, help="Number of partitions, as in the pipeline file.")]


def add_to(group: typer.Typer) -> None:
    """Register the verb."""
    group.command()(repartition)


def repartition(  # noqa: PLR0913  # the options of a command line
    context: typer.Context,
    pipeline: Name,
    partitions: Partitions,
    apply: Apply = False,
    reason: Reason = "",
    by: By = "",
    approved_by: ApprovedBy = "",
    request_id: RequestId = "",
    as_json: AsJson = False,
) -> None:
    """Rewrite the state into another number of partitions; tables and offsets stay."""
    from tidemill.checkpoint.verbs.repartition import gather_repartition, plan_repartition, repartition_steps
    from tidemill.cli.spark_process import restoring, run_with_spark
    from tidemill.storage.store import Store

    invocation = invocation_of(context)
    resolved = invocation.pipeline(pipeline)
    store = Store(resolved.layout.root)
    arguments = (str(partitions),)
    asked = Asked(
        invocation, "repartition", pipeline, arguments, apply, by, reason, approved_by, request_id, as_json
    )

    def rewrite(checkpoint: str, number: int) -> None:
        run_with_spark(resolved, "repartition", ["--checkpoint", checkpoint, "--partitions", str(number)])

    parts = VerbParts(
        lambda: plan_repartition(gather_repartition(store, resolved, partitions)),
        lambda request, plan: repartition_steps(
            store, resolved.layout, request, plan, (rewrite, restoring(resolved))
        ),
        _lines,
    )
    run_procedure(asked, resolved, parts)


def _lines(plan: Mapping[str, Any]) -> list[str]:
    return [
        f"generation {plan['parent']} -> {plan['generation']}, after batch {plan['copied_batch']}",
        f"state: {plan['partitions_before']} -> {plan['partitions']} partitions, as batch {plan['batch_id']}",
        "tables and offsets stay as they are",
    ]
