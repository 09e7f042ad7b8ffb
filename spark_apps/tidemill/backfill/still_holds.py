"""Check that a plan is still valid, so that only the approved plan runs."""

from __future__ import annotations

from tidemill.backfill.live_side import read_live_side
from tidemill.backfill.other_writers import other_writers
from tidemill.backfill.plan import BackfillPlan, hold_of, plan_is_void
from tidemill.backfill.positions import check_retention, look_up
from tidemill.backfill.rule import check_others
from tidemill.capture.archive import Archive
from tidemill.checkpoint.holds import read_holds
from tidemill.ledger.entry import Positions
from tidemill.sources.topic_facts import ask_topics
from tidemill.spec.project import Pipeline
from tidemill.storage.store import Store


def check_still_holds(store: Store, pipeline: Pipeline, plan: BackfillPlan) -> None:
    """Raise if the basis of a plan has changed; called before each commit.

    Args:
        store: The storage.
        pipeline: The pipeline as currently declared.
        plan: The plan.

    Raises:
        UsageError: TIDE-BACK-016; TIDE-BACK-015, if another pipeline writes the tables now.
        GateRefusedError: If checkpoint and tables do not belong together.
    """
    if pipeline.definition_digest != plan.definition:
        raise _void(
            plan, "declaration, code or environment have changed since", now=pipeline.definition_digest
        )
    own = hold_of(plan.digest)
    holds = [hold.id for hold in read_holds(store, pipeline.layout, pipeline.name) if hold.id != own]
    if holds:
        raise _void(plan, "a verb, or a person, holds the pipeline", hold=", ".join(holds))
    live = read_live_side(store, pipeline)
    before, now = (None if side is None else side.generation for side in (plan.live, live))
    if before != now:
        raise _void(plan, "the pipeline's checkpoint is another one by now", before=before, now=now)
    if live is not None and plan.live is not None and (live.batch_id or 0) < (plan.live.batch_id or 0):
        raise _void(plan, "the live stream was taken back", before=plan.live.batch_id, now=live.batch_id)
    check_others(pipeline, other_writers(pipeline), plan.by)


def records_there(pipeline: Pipeline, plan: BackfillPlan) -> Positions | None:
    """Return the first offsets to read: the plan's, or the broker's oldest records of a time range.

    Raises:
        UsageError: TIDE-BACK-008 or -016, if the broker no longer has the records, or has others.
        UnavailableError: If the broker does not answer.
    """
    if plan.start_offsets is None or plan.end_offsets is None:
        return None
    found = ask_topics(pipeline)
    for topic, known in plan.topic_ids.items():
        if found.ids.get(topic, known) != known:
            raise _void(plan, "a topic was deleted and made again", topic=topic)
    start = {topic: dict(partitions) for topic, partitions in plan.start_offsets.items()}
    if plan.archive is not None:
        _check_hub_part(plan, plan.archive, found.oldest)
        return start
    for topic, partitions in start.items():
        for partition, offset in partitions.items():
            oldest = found.oldest.get(topic, {}).get(partition)
            if offset < plan.end_offsets[topic][partition] and (oldest is None or oldest > offset):
                place = f"{topic}-{partition}"
                if oldest is None or plan.bounds.times is None:
                    raise _void(plan, "the broker no longer has its records", partition=place, oldest=oldest)
                # In a range of time, the lost record may be older than the range; the remaining ones decide.
                partitions[partition] = min(oldest, plan.end_offsets[topic][partition])
    if plan.by == "window":
        check_retention(pipeline, look_up(pipeline, plan.bounds))
    return start


def _check_hub_part(plan: BackfillPlan, archive: Archive, oldest: Positions) -> None:
    """Raise if the hub has lost a part that must be read from it, because the range would have a gap.

    The archive's part is counted when it is read (`sources/archived_events.py`).
    """
    for topic, partitions in archive.from_hub(plan.start_offsets or {}).items():
        for partition, offset in partitions.items():
            end, first = (plan.end_offsets or {})[topic][partition], oldest.get(topic, {}).get(partition)
            if offset < end and (first is None or first > offset):
                place = f"{topic}-{partition}"
                raise _void(plan, "the hub no longer has its part of it", partition=place, oldest=first)


def _void(plan: BackfillPlan, because: str, **facts: object) -> Exception:
    return plan_is_void(plan.pipeline, plan.digest, because, **facts)
