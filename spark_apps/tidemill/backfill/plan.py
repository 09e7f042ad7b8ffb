"""The plan of a backfill: the range to read and the rows to replace.

A plan is stored under its digest and never changed.
"""

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

# Hex digits of a digest; two plans of one pipeline collide once in 2**48.
DIGEST_DIGITS = 12

_BY_WORDS = {
    "record": "rows are replaced by the offsets of their records",
    "window": "rows are replaced by whole windows",
    "time": "rows are replaced by their time; the pipeline has never run live",
    "everything": "the table is replaced; the pipeline has never run live",
}


# Time of publication: after each chunk, or all at once on request.
Publish = Literal["now", "later"]


def hold_of(digest: str) -> str:
    """Return the id of the hold that the backfill of a pipeline without live runs takes."""
    return f"backfill-{digest}"


class TablePlan(BaseModel):
    """The changes to one table.

    Args:
        table: Its name.
        condition: Rows that are replaced; None for all, or if the offsets must be found first.
        record: Columns that identify a row's record, by lineage column; None if rows are not chosen by
            record.
    """

    model_config = ConfigDict(frozen=True)

    table: str
    condition: str | None = None
    record: dict[str, str] | None = None


class Part(BaseModel):
    """A chunk of time, with the fields that differ from the whole plan."""

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
        bounds: The requested range.
        by: Rule by which rows are chosen and replaced.
        live: Position of the live stream; None if it had never begun.
        start_offsets: First offsets read, for Kafka sources.
        end_offsets: End offsets: the seam, where the live stream continues, or the topic's end.
        topic_ids: Ids of the topics, if the broker reports them.
        archive: Part of the range that is read from the hub's archive; None without one.
        seams: Change from archive to hub in each partition, in readable form.
        source_version: Version of the table that is read, for Delta sources.
        condition: Condition of the decoded rows that take part; None for all.
        counted: Condition of those that are only in replaced windows; None without windows.
        find_offsets_by: Time column of the records whose offsets are searched first; all records between the
            first and the last one in the range are processed again.
        tables: The changes to each table.
        left_out: Sinks that a backfill does not write again.
        chunk: Size of the chunks, each of which is committed separately; None for all at once.
        parts: The chunks of time; chunks of records are split after the offsets are found.
        publish: `later` stages the rows first.
        whole: Digest of the whole plan, for a chunk.
        number: Index of the chunk, from 0, for a chunk.
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
        """Return the digest of all decisions; a chunk has the digest of the whole plan."""
        if self.whole is not None:
            return self.whole
        # Compatible with plans that were stored before chunks, archives and staged rows existed.
        without = {"chunk", "parts"} if self.chunk is None else set()
        without |= {"publish"} if self.publish == "now" else set()
        without |= {"archive", "seams"} if self.archive is None else set()
        text = json.dumps(self.model_dump(mode="json", exclude=without), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:DIGEST_DIGITS]

    @property
    def records(self) -> int | None:
        """Return the number of records to read; None if the source does not report it."""
        if self.start_offsets is None or self.end_offsets is None:
            return None
        return records_between(self.start_offsets, self.end_offsets)

    @property
    def at_seam(self) -> bool:
        """Return True if the range ends where the live stream continues."""
        return self.end_offsets is not None and self.live is not None and self.bounds.end_offsets is None

    def of_time(self, part: Part, number: int) -> BackfillPlan:
        """Return one chunk of time as a plan."""
        return self.model_copy(update={**dict(part), **self._chunk(number)})

    def of_records(self, start: Positions, end: Positions, number: int) -> BackfillPlan:
        """Return one chunk of records, with known offsets, as a plan."""
        # From here on it is a range of offsets, whose records existed when the offsets were found.
        found = {"start_offsets": start, "end_offsets": end, "find_offsets_by": None}
        bounds = Bounds(start_offsets=start, end_offsets=end)
        return self.model_copy(update={**found, "bounds": bounds, **self._chunk(number)})

    def _chunk(self, number: int) -> dict[str, object]:
        return {"chunk": None, "parts": (), "whole": self.digest, "number": number}

    def lines(self) -> list[str]:
        """Return the plan in readable form."""
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
        """Return the plan as plain data, with derived values."""
        told = {"digest": self.digest, "range": self.bounds.text(), "records": self.records}
        ranges = [part.bounds.text() for part in self.parts]
        # Without the archive's slices, of which there are as many as files, because Airflow stores this
        # document.
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
    """Store a plan for a driver; an existing one stays."""
    store.create_json(layout.backfill_plan(plan.pipeline, plan.digest), plan.model_dump(mode="json"))


def load_plan(store: Store, layout: Layout, pipeline: str, digest: str) -> BackfillPlan:
    """Return the plan with that digest.

    Raises:
        UsageError: TIDE-BACK-016, if there is none, or its file was changed.
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
    """Return the refusal of an invalid plan, because the run would differ from the approved plan."""
    return refused(
        "TIDE-BACK-016",
        pipeline,
        "This plan cannot be carried out.",
        {"plan": ascii(digest[:40])[1:-1], "because": because, **facts},
        f"plan again, and look at the new plan: tidemill backfill plan {pipeline} --from BEGIN --to END",
    )
