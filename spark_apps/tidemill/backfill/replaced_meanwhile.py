"""Detect another backfill that has replaced rows of a range while this one's rows were staged."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import takewhile

from tidemill.backfill.plan import BackfillPlan, load_plan
from tidemill.backfill.progress import Progress
from tidemill.backfill.refusal import refused
from tidemill.errors import UsageError
from tidemill.ledger.entry import LedgerEntry, Positions
from tidemill.ledger.read import Commit, History, open_table
from tidemill.ledger.standing import standing_commits
from tidemill.names import SOURCE_NAME, Layout
from tidemill.storage.store import Store

# Returns a plan of the pipeline by its digest; None if its file is gone.
PlanOf = Callable[[str], BackfillPlan | None]


def check_not_replaced(store: Store, layout: Layout, plan: BackfillPlan, progress: Progress) -> None:
    """Raise if publishing would overwrite the rows of a newer backfill with older ones.

    Raises:
        UsageError: TIDE-BACK-065.
    """

    def plan_of(digest: str) -> BackfillPlan | None:
        try:
            return load_plan(store, layout, plan.pipeline, digest)
        except UsageError:
            return None

    for table in plan.tables:
        path = layout.table(table.table)
        other = replaced_by(plan, progress, History(path, open_table(path)), plan_of)
        if other is not None:
            raise refused(
                "TIDE-BACK-065",
                plan.pipeline,
                "Another backfill has replaced rows of this range since these were computed.",
                {"plan": plan.digest, "other_plan": other, "table": table.table},
                f"compute them anew: tidemill backfill apply {plan.pipeline} --plan {plan.digest} --anew",
            )


def replaced_by(
    plan: BackfillPlan, progress: Progress, newest_first: Iterable[Commit], plan_of: PlanOf
) -> str | None:
    """Return the digest of another plan that replaced rows of the range since an attempt began, or None.

    Args:
        plan: The plan whose rows are staged.
        progress: Progress of the attempt.
        newest_first: Commits of one of its tables.
        plan_of: Returns the other plan. If it returns None, the ranges are assumed to overlap.
    """
    newer = takewhile(lambda commit: commit.committed_at >= progress.begun_at, standing_commits(newest_first))
    for entry in (commit.entry for commit in newer):
        if entry is None or entry.pipeline != plan.pipeline or entry.plan in (None, plan.digest):
            continue
        if _may_overlap(plan, progress, entry, plan_of):
            return entry.plan
    return None


def _may_overlap(plan: BackfillPlan, progress: Progress, entry: LedgerEntry, plan_of: PlanOf) -> bool:
    if plan.by == "record":
        read, found = entry.sources.get(SOURCE_NAME), progress.found
        if read is None or not read.start or not read.end or found is None:
            return True
        return _meet((found.start, found.end), (read.start, read.end))
    other = None if entry.plan is None else plan_of(entry.plan)
    times, others = plan.bounds.times, None if other is None else other.bounds.times
    # Bounds of windows are window starts, so this compares the rows as well.
    return times is None or others is None or (times[0] < others[1] and others[0] < times[1])


def _meet(one: tuple[Positions, Positions], other: tuple[Positions, Positions]) -> bool:
    """Return True if two ranges of offsets share a record."""
    return any(
        max(first, other[0].get(topic, {}).get(partition, first))
        < min(one[1][topic][partition], other[1].get(topic, {}).get(partition, first))
        for topic, partitions in one[0].items()
        for partition, first in partitions.items()
    )
