"""The audit: `<root>/audit/`, one immutable entry per action, with who, why, before and after."""

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
        pipeline: Pipeline of the action; empty for an action on the whole storage root.
        request_id: Id of the request, which has one entry even if it was continued several times.
        at: Time when it began.
        before: Live record before the action; None if there was none.
        after: Live record after the action.
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
    """Write an entry; return False if this request already has one. Names sort by time."""
    request_id = check_request_id(entry.request_id)
    pipeline = check_pipeline_name(entry.pipeline) if entry.pipeline else ""
    name = f"{entry.at:%Y%m%dT%H%M%S.%fZ}-{pipeline}-{request_id}.json"
    return store.create_json(f"{layout.audit}/{name}", entry.model_dump(mode="json"))


def read_audit(
    store: Store, layout: Layout, pipeline: str | None = None, limit: int | None = None
) -> list[AuditEntry]:
    """Return the newest entries, of all pipelines or of one, newest first; without a limit, all of them."""
    names = sorted(store.list_names(layout.audit), reverse=True)
    wanted = [name for name in names if pipeline in (None, _pipeline_of(name))][:limit]
    documents = (store.read_json(f"{layout.audit}/{name}") for name in wanted)
    return [AuditEntry.model_validate(document) for document in documents if document is not None]


def _pipeline_of(name: str) -> str:
    """Return the part between time and request; neither times nor pipeline names contain a `-`."""
    return name.partition("-")[2].partition("-")[0]
