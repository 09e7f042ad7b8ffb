"""A shadow: the declared version repeats the newest batches of a pipeline on a separate copy.

Each batch has its original offsets, watermark and clock, and starts from its original state. The tables have
the rows that the running version made of the same records, so any difference in the rows is the effect of the
change. Decisions are made here; `engine/shadow.py` acts.
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

# Reason why no batch can be compared, for a checkpoint without any.
NOTHING = "none is finished"

# Used in place of columns for a table that only one of the versions writes.
WHOLE = "the whole table"


@dataclass(frozen=True)
class Stretch:
    """The batches of a generation that a shadow repeats.

    Args:
        generation: Name of the generation.
        after: Batch after which the copy begins.
        last: Last repeated batch.
    """

    generation: str
    after: int
    last: int

    @property
    def batches(self) -> range:
        """Return the numbers of the repeated batches."""
        return range(self.after + 1, self.last + 1)


class ShadowResult(BaseModel):
    """The result of a shadow run.

    Args:
        pipeline: Pipeline of the batches.
        generation: Generation of the batches.
        first: First repeated batch.
        last: Last repeated batch.
        differences: One for each table, including tables of rejected and late records. Only the declared
            version makes missing rows; only the table has surplus rows.
        added: Columns that only the declared version writes, by table; with a type if the type changed.
        dropped: Columns that the declared version no longer writes, by table.
        left_out: Parts that are not compared, each with the reason.
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
        """Return True if the declared version makes the same rows in the same columns."""
        return all(found.is_none for found in self.differences) and not self.added and not self.dropped

    def without_rows(self) -> ShadowResult:
        """Return the result without row contents, for logs."""
        nothing: dict[str, tuple[str, ...]] = {"missing_rows": (), "surplus_rows": ()}
        differences = tuple(found.model_copy(update=nothing) for found in self.differences)
        return self.model_copy(update={"differences": differences})

    def lines(self) -> Iterator[str]:
        """Yield the result as readable lines."""
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
    """A layout with a separate root for the shadow's tables, while its inputs stay in the live root.

    Args:
        live: Layout of the copied pipeline.
        own_tables: Tables that the shadow writes.
    """

    live: Layout
    own_tables: frozenset[str]

    def table(self, table: str) -> str:
        """Return the path of the Delta table `<zone>/<table>`."""
        return super().table(table) if table in self.own_tables else self.live.table(table)

    def folder(self, path: str) -> str:
        """Return the folder that a pipeline file names."""
        return self.live.folder(path)

    def folder_pattern(self, path: str) -> str:
        """Return the pattern that Spark reads in such a folder."""
        return self.live.folder_pattern(path)


def tables_to_compare(pipeline: Pipeline, generation: str) -> list[str]:
    """Return the declared, existing tables that the version of the newest batch writes."""
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
    """Return the pipeline with a separate layout, only the given tables as sinks, and one batch per start."""
    layout = ShadowLayout(pipeline.layout.shadow(pipeline.name), pipeline.layout, frozenset(tables))
    alone = with_tables_alone(pipeline, tables)
    run = pipeline.spec.run.model_copy(update={"mode": "stream", "trigger_": Trigger("once")})
    return replace(
        alone,
        spec=alone.spec.model_copy(update={"run": run}),
        environment=replace(pipeline.environment, own_layout=layout),
    )


def with_tables_alone(pipeline: Pipeline, tables: Collection[str]) -> Pipeline:
    """Return the pipeline with no sinks except these tables."""
    sinks = [sink for sink in pipeline.spec.sinks if sink.delta is not None and sink.delta.table in tables]
    return replace(pipeline, spec=pipeline.spec.model_copy(update={"sinks": sinks}))


def sinks_left_out(pipeline: Pipeline) -> dict[str, str]:
    """Return the sinks that are not compared, each with the reason."""
    return {
        f"sinks[{place}] ({sink.kind})": "a shadow writes tables alone"
        for place, sink in enumerate(pipeline.spec.sinks)
        if sink.delta is None
    }


def check_can_be_shadowed(pipeline: Pipeline, tables: Collection[str]) -> None:
    """Check that a shadow can repeat the batches without touching other data.

    Args:
        pipeline: Pipeline to check.
        tables: Its existing tables.

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
    """Return the newest batches that can be repeated and compared, at most `wanted`.

    A foreign commit between them, such as a backfill's, would look like a difference.

    Args:
        live: Record of the live generation.
        held: Finished batches in its checkpoint whose previous offsets also exist, in ascending order.
        tables: Commits of each table, newest first.
        wanted: Maximum number of batches.

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
    """Return the batch number of a commit of this pipeline's generation; None for other commits."""
    entry = commit.entry
    if entry is None or commit.is_by_verb:
        return None
    return entry.batch_id if (entry.pipeline, entry.generation) == (pipeline, generation) else None


def _uninterrupted(commits: Iterable[Commit], live: Current, last: int, enough: int) -> int | None:
    """Return the oldest batch up to `last` that is followed only by later batches of the generation.

    None if every batch after `enough` qualifies.
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
