"""The live checkpoint generation and its history: `current/00000001.json`, `00000002.json` and so on.

The highest number is live; the others are the history. A change creates a new file with put-if-absent. So if
two operators change the generation at once, exactly one succeeds. This works on every store, while local
disks have no conditional update of a file.
"""

from __future__ import annotations

import json
import re
import uuid
from datetime import UTC, datetime

from pydantic import BaseModel, ConfigDict, Field

from tidemill.errors import GateRefusedError
from tidemill.ledger.entry import Shape
from tidemill.ledger.proof import Side
from tidemill.names import FIRST_GENERATION, GENERATION_PATTERN, Layout
from tidemill.storage.store import Store


class BaseTable(BaseModel):
    """A table at the beginning of a generation.

    Args:
        id: Delta's id of the table; a recreated table has another id.
        version: Version of the table when the generation began.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    id: str
    version: int


class Base(BaseModel):
    """The parent of a generation.

    Args:
        generation: Name of the parent.
        batch_id: Last batch that the generation shares with its parent; None if it shares none.
        lineage: Generations whose batches lead to this one, including the parent, each with its last such
            batch.
        tables: Each table as it was when the generation was made; None if the table did not exist.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    generation: str
    batch_id: int | None = None
    lineage: dict[str, int] = {}
    tables: dict[str, BaseTable | None] = {}


class Accepted(BaseModel):
    """A changed declaration and changed code that an operator has accepted for a generation."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    shape: Shape
    code: str


class Current(BaseModel):
    """One record of the live generation."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    v: int = 1
    number: int = 1
    pipeline: str
    generation: str
    since: datetime = Field(default_factory=lambda: datetime.now(UTC))
    why: str
    by: str = "tidemill"
    request_id: str | None = None
    base: Base | None = None
    accepted: Accepted | None = None

    @property
    def side(self) -> Side:
        """Return the generations whose batches lead to the live one."""
        lineage = {} if self.base is None else self.base.lineage
        return Side(self.pipeline, {**lineage, self.generation: None})


def read_current(store: Store, layout: Layout, pipeline: str) -> Current | None:
    """Return the live generation; None before the first start.

    Raises:
        GateRefusedError: TIDE-CKPT-006, if the state folder belongs to another pipeline.
    """
    names = store.list_names(layout.current(pipeline))
    return _read(store, layout, pipeline, names[-1]) if names else None


def read_history(store: Store, layout: Layout, pipeline: str) -> list[Current]:
    """Return all records, newest first."""
    names = store.list_names(layout.current(pipeline))
    return [_read(store, layout, pipeline, name) for name in reversed(names)]


def read_or_create_current(store: Store, layout: Layout, pipeline: str) -> Current:
    """Return the live generation; the first start creates `g0001`.

    Raises:
        GateRefusedError: TIDE-CKPT-006, if the state folder belongs to another pipeline.
    """
    if (current := read_current(store, layout, pipeline)) is not None:
        return current
    first = Current(pipeline=pipeline, generation=FIRST_GENERATION, why="first start")
    switch_generation(store, layout, first)
    return read_current(store, layout, pipeline) or first


def begin_anew(store: Store, layout: Layout, pipeline: str) -> Current:
    """Return a generation without planned batches, for a source that cannot be read again."""
    current = read_or_create_current(store, layout, pipeline)
    if not store.list_names(f"{layout.checkpoint(pipeline, current.generation)}/offsets"):
        return current
    name = next_generation(store, layout, pipeline)
    new = Current(
        pipeline=pipeline, number=current.number + 1, generation=name, why="its source cannot be read again"
    )
    switch_generation(store, layout, new)
    return read_current(store, layout, pipeline) or new


def switch_generation(store: Store, layout: Layout, new: Current) -> bool:
    """Make a generation the live one; return False if another process has taken `new.number` first."""
    path = f"{layout.current(new.pipeline)}/{new.number:08d}.json"
    return store.create_json(path, new.model_dump(mode="json"))


def claim_generation(store: Store, layout: Layout, pipeline: str, above: str = "") -> tuple[str, str]:
    """Create a checkpoint under a new query id; return its name, such as `g0002`, and the query id.

    The folder belongs to this caller only. If the caller dies or hangs while it fills the folder, no other
    process reuses it.

    Args:
        store: The storage.
        layout: Paths in the storage.
        pipeline: Name of the pipeline.
        above: A generation that tables already know; the new name must be higher.
    """
    while True:
        name = next_generation(store, layout, pipeline, above)
        query_id = str(uuid.uuid4())
        content = json.dumps({"id": query_id}).encode()
        if store.create(f"{layout.checkpoint(pipeline, name)}/metadata", content):
            return name, query_id


def next_generation(store: Store, layout: Layout, pipeline: str, above: str = "") -> str:
    """Return the name of a generation that no checkpoint and no record has used."""
    used = [record.generation for record in read_history(store, layout, pipeline)]
    found = [*used, above, *store.list_names(layout.state(pipeline))]
    newest = max((int(name[1:]) for name in found if re.fullmatch(GENERATION_PATTERN, name)), default=0)
    return f"g{newest + 1:04d}"


def _read(store: Store, layout: Layout, pipeline: str, name: str) -> Current:
    current = Current.model_validate(store.read_json(f"{layout.current(pipeline)}/{name}"))
    if current.pipeline != pipeline:
        raise GateRefusedError(
            "TIDE-CKPT-006",
            "The state folder belongs to another pipeline. Nothing was started, read or written.",
            facts={"pipeline": pipeline, "folder": layout.state(pipeline), "belongs_to": current.pipeline},
            fix="put the right folder back, or move this one away to start from starting_offsets",
            runbook="checkpoint-of-another-pipeline",
        )
    return current
