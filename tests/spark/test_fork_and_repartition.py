"""A fork and a repartitioned state continue without gaps or repetitions."""

from __future__ import annotations

import pytest

from tests.support.lake import Lake, LakePipeline
from tests.support.rewinds import (
    check_live,
    declare,
    land_events,
    newest_batch,
    restoring,
    rows_of,
)
from tidemill.checkpoint.procedure.carry_out import Request, carry_out, plan_of, procedure_of
from tidemill.checkpoint.verbs.fork import fork_steps, plan_fork
from tidemill.checkpoint.verbs.repartition import plan_repartition, repartition_steps
from tidemill.engine.repartition import repartition_with_spark


def repartition(pipeline: LakePipeline, partitions: int) -> None:
    store, resolved = pipeline.lake.store, pipeline.resolved
    request = Request("repartition", pipeline.name, f"repartition-{partitions}", "ann", "because")
    plan = plan_of(
        store,
        resolved.layout,
        request,
        lambda: plan_repartition(store, resolved, partitions),
    )

    def rewrite(checkpoint: str, number: int) -> None:
        repartition_with_spark(pipeline.lake.spark, checkpoint, number)

    steps = repartition_steps(store, resolved, request, plan, (rewrite, restoring(pipeline)))

    def verify() -> None:
        check_live(pipeline)

    carry_out(store, resolved.layout, procedure_of(request, plan, steps), verify)


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["windows", "joined"])
def test_state_goes_on_in_more_partitions_and_in_fewer(lake: Lake, kind: str) -> None:
    land_events(lake, 0, 3)
    pipeline = declare(lake, kind, kind, files=3)
    pipeline.run_incremental()
    for partitions, begin, end in ((3, 3, 5), (1, 5, 8)):
        last = newest_batch(pipeline)
        pipeline = declare(lake, kind, kind, files=3, partitions=partitions)
        repartition(pipeline, partitions)
        assert newest_batch(pipeline) == last + 1
        land_events(lake, begin, end)
        pipeline.run_incremental()
    control = declare(lake, "control", kind, files=4)
    control.run_incremental()
    assert rows_of(pipeline) == rows_of(control)


def test_a_fork_goes_on_beside_the_original(lake: Lake) -> None:
    land_events(lake, 0, 4)
    original = declare(lake, "windows", "windows", files=2)
    original.run_incremental()
    shadow = declare(lake, "shadow", "windows", files=2)
    store, resolved = lake.store, shadow.resolved
    request = Request("fork", "shadow", "fork-1", "ann", "because")
    plan = plan_fork(store, (original.resolved, resolved), 1, lambda facts, _: (facts, "not needed"))
    steps = fork_steps(store, (original.resolved, resolved), request, plan)

    def verify() -> None:
        check_live(shadow)

    carry_out(store, resolved.layout, procedure_of(request, plan, steps), verify)
    land_events(lake, 4, 7)
    original.run_incremental()
    shadow.run_incremental()
    assert rows_of(shadow) == rows_of(original)
    assert len(rows_of(shadow)) > 0
