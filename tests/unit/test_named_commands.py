"""The command line takes every command that a text of the product names; `test_fix_commands.py` runs them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.named_commands import named_commands, refusal

ROOT = Path(__file__).parents[2]


def refused(command: str) -> str | None:
    """Return the reason for refusing a command, also one that it is refused with only when it runs."""
    words = command.split()
    if words[1:3] == ["backfill", "plan"] and words[3:] and "--from" not in words:
        return "a range is missing"
    if words[1:3] == ["checkpoint", "rewind"] and words[3:] and not {"--to", "--generation"} & set(words):
        return "a batch or generation is missing"
    return refusal(command)


@pytest.mark.parametrize("folder", ["spark_apps/tidemill", "dags/tidemill_airflow"])
def test_the_command_line_takes_each_command_that_a_text_names(folder: str) -> None:
    found = list(named_commands(ROOT / folder))
    wrong = [f"{named.place}: {named.text}: {reason}" for named in found if (reason := refused(named.text))]
    assert found
    assert wrong == []


@pytest.mark.parametrize(
    "command",
    [
        "tidemill checkpoint reset orders",
        "tidemill checkpoint reset orders --from the same place",
        "tidemill checkpoint rewind orders",
        "tidemill backfill plan orders",
        "tidemill checkpoint undo orders",
        "tidemill start orders --fast",
        "tidemill run orders --mode batch",
    ],
)
def test_a_command_that_the_command_line_refuses_is_found(command: str) -> None:
    assert refused(command) is not None
