"""`desired.json`: what a person asked for. Without it, conf decides: a stream should run."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from tidemill.names import Layout
from tidemill.storage.store import Store


class Desired(BaseModel):
    """Whether a pipeline should run, who said so, when and why.

    Args:
        state: What should be. `suspended` is stopped until a moment, or until someone resumes it.
        by: Who asked.
        at: When it was written. Ends of drivers before that do not count any more.
        asked_at: When it was asked, which may be long before: Airflow queues. None in a document that does
            not tell.
        reason: Why.
        until: When a suspension ends by itself; None: only when someone ends it.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    v: int = 1
    state: Literal["running", "stopped", "suspended"]
    by: str
    at: datetime = Field(default_factory=lambda: datetime.now(UTC))
    asked_at: datetime | None = None
    reason: str = ""
    until: AwareDatetime | None = None

    def runs(self, now: datetime) -> bool:
        """Whether the pipeline should run."""
        return self.state == "running" or self.returned_at(now) is not None

    def returned_at(self, now: datetime) -> datetime | None:
        """When a suspension ended by itself; None if it has not, or if this is none."""
        is_over = self.state == "suspended" and self.until is not None and self.until <= now
        return self.until if is_over else None

    @property
    def stands_since(self) -> datetime:
        """What was asked before this is out of date."""
        return self.asked_at or self.at


def read_desired(store: Store, layout: Layout, pipeline: str) -> Desired | None:
    """What was last asked for; None if nobody asked."""
    document = store.read_json(layout.desired(pipeline))
    return None if document is None else Desired.model_validate(document)


def write_desired(store: Store, layout: Layout, pipeline: str, desired: Desired) -> None:
    """Ask for a state."""
    store.write_json(layout.desired(pipeline), desired.model_dump(mode="json"))
