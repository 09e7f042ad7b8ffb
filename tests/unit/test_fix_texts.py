"""Texts that name a verb of the checkpoint name a whole command: the pipeline and what the verb requires."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCES = Path(__file__).resolve().parents[2] / "spark_apps/tidemill"

# What must follow each verb that cannot do without it; `{}` stands for a value.
REQUIRED = {
    "reset": r" \S+ --from \S+",
    "rewind": r" \S+ --(to|generation) \S+",
    "repartition": r" \S+ \S+",
    "fork": r" \S+ \S+",
    # Without a backup it lists them.
    "restore": r" \S+",
    "repair": r" \S+",
    "acknowledge": r" \S+",
}
NAMED = re.compile(rf"(?<!`)tidemill checkpoint ({'|'.join(REQUIRED)})\b(.*)", re.DOTALL)


def texts(tree: ast.AST) -> Iterator[str]:
    """Yield the texts of a module without its docstrings; values in them are `{}`."""
    inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
        elif (
            isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside | alone
        ):
            yield node.value


def incomplete(text: str) -> list[str]:
    """Return the verbs of a text that lack what they require."""
    found = NAMED.search(text)
    if found is None:
        return []
    verb, rest = found[1], found[2]
    lacking = [] if re.match(REQUIRED[verb], rest) else [f"tidemill checkpoint {verb}{rest[:40]}"]
    return lacking + incomplete(rest)


@pytest.mark.parametrize(
    ("text", "is_whole"),
    [
        ("begin again: tidemill checkpoint reset", False),
        ("tidemill checkpoint reset {}", False),
        ("tidemill checkpoint reset {} --from earliest; else tidemill checkpoint rewind {}", False),
        ("tidemill checkpoint reset {} --from earliest", True),
    ],
)
def test_a_verb_without_what_it_requires_is_found(text: str, is_whole: bool) -> None:
    assert (incomplete(text) == []) == is_whole


def test_each_text_names_whole_commands() -> None:
    files = sorted(SOURCES.rglob("*.py"))
    found = {
        f"{file.relative_to(SOURCES)}: {command}"
        for file in files
        for text in texts(ast.parse(file.read_text()))
        for command in incomplete(text)
    }
    assert found == set()
