"""Staged rows of a backfill: their completeness, and the request to publish them.

Each attempt stages into a separate folder, so that its rows cannot be confused with those of another attempt.
A publish request names the attempt that was reviewed, so rows that were recomputed since are never published
by it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime
from itertools import takewhile
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from tidemill.backfill.plan import BackfillPlan
from tidemill.backfill.progress import Progress
from tidemill.errors import DataError
from tidemill.ledger.entry import ExpectationCounts, LedgerEntry
from tidemill.ledger.read import Commit, History, open_table
from tidemill.ledger.standing import standing_commits
from tidemill.names import Layout
from tidemill.storage.store import Store

# State of a table's single publishing commit.
Publication = Literal["to do", "done", "taken back"]


class PublishRequest(BaseModel):
    """Request to publish the rows of one attempt.

    Args:
        attempt: The attempt.
        by: The requester.
        at: Time of the request.
    """

    model_config = ConfigDict(frozen=True)

    v: int = 1
    attempt: str
    by: str
    at: datetime


def attempt_of(progress: Progress) -> str:
    """Return the name of an attempt, which sorts by time, e.g. `20260301T101500123456Z`."""
    return f"{progress.begun_at.astimezone(UTC):%Y%m%dT%H%M%S%fZ}"


def transaction_of(plan: BackfillPlan, progress: Progress, table: str) -> tuple[str, int]:
    """Return Delta transaction id and version of a table's publishing commit; later attempts are higher."""
    microseconds = int(progress.begun_at.timestamp() * 1_000_000)
    return f"{plan.pipeline}:backfill-{plan.digest}:{table}", microseconds


def waits(plan: BackfillPlan, progress: Progress) -> bool:
    """Return True if all rows of an attempt are staged and not published."""
    return plan.publish == "later" and progress.staged_at is not None and progress.published is None


def next_steps(plan: BackfillPlan) -> list[str]:
    """Return the possible actions on staged rows, in readable form."""
    named = f"{plan.pipeline} --plan {plan.digest}"
    return [
        "Staged; the tables are as they were. To compare the rows with their records, to bring them into",
        "the tables, or to drop them:",
        *(f"  tidemill backfill {verb} {named}" for verb in ("verify", "publish", "abort")),
    ]


def staging_of(layout: Layout, plan: BackfillPlan, progress: Progress) -> Layout:
    """Return the folder of an attempt's staged rows."""
    return layout.staging(plan.pipeline, plan.digest, attempt_of(progress))


def ask_to_publish(store: Store, layout: Layout, plan: BackfillPlan, request: PublishRequest) -> None:
    """Store a request; the driver that carries the plan out follows it once all rows are staged."""
    path = layout.backfill_request(plan.pipeline, plan.digest)
    store.write_json(path, request.model_dump(mode="json"))


def is_asked_for(store: Store, layout: Layout, plan: BackfillPlan, progress: Progress) -> bool:
    """Return True if publishing this attempt was requested; False if the file is damaged."""
    try:
        document = store.read_json(layout.backfill_request(plan.pipeline, plan.digest))
        request = None if document is None else PublishRequest.model_validate(document)
    except (DataError, ValidationError):
        return False
    return request is not None and request.attempt == attempt_of(progress)


def drop_staged(store: Store, layout: Layout, plan: BackfillPlan, keep: str | None = None) -> None:
    """Delete staged rows of all attempts but `keep`, without the trash, because they can be recomputed."""
    folder = layout.staged(plan.pipeline, plan.digest)
    for attempt in store.list_names(folder):
        if attempt != keep:
            store.delete_folder(f"{folder}/{attempt}")


def drop_unfinished(path: str, done: Collection[int]) -> None:
    """Remove rows that an unfinished chunk has left in a staged table of quarantined or late records.

    The next attempt of the chunk may treat a record differently. Replaced rows need no cleanup, but appended
    rows would then contain both results, and publishing would use both.

    Args:
        path: Path of the table, which may not exist.
        done: Numbers of the finished chunks.
    """
    table = open_table(path)
    version = None if table is None else version_of_finished(History(path, table), done)
    if table is not None and version is not None:
        table.restore(version)


def version_of_finished(newest_first: Iterable[Commit], done: Collection[int]) -> int | None:
    """Return the version of a staged table with finished chunks only; None if it has no others.

    Args:
        newest_first: Commits of the table. Chunks are processed one after another.
        done: Numbers of the finished chunks.
    """
    standing = [(c.version, c.entry.chunk) for c in standing_commits(newest_first) if c.entry is not None]
    if all(chunk in done for _, chunk in standing):
        return None
    # Version 0 created the table.
    return next((version for version, chunk in standing if chunk in done), 0)


def publication(
    newest_first: Iterable[Commit], attempt: str, since: int, is_known: bool
) -> tuple[Publication, Commit | None]:
    """Return the state of the commit that publishes a table.

    Args:
        newest_first: Commits of the table.
        attempt: The attempt.
        since: Version of the table before the attempt was published.
        is_known: True if the table has its transaction. Delta would skip another commit with it, even if a
            RESTORE has undone the first one.
    """
    newer = takewhile(lambda commit: commit.version > since, standing_commits(newest_first))
    found = next((c for c in newer if c.entry is not None and c.entry.published == attempt), None)
    if found is not None:
        return "done", found
    return ("taken back" if is_known else "to do"), None


def published_entry(planned: LedgerEntry, staged: Sequence[LedgerEntry], attempt: str) -> LedgerEntry:
    """Return the ledger entry of the publishing commit: the plan, and the results of the chunks.

    Args:
        planned: Entry of the whole range.
        staged: Entries of the table's chunks, newest first; of a chunk that was computed twice, the newest
            counts.
        attempt: The attempt.
    """
    chunks = {entry.chunk: entry for entry in reversed(staged)}.values()
    poison = {record for entry in chunks for record in entry.poison_records or ()}
    counts = [entry.expectations for entry in chunks if entry.expectations is not None]
    untimed = [entry.no_event_time_rows for entry in chunks if entry.no_event_time_rows is not None]
    schemas = next((entry.source_schemas for entry in staged if entry.source_schemas), None)
    return planned.model_copy(
        update={
            "published": attempt,
            "source_schemas": schemas,
            "poison_records": tuple(sorted(poison)) or None,
            "expectations": _sum(counts) if counts else None,
            "no_event_time_rows": sum(untimed) if untimed else None,
        }
    )


def _sum(counts: Sequence[ExpectationCounts]) -> ExpectationCounts:
    names = sorted({name for one in counts for name in one.violations})
    return ExpectationCounts(
        checked=sum(one.checked for one in counts),
        dropped=sum(one.dropped for one in counts),
        quarantined=sum(one.quarantined for one in counts),
        violations={name: sum(one.violations.get(name, 0) for one in counts) for name in names},
    )
