"""`desired.json`: the state that an operator asked for. Without it, conf decides: a stream should run."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from tidemill.names import Layout
from tidemill.storage.store import Store


class Desired(BaseModel):
    """The desired state of a pipeline, with who asked for it, when and why.

    Args:
        state: Desired state. A `suspended` pipeline is stopped until a given time, or until an operator
            resumes it.
        by: Operator who asked.
        at: Time of writing. Driver exits before this time are ignored.
        asked_at: Time of the request, which may be much earlier because Airflow queues tasks. None if the
            document does not record it.
        reason: Reason.
        until: End of a suspension; None if only an operator ends it.
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
        """Return True if the pipeline should run at `now`."""
        return self.state == "running" or self.returned_at(now) is not None

    def returned_at(self, now: datetime) -> datetime | None:
        """Return the time when the suspension ended; None if it has not ended, or if there is none."""
        is_over = self.state == "suspended" and self.until is not None and self.until <= now
        return self.until if is_over else None

    @property
    def stands_since(self) -> datetime:
        """Return the time of the request; earlier requests are outdated."""
        return self.asked_at or self.at


def read_desired(store: Store, layout: Layout, pipeline: str) -> Desired | None:
    """Return the last request; None if there was none."""
    document = store.read_json(layout.desired(pipeline))
    return None if document is None else Desired.model_validate(document)


def write_desired(store: Store, layout: Layout, pipeline: str, desired: Desired) -> None:
    """Store the desired state."""
    store.write_json(layout.desired(pipeline), desired.model_dump(mode="json"))
