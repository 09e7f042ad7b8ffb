"""A shadow: the declared version makes newest batches of a pipeline again, on a copy that lies aside.

Each with its offsets, its watermark and its clock, from the state that it began with. So what the tables have
of these batches is what the version in use made of the same records, and rows that differ are the change.
Decided here; `engine/shadow.py` acts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pydantic import BaseModel, ConfigDict

from tidemill.checkpoint.current import Current
from tidemill.checkpoint.own_place import check_own_place
from tidemill.errors import GateRefusedError, UsageError
from tidemill.ledger.difference import Difference
from tidemill.ledger.read import Commit, History, open_table
from tidemill.names import Layout, plain_parts
from tidemill.spec.files_place import overlap
from tidemill.spec.project import Pipeline
from tidemill.spec.sources import Source
from tidemill.spec.trigger import Trigger

PAGE = "shadow-run"

# Why no batch can be compared, of a checkpoint without any.
NOTHING = "none is finished"

# In the place of columns, of a table that only one of the versions writes.
WHOLE = "the whole table"


@dataclass(frozen=True)
class Stretch:
    """Batches of a generation that are made again.

    Args:
        generation: Whose.
        after: Batch that the copy begins after.
        last: The last one.
    """

    generation: str
    after: int
    last: int

    @property
    def batches(self) -> range:
        """Their numbers."""
        return range(self.after + 1, self.last + 1)


class ShadowResult(BaseModel):
    """What came of it.

    Args:
        pipeline: Whose batches.
        generation: Whose batches.
        first: Number of the first one.
        last: Number of the last one.
        differences: One for each table, and for each that takes records set aside. Missing rows are those
            that only the declared version makes, surplus rows those that only the table has.
        added: Columns that only the declared version writes, by table; with a type, if that is what changed.
        dropped: Columns that it does not write any more, by table.
        left_out: What is not compared, and why.
    """

    model_config = ConfigDict(frozen=True)

    pipeline: str
    generation: str
    first: int
    last: int
    differences: tuple[Difference, ...]
    added: Mapping[str, tuple[str, ...]] = {}
    dropped: Mapping[str, tuple[str, ...]] = {}
    left_out: Mapping[str, str] = {}

    @property
    def is_same(self) -> bool:
        """Whether the declared version makes the same rows in the same columns."""
        return all(found.is_none for found in self.differences) and not self.added and not self.dropped

    def without_rows(self) -> ShadowResult:
        """The same without what the rows hold, for logs."""
        nothing: dict[str, tuple[str, ...]] = {"missing_rows": (), "surplus_rows": ()}
        differences = tuple(found.model_copy(update=nothing) for found in self.differences)
        return self.model_copy(update={"differences": differences})

    def lines(self) -> Iterator[str]:
        """As a person reads it."""
        batches = f"batch {self.first}" if self.first == self.last else f"batches {self.first}-{self.last}"
        yield f"{self.pipeline}: {batches} of {self.generation}, made again by the declared version"
        for found in self.differences:
            if found.is_none:
                yield f"  same      {found.name}: {found.rows} rows"
                continue
            only = f"{found.missing} of them not in the table, {found.surplus} in the table alone"
            yield f"  differs   {found.name}: {found.rows} rows made, {only}"
            yield from (f"    now   {row}" for row in found.missing_rows)
            yield from (f"    table {row}" for row in found.surplus_rows)
        yield from (f"  new       {table}: {', '.join(names)}" for table, names in self.added.items())
        yield from (f"  gone      {table}: {', '.join(names)}" for table, names in self.dropped.items())
        yield from (f"  left out  {name}: {reason}" for name, reason in self.left_out.items())


@dataclass(frozen=True)
class ShadowLayout(Layout):
    """A root of its own for what a shadow writes; what it reads lies where it always does.

    Args:
        live: Of the pipeline that is copied.
        own_tables: Tables that the shadow writes.
    """

    live: Layout
    own_tables: frozenset[str]

    def table(self, table: str) -> str:
        """Delta table `<zone>/<table>`."""
        return super().table(table) if table in self.own_tables else self.live.table(table)

    def folder(self, path: str) -> str:
        """Folder that a pipeline file names."""
        return self.live.folder(path)

    def folder_pattern(self, path: str) -> str:
        """Return what Spark reads of such a folder."""
        return self.live.folder_pattern(path)


def tables_to_compare(pipeline: Pipeline, generation: str) -> list[str]:
    """Tables that are declared, are there, and are written by the version that made the newest batch."""
    tables = [sink.table for sink in pipeline.spec.delta_sinks]
    opened = {table: open_table(pipeline.layout.table(table)) for table in tables}
    there = {table: found for table, found in opened.items() if found is not None}
    for table, found in there.items():
        for commit in History(pipeline.layout.table(table), found):
            if own_batch(commit, pipeline.name, generation) is None or commit.entry is None:
                continue
            shape = commit.entry.shape
            return [table for table in there if shape is None or table in shape.tables]
    return list(there)


def shadow_of(pipeline: Pipeline, tables: Collection[str]) -> Pipeline:
    """The pipeline with a place of its own, some of its tables and no other sink; one batch at each start."""
    layout = ShadowLayout(pipeline.layout.shadow(pipeline.name), pipeline.layout, frozenset(tables))
    alone = with_tables_alone(pipeline, tables)
    run = pipeline.spec.run.model_copy(update={"mode": "stream", "trigger_": Trigger("once")})
    return replace(
        alone,
        spec=alone.spec.model_copy(update={"run": run}),
        environment=replace(pipeline.environment, own_layout=layout),
    )


def with_tables_alone(pipeline: Pipeline, tables: Collection[str]) -> Pipeline:
    """The pipeline as it is, with no sink but these tables."""
    sinks = [sink for sink in pipeline.spec.sinks if sink.delta is not None and sink.delta.table in tables]
    return replace(pipeline, spec=pipeline.spec.model_copy(update={"sinks": sinks}))


def sinks_left_out(pipeline: Pipeline) -> dict[str, str]:
    """Sinks that are not compared, and why."""
    return {
        f"sinks[{place}] ({sink.kind})": "a shadow writes tables alone"
        for place, sink in enumerate(pipeline.spec.sinks)
        if sink.delta is None
    }


def check_can_be_shadowed(pipeline: Pipeline, tables: Collection[str]) -> None:
    """See that its batches can be made again aside, without touching what is not the shadow's own.

    Args:
        pipeline: Whose.
        tables: Those of its tables that there are.

    Raises:
        UsageError: TIDE-CTRL-096.
        GateRefusedError: TIDE-CTRL-094, if a link is in the shadow's place.
    """
    check_own_place(pipeline.layout.shadow(pipeline.name), PAGE)
    spec = pipeline.spec
    reasons = [] if spec.is_replayable else ["its source cannot be read again"]
    unbatched = spec.run.is_without_batches(spec.run.mode)
    reasons += ["it writes rows as they come, without batches"] if unbatched else []
    reasons += [] if tables else ["none of its sinks is a table that is there"]
    for stream in spec.streams.values():
        reasons += _why_not_read(pipeline, stream.source)
    if reasons:
        raise UsageError(
            "TIDE-CTRL-096",
            "This pipeline can have no shadow. Nothing was changed.",
            facts={"pipeline": pipeline.name, "because": "; ".join(reasons)},
            fix="compare a range of it instead, where it can be backfilled: "
            f"tidemill backfill verify {pipeline.name} --from BEGIN --to END",
            runbook=PAGE,
        )


def _why_not_read(pipeline: Pipeline, source: Source) -> list[str]:
    if source.is_kafka:
        grouped = any(name.endswith("group.id") for name in source.chosen.options)
        return ["its shadow would be in the same consumer group"] if grouped else []
    if source.files is None:
        return []
    here = plain_parts(pipeline.layout.shadow(pipeline.name))
    lies_there = overlap(pipeline.layout.folder_parts(source.files.path), here)
    return ["its files lie where its shadow would"] if lies_there else []


def choose_stretch(
    live: Current, held: Sequence[int], tables: Mapping[str, Iterable[Commit]], wanted: int
) -> Stretch:
    """The newest batches that can be made again and compared: as many as are wanted, or fewer.

    A commit of anyone else, such as a backfill's, between them would be taken for a difference.

    Args:
        live: Of whose generation.
        held: Finished batches that its checkpoint holds, with the offsets of the one before, rising.
        tables: Commits of each table, newest first.
        wanted: How many.

    Raises:
        GateRefusedError: TIDE-CTRL-095, if there is none.
    """
    last = held[-1] if held else -1
    limits = {"it has no batch before": held[0]} if held else {}
    if live.base is not None and live.base.batch_id is not None:
        limits["the generation has made no batch of its own since it began"] = live.base.batch_id
    for name, commits in tables.items():
        if (number := _uninterrupted(commits, live, last, last - wanted)) is not None:
            limits[f"another commit came before batch {number} in {name}"] = number
    after = max([last - wanted, *limits.values()])
    if not held or after >= last:
        raise GateRefusedError(
            "TIDE-CTRL-095",
            "No batch can be made again and compared. Nothing was changed.",
            facts={
                "pipeline": live.pipeline,
                "generation": live.generation,
                "last_batch": last,
                "because": next((why for why, number in limits.items() if number >= last), NOTHING),
            },
            fix="wait for the next batch, and ask again",
            runbook=PAGE,
        )
    return Stretch(live.generation, after, last)


def own_batch(commit: Commit, pipeline: str, generation: str) -> int | None:
    """Number of the batch that a commit is, of a generation of a pipeline; None if it is something else."""
    entry = commit.entry
    if entry is None or commit.is_by_verb:
        return None
    return entry.batch_id if (entry.pipeline, entry.generation) == (pipeline, generation) else None


def _uninterrupted(commits: Iterable[Commit], live: Current, last: int, enough: int) -> int | None:
    """The oldest batch up to `last` with nothing but later ones of the generation after it.

    None if nothing stands in the way of beginning after `enough`.
    """
    oldest: int | None = None
    for commit in commits:
        number = own_batch(commit, live.pipeline, live.generation)
        if number is not None and number <= enough:
            return None
        if number is not None and number <= last:
            oldest = number
        elif number is None and oldest is not None:
            return oldest
    return oldest
