"""`python -m tidemill.engine.shadow --pipeline NAME …`: newest batches made again by the declared version.

On a copy of the checkpoint and the tables below `shadows/PIPELINE`, which is gone in the end; the live ones
are only read. Each batch is planned in the copy as the live checkpoint has it, and a query with the trigger
`once` makes it: Spark finishes a planned batch and plans no other.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import structlog
from pyspark.sql import Column, SparkSession

from tidemill.checkpoint.current import read_or_create_current
from tidemill.checkpoint.procedure.carry_out import Request, carry_out, procedure_of
from tidemill.checkpoint.reading.batches import CheckpointBatches
from tidemill.checkpoint.reading.reader import CheckpointReader
from tidemill.checkpoint.upgrade.shadow import (
    ShadowResult,
    Stretch,
    check_can_be_shadowed,
    left_out_of,
    shadow_of,
    tables_there,
    without_others,
)
from tidemill.checkpoint.verbs.fork import fork_steps, plan_fork
from tidemill.checkpoint.verbs.generation_copy import plan_batch_again
from tidemill.engine.analyse import check_same_definition
from tidemill.engine.batch_rows import BatchesOf, columns_of, rows_touched
from tidemill.engine.in_session import run_in_session
from tidemill.engine.models import with_models
from tidemill.engine.quarantine_range import KEY
from tidemill.engine.row_difference import comparable_reason, difference
from tidemill.engine.verb_process import run_part
from tidemill.errors import InternalError
from tidemill.ledger.difference import Difference
from tidemill.ledger.read import open_table
from tidemill.names import ASIDE_OUTPUTS
from tidemill.sources.topic_facts import with_topics_if_told
from tidemill.spec.project import Pipeline
from tidemill.storage.store import Store

log = structlog.get_logger()


def shadow(spark: SparkSession, pipeline: Pipeline, stretch: Stretch) -> ShadowResult:
    """Make the batches of a stretch again, and compare; changes nothing of the pipeline.

    1. What one that was killed has left goes. 2. The copy, as a fork makes it. 3. Each batch. 4. The
    difference. 5. The copy goes.

    Raises:
        UsageError: TIDE-CTRL-096, if there can be no shadow.
        Exception: Why there can be no fork, as of the verb; or what a driver of this version would end with.
    """
    store, tables = Store(pipeline.layout.root), tables_there(pipeline)
    check_can_be_shadowed(pipeline, tables)
    origin = with_models(without_others(pipeline, tables), store)
    copy = shadow_of(origin, tables)
    # 1.
    store.delete_folder(copy.layout.root)
    try:
        # 2.
        versions = _fork(store, origin, copy, stretch)
        made = Shadow(spark, store, origin, copy, stretch)
        # 3.
        made.make_again()
        # 4.
        return made.compared(versions, left_out_of(pipeline, tables))
    finally:
        # 5.
        store.delete_folder(copy.layout.root)


def _fork(store: Store, origin: Pipeline, copy: Pipeline, stretch: Stretch) -> dict[str, int]:
    """Make the copy; the version of each table that it begins with.

    Tables that rows are only added to begin empty: what is in them decides nothing.
    """
    plan = plan_fork(store, (origin, copy), stretch.after, with_topics_if_told)
    for sink in copy.spec.delta_sinks:
        plan["tables"][sink.table]["with_rows"] = sink.mode != "append"
    request = Request("fork", copy.name, f"shadow-{stretch.after}", "tidemill", "a shadow run")
    steps = fork_steps(store, (origin, copy), request, plan)
    carry_out(store, copy.layout, procedure_of(request, plan, steps), lambda: None)
    return {name: table["from_version"] for name, table in plan["tables"].items()}


@dataclass(frozen=True)
class Shadow:
    """A copy that begins where the stretch does.

    Args:
        spark: The session.
        store: The storage.
        origin: The pipeline, with the tables that are compared and no other sink.
        copy: The same in its own place.
        stretch: Which batches.
    """

    spark: SparkSession
    store: Store
    origin: Pipeline
    copy: Pipeline
    stretch: Stretch

    def make_again(self) -> None:
        """Make each batch."""
        live = CheckpointReader(
            self.store, self.origin.layout.checkpoint(self.origin.name, self.stretch.generation)
        )
        folder = self.copy.layout.checkpoint(self.copy.name, self._generation)
        for batch_id in self.stretch.batches:
            plan_batch_again(live, batch_id, folder)
            _, reporter = run_in_session(self.spark, self.copy, self.store, "stream")
            reporter.state("stopped")
            made = CheckpointBatches(self.store, folder)
            if (made.last_planned(), made.last_committed()) != (batch_id, batch_id):
                raise InternalError(
                    "TIDE-RUN-007",
                    "A shadow run did not make the batch that it was given, or made another one.",
                    facts={"pipeline": self.copy.name, "batch_id": batch_id, "made": made.last_committed()},
                    fix="report this with the part's log",
                )
            log.info("shadow", pipeline=self.copy.name, batch_id=batch_id, last=self.stretch.last)

    def compared(self, versions: Mapping[str, int], left_out: Mapping[str, str]) -> ShadowResult:
        """How what was made differs from what the tables have of these batches."""
        added, dropped, found = {}, {}, []
        for name, version in versions.items():
            paths = (self.origin.layout.table(name), self.copy.layout.table(name))
            table, made = rows_touched(self.spark, self._batches(paths, version))
            common = [f"`{column}`" for column in made.columns if column in table.columns]
            if new := tuple(column for column in made.columns if column not in table.columns):
                added[name] = new
            if gone := tuple(column for column in table.columns if column not in made.columns):
                dropped[name] = gone
            found.append(difference(name, made.select(*common), table, version))
        found += [aside for output in ASIDE_OUTPUTS for aside in self._aside(output)]
        return ShadowResult(
            pipeline=self.origin.name,
            generation=self.stretch.generation,
            first=self.stretch.after + 1,
            last=self.stretch.last,
            differences=tuple(found),
            added=added,
            dropped=dropped,
            left_out=left_out,
        )

    def _aside(self, output: str) -> list[Difference]:
        """Which records were set aside, and why; when, and by which run, is told by no record."""
        name = self.origin.name
        paths = (self.origin.layout.aside(output, name), self.copy.layout.aside(output, name))
        there = [path for path in paths if open_table(path) is not None]
        if not there:
            return []
        columns = columns_of(self.spark, there[0])
        table, made = rows_touched(self.spark, self._batches(paths, None), columns)
        told: list[Column | str] = [*KEY, "file", "line", comparable_reason()]
        return [difference(output, made.select(*told), table.select(*told), None)]

    def _batches(self, paths: tuple[str, str], before: int | None) -> tuple[BatchesOf, BatchesOf]:
        batches, (table, copy) = self.stretch.batches, paths
        # The first version of a copy has its columns, the second one its rows.
        begun = None if before is None else 1
        return (
            BatchesOf(table, self.stretch.generation, batches, before),
            BatchesOf(copy, self._generation, batches, begun),
        )

    @property
    def _generation(self) -> str:
        """Of the copy."""
        return read_or_create_current(self.store, self.copy.layout, self.copy.name).generation


def _act(spark: SparkSession, arguments: argparse.Namespace) -> dict[str, Any]:
    pipeline = check_same_definition(arguments)
    stretch = Stretch(arguments.generation, arguments.after, arguments.last)
    return shadow(spark, pipeline, stretch).model_dump(mode="json")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="tidemill.engine.shadow", description=__doc__)
    parser.add_argument("--definition", required=True)
    # Name the part: another release, or another image, may make other rows of the same batch.
    parser.add_argument("--release", required=True)
    parser.add_argument("--image", default="")
    parser.add_argument("--generation", required=True)
    parser.add_argument("--after", type=int, required=True)
    parser.add_argument("--last", type=int, required=True)
    sys.exit(run_part(parser, _act))
