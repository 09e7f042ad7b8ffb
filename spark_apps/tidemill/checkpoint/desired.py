"""`desired.json`: what a person asked for. Without it, conf decides: a stream should run."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from tidemill.names import Layout
from tidemill.storage.store import Store


class Desired(BaseModel):
    """Whether a pipeline should run, who said so, when and why."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    v: int = 1
    state: Literal["running", "stopped"]
    by: str
    at: datetime = Field(default_factory=lambda: datetime.now(UTC))
    reason: str = ""


def read_desired(store: Store, layout: Layout, pipeline: str) -> Desired | None:
    """What was last asked for; None if nobody asked."""
    document = store.read_json(layout.desired(pipeline))
    return None if document is None else Desired.model_validate(document)


def write_desired(store: Store, layout: Layout, pipeline: str, desired: Desired) -> None:
    """Ask for a state."""
    store.write_json(layout.desired(pipeline), desired.model_dump(mode="json"))
