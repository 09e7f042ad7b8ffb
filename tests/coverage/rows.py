"""The rows of the coverage table: capabilities, the clauses of each, and the tests that prove them."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

REPOSITORY = Path(__file__).parents[2]
ROWS = Path(__file__).with_name("rows.yaml")


@dataclass(frozen=True)
class Row:
    """One capability.

    Args:
        row_id: Such as `S15`.
        capability: Short description of the capability.
        proven: Node ids of the tests of each proven clause, without parameters, because all cases count.
        missing: Reason why each other clause has no proof.
    """

    row_id: str
    capability: str
    proven: dict[str, list[str]]
    missing: dict[str, str]

    @property
    def tests(self) -> list[str]:
        """Return all tests, each once."""
        return list(dict.fromkeys(test for tests in self.proven.values() for test in tests))


def load_rows(file: Path = ROWS) -> list[Row]:
    """Return all rows, in the order of the file."""
    document = yaml.load(file.read_text(encoding="utf-8"), yaml.CSafeLoader)
    return [
        Row(row_id, row["capability"], row.get("proven", {}), row.get("missing", {}))
        for row_id, row in document.items()
    ]


@cache
def names_of_tests(file: Path) -> set[str]:
    """Return names of the tests of a file, which is only parsed."""
    found = ast.walk(ast.parse(file.read_text(encoding="utf-8")))
    return {n.name for n in found if isinstance(n, ast.FunctionDef) and n.name.startswith("test_")}
