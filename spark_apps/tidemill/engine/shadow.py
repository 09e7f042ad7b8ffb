"""`python -m tidemill.engine.shadow --pipeline NAME …`: repeat the newest batches with the declared version.

The run works on a copy of the checkpoint and the tables below `shadows/PIPELINE`, which is deleted at the
end; the live ones are only read. Each batch is planned in the copy as in the live checkpoint, and a query
with the trigger `once` runs it: Spark finishes a planned batch and plans no other.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import structlog
from pyspark.sql import Column, DataFrame, SparkSession

from tidemill.checkpoint.current import read_or_create_current
from tidemill.checkpoint.procedure.carry_out import Request, carry_out, procedure_of
from tidemill.checkpoint.reading.batches import CheckpointBatches
from tidemill.checkpoint.reading.log_files import parse_offsets
from tidemill.checkpoint.reading.reader import CheckpointReader
from tidemill.checkpoint.upgrade.shadow import (
    PAGE,
    WHOLE,
    ShadowResult,
    Stretch,
    check_can_be_shadowed,
    shadow_of,
    sinks_left_out,
    tables_to_compare,
    with_tables_alone,
)
from tidemill.checkpoint.verbs.fork import fork_steps, plan_fork
from tidemill.checkpoint.verbs.generation_copy import logs_of_batch
from tidemill.engine.analyse import check_same_definition
from tidemill.engine.batch_rows import BatchesOf, columns_of, rows_touched
from tidemill.engine.half_written import FILES_GONE, Begun
from tidemill.engine.in_session import Meanwhile, run_in_session
from tidemill.engine.models import with_models
from tidemill.engine.quarantine_range import KEY
from tidemill.engine.row_difference import columns_by_name, comparable_reason, difference
from tidemill.engine.verb_process import run_part
from tidemill.errors import GateRefusedError, InternalError
from tidemill.ledger.commit_files import files_touched
from tidemill.ledger.difference import Difference
from tidemill.ledger.entry import Joined, LedgerEntry
from tidemill.ledger.read import open_table
from tidemill.names import ASIDE_OUTPUTS
from tidemill.sources.topic_facts import with_topics_if_told
from tidemill.spec.delta_sink import DeltaSink
from tidemill.spec.project import Pipeline
from tidemill.storage.store import Store

log = structlog.get_logger()


def shadow(spark: SparkSession, pipeline: Pipeline, stretch: Stretch) -> ShadowResult:
    """Repeat the batches of a stretch, and compare the results; change nothing of the pipeline.

    1. Delete the copy of a killed shadow run. 2. Make the copy, as for a fork. 3. Run each batch. 4. Compare.
       5. Delete the copy.

    Raises:
        UsageError: TIDE-CTRL-096, if the pipeline cannot have a shadow.
        GateRefusedError: TIDE-CTRL-095, if another generation is now live; -094, as `check_own_place`.
        Exception: The reason why a fork is impossible, as for the operation, or an error that would end a
            driver of this version.
    """
    store, tables = Store(pipeline.layout.root), tables_to_compare(pipeline, stretch.generation)
    check_can_be_shadowed(pipeline, tables)
    origin = with_models(with_tables_alone(pipeline, tables), store)
    copy = shadow_of(origin, tables)
    # 1.
    store.delete_folder(copy.layout.root)
    try:
        # 2.
        made = _fork(spark, store, (origin, copy), stretch)
        # 3.
        made.make_again()
        # 4.
        found = made.compared()
    finally:
        # 5.
        store.delete_folder(copy.layout.root)
    return found.model_copy(update=_beside(pipeline, tables, made, found))


def _fork(
    spark: SparkSession, store: Store, pipelines: tuple[Pipeline, Pipeline], stretch: Stretch
) -> Shadow:
    """Make the copy; append-only tables begin empty, because their rows do not affect the result."""
    origin, copy = pipelines
    live = CheckpointReader(store, origin.layout.checkpoint(origin.name, stretch.generation))
    # Read at once, because the stream runs on and old batches are purged.
    read = {n: store.read(f"{live.path}/offsets/{n}") for n in (stretch.after, *stretch.batches)}
    planned = {number: content for number, content in read.items() if content is not None}
    if planned.keys() != read.keys():
        raise _ask_again(origin, stretch, "batches were purged meanwhile")
    appended = [sink.table for sink in copy.spec.delta_sinks if _only_adds(origin, sink, stretch)]
    plan = plan_fork(store, pipelines, stretch.after, with_topics_if_told, appended)
    if plan["parent"] != stretch.generation:
        raise _ask_again(origin, stretch, f"{plan['parent']} is live by now")
    request = Request("fork", copy.name, f"shadow-{stretch.after}", "tidemill", "a shadow run")
    carry_out(
        store,
        copy.layout,
        procedure_of(request, plan, fork_steps(store, pipelines, request, plan)),
        lambda: None,
    )
    generation = read_or_create_current(store, copy.layout, copy.name).generation
    begun = {name: (table["from_version"], table["to"]) for name, table in plan["tables"].items()}
    return Shadow(spark, store, origin, copy, stretch, generation, live, planned, begun)


def _ask_again(origin: Pipeline, stretch: Stretch, because: str) -> GateRefusedError:
    return GateRefusedError(
        "TIDE-CTRL-095",
        "These batches cannot be made again and compared any more. Nothing was changed.",
        facts={
            "pipeline": origin.name,
            "generation": stretch.generation,
            "batches": f"{stretch.batches[0]}-{stretch.last}",
            "because": because,
        },
        fix="ask again, perhaps for fewer batches",
        runbook=PAGE,
    )


def _only_adds(origin: Pipeline, sink: DeltaSink, stretch: Stretch) -> bool:
    """Return True if neither version changes existing rows.

    The declared version may append where the live one has merged.
    """
    table = BatchesOf(origin.layout.table(sink.table), origin.name, stretch.generation, stretch.batches)
    return sink.mode == "append" and not files_touched(table.path, table.versions(), ["remove"])


def _beside(pipeline: Pipeline, tables: Collection[str], made: Shadow, found: ShadowResult) -> dict[str, Any]:
    """Return what is not compared: other sinks, and tables that only one of the versions writes."""
    new = {sink.table: (WHOLE,) for sink in pipeline.spec.delta_sinks if sink.table not in tables}
    gone = {name: (WHOLE,) for name in made.tables_written() if name not in {*tables, *new}}
    return {
        "added": {**found.added, **new},
        "dropped": {**found.dropped, **gone},
        "left_out": sinks_left_out(pipeline),
    }


@dataclass(frozen=True)
class Shadow:
    """A copy that begins at the start of the stretch.

    Args:
        spark: The session.
        store: The storage.
        origin: The pipeline, with only the sinks whose tables are compared.
        copy: The same pipeline in the shadow's folder.
        stretch: Batches to repeat.
        generation: Generation of the copy.
        live: The checkpoint with the original batches.
        planned: Content of `offsets/N` for each batch, and for the batch before the first, by number.
        begun: The version that was copied of each table, and the version of the copy.
    """

    spark: SparkSession
    store: Store
    origin: Pipeline
    copy: Pipeline
    stretch: Stretch
    generation: str
    live: CheckpointReader
    planned: Mapping[int, bytes]
    begun: Mapping[str, tuple[int, int]]

    def make_again(self) -> None:
        """Run each batch, with the joined tables of the original batch."""
        folder = self.copy.layout.checkpoint(self.copy.name, self.generation)
        for batch_id in self.stretch.batches:
            self._plan(folder, batch_id, self.planned[batch_id])
            told = self._entries.get(batch_id)
            joined = Joined() if told is None else told.joined
            self._bring_listings(joined)
            self._run(None if joined == Joined() else Begun(batch_id, joined))
            made = CheckpointBatches(self.store, folder)
            if (made.last_planned(), made.last_committed()) != (batch_id, batch_id):
                raise InternalError(
                    "TIDE-RUN-007",
                    "A shadow run did not make the batch that it was given, or made another one.",
                    facts={"pipeline": self.copy.name, "batch_id": batch_id, "made": made.last_committed()},
                    fix="report this with the part's log",
                )
            log.info("shadow", pipeline=self.copy.name, batch_id=batch_id, last=self.stretch.last)

    def _bring_listings(self, joined: Joined) -> None:
        """Copy the listings of joined folders to where the copy looks for its own."""
        for read in joined.files.values():
            content = self.store.read(self.origin.layout.listing(self.origin.name, read.digest))
            if content is not None:
                self.store.write(self.copy.layout.listing(self.copy.name, read.digest), content)

    def _run(self, begun: Begun | None) -> None:
        try:
            _, reporter = run_in_session(self.spark, self.copy, self.store, "stream", Meanwhile(begun=begun))
        except GateRefusedError as error:
            if error.error_id != FILES_GONE:
                raise
            because = "files that they were joined with were changed or removed"
            raise _ask_again(self.origin, self.stretch, because) from error
        reporter.state("stopped")

    def _plan(self, folder: str, batch_id: int, offsets: bytes) -> None:
        """Plan a batch in the copy without a commit; write the logs that it needs first."""
        for name, content in logs_of_batch(self.live, parse_offsets(batch_id, offsets)).items():
            self.store.write(f"{folder}/{name}", content)
        self.store.write(f"{folder}/offsets/{batch_id}", offsets)

    def compared(self) -> ShadowResult:
        """Return the differences between the repeated batches and the tables' rows of these batches."""
        added, dropped, found = {}, {}, []
        for name, (version, own) in self.begun.items():
            paths = (self.origin.layout.table(name), self.copy.layout.table(name))
            table, made = rows_touched(self.spark, self._batches(paths, version, own))
            there, now = _types(table), _types(made)
            if new := _only(now, there):
                added[name] = new
            if gone := _only(there, now):
                dropped[name] = gone
            common = columns_by_name(column for column in now if now[column] == there.get(column))
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
        )

    def tables_written(self) -> Collection[str]:
        """Return the tables that the version of the last batch wrote."""
        newest = max(self._entries.items(), default=None, key=lambda found: found[0])
        return () if newest is None or newest[1].shape is None else newest[1].shape.tables

    def _aside(self, output: str) -> list[Difference]:
        """Return the differences in the records that were set aside and their reasons.

        Time and run id are not compared, because they differ in each run.
        """
        name = self.origin.name
        paths = (self.origin.layout.aside(output, name), self.copy.layout.aside(output, name))
        there = [path for path in paths if open_table(path) is not None]
        if not there:
            return []
        columns = columns_of(self.spark, there[0])
        table, made = rows_touched(self.spark, self._batches(paths), columns)
        told: list[Column | str] = [*KEY, "file", "line", "value", comparable_reason()]
        return [difference(output, made.select(*told), table.select(*told), None)]

    @cached_property
    def _entries(self) -> dict[int, LedgerEntry]:
        """Return the ledger entries of the batches in the live tables."""
        tables = (self._batches((self.origin.layout.table(name), ""))[0] for name in self.begun)
        commits = (found for table in tables for found in table.commits())
        return {number: commit.entry for number, commit in commits if commit.entry is not None}

    def _batches(
        self, paths: tuple[str, str], before: int | None = None, own: int | None = None
    ) -> tuple[BatchesOf, BatchesOf]:
        name, batches, (table, copy) = self.origin.name, self.stretch.batches, paths
        return (
            BatchesOf(table, name, self.stretch.generation, batches, before),
            BatchesOf(copy, name, self.generation, batches, own),
        )


def _types(rows: DataFrame) -> dict[str, str]:
    return {field.name: field.dataType.simpleString() for field in rows.schema}


def _only(here: Mapping[str, str], there: Mapping[str, str]) -> tuple[str, ...]:
    """Return the columns of one side, with the type if the other side has a different one."""
    differing = (name for name in here if here[name] != there.get(name))
    return tuple(f"{name} {here[name]}" if name in there else name for name in differing)


def _act(spark: SparkSession, arguments: argparse.Namespace) -> dict[str, Any]:
    pipeline = check_same_definition(arguments)
    stretch = Stretch(arguments.generation, arguments.after, arguments.last)
    return shadow(spark, pipeline, stretch).model_dump(mode="json")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="tidemill.engine.shadow", description=__doc__)
    parser.add_argument("--definition", required=True)
    # Part of the name of the part, because another release or image may compute other rows for the same
    # batch.
    parser.add_argument("--release", required=True)
    parser.add_argument("--image", default="")
    parser.add_argument("--generation", required=True)
    parser.add_argument("--after", type=int, required=True)
    parser.add_argument("--last", type=int, required=True)
    sys.exit(run_part(parser, _act))
