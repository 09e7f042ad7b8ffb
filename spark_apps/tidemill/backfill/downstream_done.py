"""Which pipelines behind a backfill have been processed again: kept beside its plan, one after the other.

It counts for one end of the backfill. Once the backfill has been carried out again, everything behind it is
stale again.
"""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel, ConfigDict, ValidationError

from tidemill.backfill.plan import BackfillPlan
from tidemill.backfill.progress import Progress
from tidemill.errors import DataError, UsageError
from tidemill.names import Layout
from tidemill.storage.store import Store


class DownstreamDone(BaseModel):
    """What is done.

    Args:
        behind: When the backfill had finished behind which they were processed.
        pipelines: Their names.
    """

    model_config = ConfigDict(frozen=True)

    v: int = 1
    behind: datetime
    pipelines: tuple[str, ...] = ()


def finished_at(plan: BackfillPlan, progress: Progress | None) -> datetime:
    """When a backfill has finished.

    Raises:
        UsageError: TIDE-BACK-064, if it has not: what is behind it would be made of the old rows.
    """
    if progress is not None and progress.finished_at is not None:
        return progress.finished_at
    step = "publish" if progress is not None and progress.staged_at is not None else "apply"
    raise UsageError(
        "TIDE-BACK-064",
        "This backfill has not finished: what is behind it would be made of the old rows. Nothing was done.",
        facts={"pipeline": plan.pipeline, "plan": plan.digest},
        fix=f"tidemill backfill {step} {plan.pipeline} --plan {plan.digest}",
        runbook="backfill",
    )


def read_done(store: Store, layout: Layout, plan: BackfillPlan, behind: datetime) -> DownstreamDone:
    """What is done behind this end of a backfill; nothing where the file is damaged, or of an earlier end."""
    try:
        document = store.read_json(layout.backfill_downstream(plan.pipeline, plan.digest))
        done = None if document is None else DownstreamDone.model_validate(document)
    except (DataError, ValidationError):
        done = None
    return done if done is not None and done.behind == behind else DownstreamDone(behind=behind)


def keep_done(store: Store, layout: Layout, plan: BackfillPlan, done: DownstreamDone) -> None:
    """Keep what is done."""
    path = layout.backfill_downstream(plan.pipeline, plan.digest)
    store.write_json(path, done.model_dump(mode="json"))
