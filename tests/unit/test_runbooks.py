"""Every runbook that an error names is a page, with the parts that a reader at 3 a.m. needs."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "dags" / "runbooks"
SOURCES = sorted([*(ROOT / "spark_apps").rglob("*.py"), *(ROOT / "dags").rglob("*.py")])


@cache
def runbooks_named_in(source: Path) -> set[str]:
    """Return values of `runbook=` arguments that are written out."""
    tree = ast.parse(source.read_text(encoding="utf-8"))
    keywords = (k for node in ast.walk(tree) if isinstance(node, ast.Call) for k in node.keywords)
    return {
        str(keyword.value.value)
        for keyword in keywords
        if keyword.arg == "runbook" and isinstance(keyword.value, ast.Constant) and keyword.value.value
    }


def test_the_search_finds_runbooks() -> None:
    assert "source-unavailable" in {name for source in SOURCES for name in runbooks_named_in(source)}


def test_every_named_runbook_is_a_page() -> None:
    named = {name for source in SOURCES for name in runbooks_named_in(source)}
    assert named - {page.stem for page in PAGES.glob("*.md")} == set()


@pytest.mark.parametrize("page", sorted(PAGES.glob("*.md")), ids=lambda page: page.stem)
def test_a_page_says_what_to_do_and_when_it_is_over(page: Path) -> None:
    text = page.read_text(encoding="utf-8").lower()
    for part in ("symptom", "what it means", "what to do", "what not to do", "how to know"):
        assert part in text, f"{page.name} lacks: {part}"
