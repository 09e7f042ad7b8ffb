"""`current.json`: which checkpoint generation is live, and why."""

from __future__ import annotations

from datetime import UTC, datetime

from pydantic import BaseModel, ConfigDict

from tidemill.errors import GateRefusedError
from tidemill.names import FIRST_GENERATION, Layout
from tidemill.storage.store import Store


class Current(BaseModel):
    """The live generation of a pipeline."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    v: int = 1
    pipeline: str
    generation: str
    since: datetime
    why: str


def read_or_create_current(store: Store, layout: Layout, pipeline: str) -> Current:
    """The live generation; the first start makes `g0001`.

    Raises:
        GateRefusedError: TIDE-CKPT-006, if the state folder is another pipeline's.
    """
    path = layout.current(pipeline)
    first = Current(
        pipeline=pipeline, generation=FIRST_GENERATION, since=datetime.now(UTC), why="first start"
    )
    store.create_json(path, first.model_dump(mode="json"))
    current = Current.model_validate(store.read_json(path))
    if current.pipeline != pipeline:
        raise GateRefusedError(
            "TIDE-CKPT-006",
            "The state folder belongs to another pipeline. Nothing was started, read or written.",
            facts={"pipeline": pipeline, "folder": layout.state(pipeline), "belongs_to": current.pipeline},
            fix="put the right folder back, or move this one away to start from starting_offsets",
            runbook="checkpoint-of-another-pipeline",
        )
    return current
