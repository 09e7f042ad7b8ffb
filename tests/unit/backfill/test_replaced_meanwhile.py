"""Staged rows are not put over those of a backfill that came after them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, write_deltalake

from tidemill.backfill.bounds import Bounds
from tidemill.backfill.plan import BackfillPlan, TablePlan, save_plan
from tidemill.backfill.progress import Found, Progress
from tidemill.backfill.replaced_meanwhile import check_not_replaced, replaced_by
from tidemill.errors import UsageError
from tidemill.ledger.entry import Code, LedgerEntry, OffsetRange
from tidemill.ledger.read import Commit
from tidemill.names import SOURCE_NAME, Layout
from tidemill.storage.store import Store

NOW = datetime(2026, 3, 1, 10, 15, tzinfo=UTC)
TABLE = "silver/o"


def plan_of_hours(first: int, last: int) -> BackfillPlan:
    day = datetime(2026, 1, 1, tzinfo=UTC)
    bounds = Bounds(start=day + timedelta(hours=first), end=day + timedelta(hours=last))
    return BackfillPlan(
        pipeline="p", definition="d", bounds=bounds, by="window", tables=(TablePlan(table=TABLE),)
    )


def entry_of(plan: BackfillPlan, offsets: tuple[int, int] | None = None) -> LedgerEntry:
    read = {} if offsets is None else {SOURCE_NAME: OffsetRange(start=at(offsets[0]), end=at(offsets[1]))}
    code = Code(tidemill="1", digest="d", spec="s")
    return LedgerEntry(
        pipeline="p", output=TABLE, mode="backfill", run_id="r", plan=plan.digest, sources=read, code=code
    )


def at(offset: int) -> dict[str, dict[str, int]]:
    return {"t": {"0": offset}}


STAGED, PROGRESS = plan_of_hours(2, 4), Progress(begun_at=NOW)
SAME_HOURS, HOURS_BEFORE = plan_of_hours(3, 5), plan_of_hours(0, 2)


@pytest.mark.parametrize(
    ("other", "minutes", "is_refused"),
    [
        (SAME_HOURS, 5, True),
        (SAME_HOURS, -5, False),
        (HOURS_BEFORE, 5, False),
        (STAGED, 5, False),
    ],
)
def test_a_newer_backfill_of_the_same_hours_is_found(
    other: BackfillPlan, minutes: int, is_refused: bool
) -> None:
    commit = Commit(3, NOW + timedelta(minutes=minutes), "WRITE", 1, entry_of(other))
    assert replaced_by(STAGED, PROGRESS, [commit], lambda _: other) == (other.digest if is_refused else None)


def test_a_plan_that_is_gone_may_have_been_about_any_row() -> None:
    commit = Commit(3, NOW, "WRITE", 1, entry_of(HOURS_BEFORE))
    assert replaced_by(STAGED, PROGRESS, [commit], lambda _: None) == HOURS_BEFORE.digest


def test_what_was_taken_back_stands_in_nobodys_way() -> None:
    commit = Commit(3, NOW, "WRITE", 1, entry_of(SAME_HOURS))
    restore = Commit(4, NOW, "RESTORE", None, None, 2)
    assert replaced_by(STAGED, PROGRESS, [restore, commit], lambda _: SAME_HOURS) is None


@pytest.mark.parametrize(("offsets", "is_refused"), [((5, 11), True), ((5, 10), False), ((20, 30), False)])
def test_records_are_compared_by_their_offsets(offsets: tuple[int, int], is_refused: bool) -> None:
    staged = STAGED.model_copy(update={"by": "record"})
    progress = Progress(begun_at=NOW, found=Found(start=at(10), end=at(20), seconds=0))
    commit = Commit(3, NOW, "WRITE", 1, entry_of(SAME_HOURS, offsets))
    assert (replaced_by(staged, progress, [commit], lambda _: SAME_HOURS) is not None) == is_refused


def test_publishing_is_refused_with_the_other_plan_by_name(tmp_path: Path) -> None:
    store, layout = Store(str(tmp_path)), Layout(str(tmp_path))
    progress = Progress(begun_at=datetime.now(UTC) - timedelta(minutes=1))
    check_not_replaced(store, layout, STAGED, progress)
    save_plan(store, layout, SAME_HOURS)
    told = CommitProperties(custom_metadata={"userMetadata": entry_of(SAME_HOURS).to_text()})
    write_deltalake(layout.table(TABLE), pa.table({"id": [1]}), commit_properties=told)
    with pytest.raises(UsageError) as refusal:
        check_not_replaced(store, layout, STAGED, progress)
    assert (refusal.value.error_id, refusal.value.facts["other_plan"]) == ("TIDE-BACK-065", SAME_HOURS.digest)
