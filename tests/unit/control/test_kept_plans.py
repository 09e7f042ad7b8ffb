"""Plans of operations from the audit, in readable form."""

from __future__ import annotations

from typing import Any

import pytest

from tidemill.control.procedures.parts import PROCEDURES
from tidemill.control.procedures.plan_words import WORDS, kept_lines


def test_a_plan_is_told_as_it_was_shown() -> None:
    assert kept_lines("acknowledge", {"changed": {"code": "another"}}) == ["code: another"]


def test_each_verb_that_has_a_plan_has_words_for_it() -> None:
    assert set(PROCEDURES) <= set(WORDS)


@pytest.mark.parametrize("verb", ["rewind", "restore", "reset", "prune", "backfill publish"])
@pytest.mark.parametrize("plan", [{}, {"tables": []}, {"parent": 3, "partitions": None, "moves": [1]}])
def test_a_plan_of_another_version_is_told_as_far_as_it_is_short(verb: str, plan: dict[str, Any]) -> None:
    named = {**plan, "range": "all", "backup": "b1"}
    assert {"range: all", "backup: b1"} <= set(kept_lines(verb, named))
