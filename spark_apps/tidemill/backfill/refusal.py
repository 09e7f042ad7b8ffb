"""Refusal of a backfill before anything is read or written, with a fix."""

from __future__ import annotations

from tidemill.errors import UsageError


def refused(error_id: str, pipeline: str, problem: str, facts: dict[str, object], fix: str) -> UsageError:
    """Return the refusal; its page is `backfill`."""
    return UsageError(
        error_id,
        f"{problem} Nothing was read or written.",
        facts={"pipeline": pipeline, **facts},
        fix=fix,
        runbook="backfill",
    )
