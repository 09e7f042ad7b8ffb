"""A backfill, decided: what is read and what is replaced. Kept under its digest, and carried out as kept."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from tidemill.backfill.bounds import Bounds
from tidemill.backfill.chunks import Chunk
from tidemill.backfill.live_side import LiveSide
from tidemill.backfill.refusal import refused
from tidemill.backfill.rule import By
from tidemill.capture.archive import Archive
from tidemill.errors import UsageError
from tidemill.ledger.entry import Positions
from tidemill.names import Layout
from tidemill.sources.offsets import records_between
from tidemill.storage.store import Store

# Hex digits of a digest: two plans of one pipeline are alike once in 2**48.
DIGEST_DIGITS = 12

_BY_WORDS = {
    "record": "rows are replaced by the offsets of their records",
    "window": "rows are replaced by whole windows",
    "time": "rows are replaced by their time; the pipeline has never run live",
    "everything": "the table is replaced; the pipeline has never run live",
}


# When rows come into the tables: as each chunk is done, or all at once, when a person says so.
Publish = Literal["now", "later"]


def hold_of(digest: str) -> str:
    """Id of the hold that the backfill of a pipeline that has never run takes."""
    return f"backfill-{digest}"


class TablePlan(BaseModel):
    """What happens to one table.

    Args:
        table: Its name.
        condition: Rows that are replaced; None for all, or where the offsets are found first.
        record: Columns that name a row's record, by lineage column; None where no rows are chosen by it.
    """

    model_config = ConfigDict(frozen=True)

    table: str
    condition: str | None = None
    record: dict[str, str] | None = None


class Part(BaseModel):
    """A chunk of time, and what differs in it from the whole plan."""

    model_config = ConfigDict(frozen=True)

    bounds: Bounds
    condition: str | None
    counted: str | None
    tables: tuple[TablePlan, ...]


class BackfillPlan(BaseModel):
    """One plan.

    Args:
        pipeline: Its name.
        definition: Digest of the declaration and of the code that it was made for.
        bounds: What was asked for.
        by: How rows are chosen and replaced.
        live: Where the live stream stood; None if it had never begun.
        start_offsets: First offsets read, for Kafka sources.
        end_offsets: End offsets: the seam, where the live stream goes on, or the topic's end.
        topic_ids: Ids of the topics, as far as the broker tells.
        archive: What of the range is read from the hub's archive; None without one.
        seams: Where each partition goes over from archive to hub, as a person reads it.
        source_version: Version of the table that is read, for Delta sources.
        condition: Which decoded rows take part; None for all.
        counted: Which of them are in no window but those that are replaced; None without windows.
        find_offsets_by: Time column of the records whose offsets are looked for first: all between the first
            and the last one in the range are processed again.
        tables: What happens to each table.
        left_out: Sinks that a backfill does not write again.
        chunk: Size of the chunks, each of which is committed on its own; None for all at once.
        parts: The chunks of time; those of records are cut once the offsets are found.
        publish: `later` stages the rows first.
        whole: Of a chunk, the digest of its plan.
        number: Of a chunk, its place among them, from 0.
    """

    model_config = ConfigDict(frozen=True)

    v: int = 1
    pipeline: str
    definition: str
    bounds: Bounds
    by: By
    live: LiveSide | None = None
    start_offsets: Positions | None = None
    end_offsets: Positions | None = None
    topic_ids: dict[str, str] = {}
    archive: Archive | None = None
    seams: tuple[str, ...] = ()
    source_version: int | None = None
    condition: str | None = None
    counted: str | None = None
    find_offsets_by: str | None = None
    tables: tuple[TablePlan, ...] = ()
    left_out: tuple[str, ...] = ()
    chunk: Chunk | None = None
    parts: tuple[Part, ...] = ()
    publish: Publish = "now"
    whole: str | None = Field(default=None, exclude=True)
    number: int | None = Field(default=None, exclude=True)

    @property
    def digest(self) -> str:
        """Of all that was decided; a chunk has that of the whole plan."""
        if self.whole is not None:
            return self.whole
        # As plans were kept before there were chunks, archives, and rows that are staged.
        without = {"chunk", "parts"} if self.chunk is None else set()
        without |= {"publish"} if self.publish == "now" else set()
        without |= {"archive", "seams"} if self.archive is None else set()
        text = json.dumps(self.model_dump(mode="json", exclude=without), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:DIGEST_DIGITS]

    @property
    def records(self) -> int | None:
        """Records to read; None if the source does not tell."""
        if self.start_offsets is None or self.end_offsets is None:
            return None
        return records_between(self.start_offsets, self.end_offsets)

    @property
    def at_seam(self) -> bool:
        """Whether the end is where the live stream goes on."""
        return self.end_offsets is not None and self.live is not None and self.bounds.end_offsets is None

    def of_time(self, part: Part, number: int) -> BackfillPlan:
        """One chunk of time as a plan."""
        return self.model_copy(update={**dict(part), **self._chunk(number)})

    def of_records(self, start: Positions, end: Positions, number: int) -> BackfillPlan:
        """One chunk of records as a plan, whose offsets are found."""
        # A range of offsets from now on: each of its records was there when they were found.
        found = {"start_offsets": start, "end_offsets": end, "find_offsets_by": None}
        bounds = Bounds(start_offsets=start, end_offsets=end)
        return self.model_copy(update={**found, "bounds": bounds, **self._chunk(number)})

    def _chunk(self, number: int) -> dict[str, object]:
        return {"chunk": None, "parts": (), "whole": self.digest, "number": number}

    def lines(self) -> list[str]:
        """The plan as a person reads it."""
        lines = [f"Backfill of {self.pipeline}, plan {self.digest}", f"  range     {self.bounds.text()}"]
        if self.records is not None:
            until = "where the live stream goes on" if self.at_seam else "the end of the range"
            lines.append(f"  read      {self.records} records, up to {until}")
        lines += [f"  seam      {seam}" for seam in self.seams]
        if self.source_version is not None:
            lines.append(f"  read      the source table at version {self.source_version}")
        if self.find_offsets_by is not None:
            lines.append(
                f"  records   from the first to the last whose `{self.find_offsets_by}` is in the range"
            )
        else:
            lines.append(f"  rows      {self.condition or 'all that are read'}")
        lines.append(f"  rule      {_BY_WORDS[self.by]}")
        if self.chunk is not None:
            lines.append(f"  chunks    {_chunks(self, self.chunk)}")
        for table in self.tables:
            lines.append(f"  replace   {table.table}{_where(self, table)}")
        if self.publish == "later":
            lines.append("  publish   later: the rows are staged, and come into each table in one commit")
        lines += [f"  left out  {name}: not sent again" for name in self.left_out]
        return lines

    def as_document(self) -> dict[str, Any]:
        """The plan as plain data, with what it comes to."""
        told = {"digest": self.digest, "range": self.bounds.text(), "records": self.records}
        ranges = [part.bounds.text() for part in self.parts]
        # Not the slices, of which there are as many as files: Airflow keeps this document.
        plan = self.model_dump(mode="json", exclude={"archive"})
        return {**told, "at_seam": self.at_seam, **plan, "parts": ranges}


def _where(plan: BackfillPlan, table: TablePlan) -> str:
    if table.condition is not None:
        return f" where {table.condition}"
    return ": the rows of these records" if plan.find_offsets_by is not None else ": all rows"


def _chunks(plan: BackfillPlan, chunk: Chunk) -> str:
    if chunk.records is None:
        each = f", each of which reads all {plan.records} records" if plan.records is not None else ""
        return f"{len(plan.parts)}, cut at multiples of {chunk.text()} or where windows begin{each}"
    at_most = -(-(plan.records or 0) // chunk.records) or 1
    return f"of {chunk.text()}: {'at most ' if plan.find_offsets_by else ''}{at_most}"


def save_plan(store: Store, layout: Layout, plan: BackfillPlan) -> None:
    """Keep a plan, for a driver to carry out; kept before is kept."""
    store.create_json(layout.backfill_plan(plan.pipeline, plan.digest), plan.model_dump(mode="json"))


def load_plan(store: Store, layout: Layout, pipeline: str, digest: str) -> BackfillPlan:
    """The plan of that digest.

    Raises:
        UsageError: TIDE-BACK-016, if there is none, or its file says something else.
    """
    named = re.fullmatch(rf"[0-9a-f]{{{DIGEST_DIGITS}}}", digest) is not None
    document = store.read_json(layout.backfill_plan(pipeline, digest)) if named else None
    plan = None if document is None else BackfillPlan.model_validate(document)
    if plan is None or plan.digest != digest:
        raise plan_is_void(
            pipeline, digest, "there is no plan of this digest" if plan is None else "its file was changed"
        )
    return plan


def plan_is_void(pipeline: str, digest: str, because: str, **facts: object) -> UsageError:
    """The refusal of a plan that does not hold any more: what was approved is not what would run."""
    return refused(
        "TIDE-BACK-016",
        pipeline,
        "This plan cannot be carried out.",
        {"plan": ascii(digest[:40])[1:-1], "because": because, **facts},
        f"plan again, and look at the new plan: tidemill backfill plan {pipeline} --from BEGIN --to END",
    )
