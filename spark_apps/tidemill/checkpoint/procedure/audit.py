"""The audit: `<root>/audit/`, one entry per action: who, why, before, after. Entries are never changed."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from tidemill.checkpoint.procedure.request import check_request_id
from tidemill.names import Layout, check_pipeline_name
from tidemill.storage.store import Store


class AuditEntry(BaseModel):
    """One action.

    Args:
        pipeline: Whose; empty for an action on the whole storage root.
        request_id: Names it; the same request leaves one entry, however often it was continued.
        at: When it began.
        before: What was live before; None if there was nothing.
        after: What is live now.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    v: int = 1
    verb: str
    pipeline: str = ""
    request_id: str
    by: str
    why: str
    at: datetime
    ended_at: datetime = Field(default_factory=lambda: datetime.now(UTC))
    plan: dict[str, Any] = {}
    before: dict[str, Any] | None = None
    after: dict[str, Any] | None = None


def write_audit(store: Store, layout: Layout, entry: AuditEntry) -> bool:
    """Leave an entry; False if this request left one before. Names sort by time."""
    request_id = check_request_id(entry.request_id)
    pipeline = check_pipeline_name(entry.pipeline) if entry.pipeline else ""
    name = f"{entry.at:%Y%m%dT%H%M%S.%fZ}-{pipeline}-{request_id}.json"
    return store.create_json(f"{layout.audit}/{name}", entry.model_dump(mode="json"))


def read_audit(
    store: Store, layout: Layout, pipeline: str | None = None, limit: int | None = None
) -> list[AuditEntry]:
    """The newest entries, or those of one pipeline, newest first; all without a limit."""
    names = sorted(store.list_names(layout.audit), reverse=True)
    wanted = [name for name in names if pipeline in (None, _pipeline_of(name))][:limit]
    documents = (store.read_json(f"{layout.audit}/{name}") for name in wanted)
    return [AuditEntry.model_validate(document) for document in documents if document is not None]


def _pipeline_of(name: str) -> str:
    """The part between moment and request: neither a moment nor a pipeline's name has a `-`."""
    return name.partition("-")[2].partition("-")[0]
