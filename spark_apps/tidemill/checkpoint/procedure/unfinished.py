"""The unfinished request of a pipeline, for which every other operation waits."""

from __future__ import annotations

from tidemill.checkpoint.procedure.journal import JournalEntry, unfinished_entries
from tidemill.errors import GateRefusedError
from tidemill.names import Layout
from tidemill.storage.store import Store


def unfinished(store: Store, layout: Layout, pipeline: str) -> JournalEntry | None:
    """Return the unfinished request; None if there is none."""
    entries = unfinished_entries(store, layout, pipeline)
    return entries[0] if entries else None


def check_nothing_else_unfinished(store: Store, layout: Layout, pipeline: str, request_id: str) -> None:
    """Raise an error if another request of the pipeline is unfinished.

    Raises:
        GateRefusedError: TIDE-CKPT-033, naming the other request and the command that completes it.
    """
    for entry in unfinished_entries(store, layout, pipeline):
        if entry.request_id != request_id:
            raise GateRefusedError(
                "TIDE-CKPT-033",
                "Another verb of this pipeline was begun and has not come to its end. Nothing was changed.",
                facts={
                    "pipeline": pipeline,
                    "unfinished": entry.request_id,
                    "by": entry.by,
                    "begun_at": entry.begun_at.isoformat(),
                    "done": entry.progress,
                },
                fix=f"complete it: {entry.command or entry.request_id}",
                runbook="unfinished-procedure",
            )
