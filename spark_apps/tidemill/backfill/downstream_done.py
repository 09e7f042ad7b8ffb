"""Record of downstream pipelines that have been processed again, stored next to the plan.

It belongs to one run of the backfill. After another run, all downstream pipelines are stale again.
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
    """The finished pipelines.

    Args:
        behind: End of the backfill run after which they were processed.
        pipelines: Their names.
    """

    model_config = ConfigDict(frozen=True)

    v: int = 1
    behind: datetime
    pipelines: tuple[str, ...] = ()


def finished_at(plan: BackfillPlan, progress: Progress | None) -> datetime:
    """Return the end of a backfill.

    Raises:
        UsageError: TIDE-BACK-064, if it has not finished, because downstream rows would be made of the old
            rows.
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
    """Return the finished pipelines of this run; empty if the file is damaged or of an earlier run."""
    try:
        document = store.read_json(layout.backfill_downstream(plan.pipeline, plan.digest))
        done = None if document is None else DownstreamDone.model_validate(document)
    except (DataError, ValidationError):
        done = None
    return done if done is not None and done.behind == behind else DownstreamDone(behind=behind)


def keep_done(store: Store, layout: Layout, plan: BackfillPlan, done: DownstreamDone) -> None:
    """Store the finished pipelines."""
    path = layout.backfill_downstream(plan.pipeline, plan.digest)
    store.write_json(path, done.model_dump(mode="json"))
