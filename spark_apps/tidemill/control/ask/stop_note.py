"""Notes that a bounded run was stopped on request, so that its end is not retried."""

from __future__ import annotations

from datetime import UTC, datetime

from pydantic import BaseModel, ConfigDict, Field

from tidemill.names import Layout
from tidemill.storage.store import Store


class StopNote(BaseModel):
    """The requester of a stop, with time and reason."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    v: int = 1
    by: str
    why: str = ""
    at: datetime = Field(default_factory=lambda: datetime.now(UTC))

    @property
    def words(self) -> str:
        """Return the note in a few words."""
        return f"stopped by {self.by}" + (f": {self.why}" if self.why else "")


def read_stop_note(store: Store, layout: Layout, pipeline: str, run_id: str) -> StopNote | None:
    """Return the stop note of a run; None if it was not stopped."""
    document = store.read_json(layout.stop_note(pipeline, run_id))
    return None if document is None else StopNote.model_validate(document)
