"""A shadow run, for command line and Airflow: choose the batches, and let Spark compute them."""

from __future__ import annotations

from tidemill.checkpoint.current import read_current
from tidemill.checkpoint.reading.reader import CheckpointReader
from tidemill.checkpoint.upgrade.shadow import (
    ShadowResult,
    Stretch,
    check_can_be_shadowed,
    choose_stretch,
    tables_to_compare,
)
from tidemill.checkpoint.verbs.prospect import never_ran
from tidemill.control.plane import ControlPlane
from tidemill.control.spark_part import forget_part, run_part
from tidemill.control.upgrade_check import plan_arguments
from tidemill.ledger.read import History, open_table
from tidemill.names import ASIDE_OUTPUTS
from tidemill.spec.project import Pipeline


def stretch_of(plane: ControlPlane, pipeline: Pipeline, batches: int) -> Stretch:
    """Return the batches that a shadow would compute again.

    Raises:
        UsageError: TIDE-CKPT-076, if the pipeline has never run; TIDE-CTRL-096, if it cannot have a shadow.
        GateRefusedError: TIDE-CTRL-095, if no batch can be compared.
    """
    live = read_current(plane.store, pipeline.layout, pipeline.name)
    if live is None:
        raise never_ran(pipeline.name)
    there = tables_to_compare(pipeline, live.generation)
    check_can_be_shadowed(pipeline, there)
    checkpoint = pipeline.layout.checkpoint(pipeline.name, live.generation)
    reader = CheckpointReader(plane.store, checkpoint)
    planned = set(reader.offset_ids)
    held = [number for number in reader.commit_ids if {number, max(0, number - 1)} <= planned]
    paths = {table: pipeline.layout.table(table) for table in there}
    paths |= {output: pipeline.layout.aside(output, pipeline.name) for output in ASIDE_OUTPUTS}
    tables = {name: History(path, open_table(path)) for name, path in paths.items()}
    return choose_stretch(live, held, tables, batches)


def run_shadow(plane: ControlPlane, pipeline: Pipeline, stretch: Stretch) -> ShadowResult:
    """Compute these batches again with the declared version on a copy, and compare; the stream keeps running.

    They are computed each time, because a model's alias may have changed. A running shadow is joined.

    Raises:
        TidemillError: Error of the Spark job; see `run_part` and `engine/shadow.py`.
    """
    which = {"generation": stretch.generation, "after": stretch.after, "last": stretch.last}
    words = [word for name, value in which.items() for word in (f"--{name}", str(value))]
    arguments = [*plan_arguments(pipeline), *words]
    forget_part(plane, pipeline, "shadow", arguments)
    answer = run_part(plane, pipeline, "shadow", arguments)
    return ShadowResult.model_validate(answer)
