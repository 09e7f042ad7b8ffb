"""How a backfill is refused: before anything was read or written, with what to do instead."""

from __future__ import annotations

from tidemill.errors import UsageError


def refused(error_id: str, pipeline: str, problem: str, facts: dict[str, object], fix: str) -> UsageError:
    """The refusal; its page is `backfill`."""
    return UsageError(
        error_id,
        f"{problem} Nothing was read or written.",
        facts={"pipeline": pipeline, **facts},
        fix=fix,
        runbook="backfill",
    )
