"""A command in a runbook is one that the command line knows: verb and options."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tidemill.cli.app import main

PAGES = sorted((Path(__file__).parents[2] / "dags" / "runbooks").glob("*.md"))

# What stands for a value in a page, and one that the command line would take.
VALUES = {"T": "2026-01-01T00:00:00Z", "N": "1", "M": "stream", "…": "text"}

FENCED = re.compile(r"^ {4}(tidemill .+)$", re.MULTILINE)
INLINE = re.compile(r"`(tidemill [^`]+)`")


def commands_in(page: Path) -> list[str]:
    text = page.read_text(encoding="utf-8")
    found = [*FENCED.findall(text), *(" ".join(command.split()) for command in INLINE.findall(text))]
    return sorted({command.partition(" #")[0] for command in found})


def is_known(command: str) -> bool:
    """Whether verb and options exist; `--help` keeps it from running, and from asking for what is missing."""
    words = [VALUES.get(word, word) for word in shlex.split(command.replace("[", "").replace("]", ""))]
    return main([*words[1:], "--help"]) == 0


def test_unknown_verbs_and_options_are_seen() -> None:
    assert is_known("tidemill plan PIPELINE --json")
    assert not is_known("tidemill checkpoint nonsense PIPELINE")
    assert not is_known("tidemill plan PIPELINE --nonsense")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_command_line_knows_every_command_of_the_page(page: Path) -> None:
    assert [command for command in commands_in(page) if not is_known(command)] == []
