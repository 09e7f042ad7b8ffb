"""Plans of operations in words: what they say must agree with itself."""

from __future__ import annotations

from typing import Any

import pytest

from tidemill.checkpoint.gate import TopicFacts
from tidemill.checkpoint.verbs.beginning import Beginning, ReadBefore, compare, left_and_repeated
from tidemill.control.procedures.plan_words import reset_lines, rewind_lines

TABLE = "bronze/orders"


def plan_of_reset(topic_id: str) -> dict[str, Any]:
    """Return a plan that resets to the earliest of 60 records; 50 were read from the topic with id `old`."""
    now = TopicFacts({"orders": {"0": 0}}, {"orders": {"0": 60}}, {"orders": topic_id})
    start = {"orders": {"0": 0}}
    rows = compare(Beginning(start), {TABLE: ReadBefore({"orders": {"0": 50}}, {"orders": "old"})}, [now])
    others = {"parent": "g0001", "absent": [], "start": start, "state_is_lost": False, "unanswered": ""}
    return {**left_and_repeated(rows), **others}


def test_records_that_were_read_are_read_again() -> None:
    assert "50 records are read again; append tables get their rows twice" in reset_lines(
        plan_of_reset("old")
    )


def test_no_record_of_a_recreated_topic_is_read_again_unless_it_was_copied() -> None:
    lines = reset_lines(plan_of_reset("new"))
    again = [line for line in lines if "read again" in line]
    assert len(again) == 1
    assert again[0].startswith("if records were copied from the old topic, up to 50 of them are read again")
    assert any("the topic was created again, or moved: all its records are read" in line for line in lines)


@pytest.mark.parametrize("may_differ", [False, True])
def test_a_rewind_of_windows_says_that_late_rows_may_differ(may_differ: bool) -> None:
    plan: dict[str, Any] = dict.fromkeys(("parent", "live"), "g0001")
    plan |= {"batch_id": 3, "batches_undone": [4, 5], "late_rows_may_differ": may_differ, "unanswered": ""}
    plan |= {"tables": {}, "read_by": {}, "wrong_files": [], "sent_again": []}
    assert any("records arrived late" in line for line in rewind_lines(plan)) == may_differ
