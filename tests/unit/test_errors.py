from __future__ import annotations

import ast
import pickle
import re
from collections import defaultdict
from pathlib import Path

import pytest

from tidemill import errors
from tidemill.errors import GateRefusedError, SpecError, TidemillError

SOURCES = Path(errors.__file__).parents[1]
ID_PATTERN = r"TIDE-[A-Z]+-[0-9]{3}"


def behind_table() -> GateRefusedError:
    return GateRefusedError(
        "TIDE-CKPT-004",
        "The checkpoint is older than the table.",
        facts={"pipeline": "orders", "table_batch": 131},
        fix="restore a newer backup",
        runbook="checkpoint-behind-table",
    )


def test_an_error_reads_as_problem_facts_and_fix() -> None:
    assert str(behind_table()).splitlines() == [
        "TIDE-CKPT-004  The checkpoint is older than the table.",
        "  pipeline=orders table_batch=131",
        "  To fix: restore a newer backup",
        "  Runbook: checkpoint-behind-table",
    ]


def test_an_error_without_facts_or_fix_is_one_line() -> None:
    assert str(SpecError("TIDE-SPEC-999", "It is wrong.")) == "TIDE-SPEC-999  It is wrong."


def test_an_error_keeps_its_class_and_fields_across_processes() -> None:
    copy = pickle.loads(pickle.dumps(behind_table()))
    assert type(copy) is GateRefusedError
    assert vars(copy) == vars(behind_table())


@pytest.mark.parametrize(
    ("name", "exit_code"),
    [
        ("UsageError", 64),
        ("SpecError", 64),
        ("DataError", 65),
        ("GateRefusedError", 66),
        ("UnavailableError", 69),
        ("InternalError", 70),
        ("FencedError", 75),
    ],
)
def test_a_driver_ends_with_the_exit_code_of_its_error(name: str, exit_code: int) -> None:
    kind = getattr(errors, name)
    assert issubclass(kind, TidemillError)
    assert kind.exit_code == exit_code


def classes_by_id() -> dict[str, set[str]]:
    """Return the error classes with which the code raises each id."""
    found: dict[str, set[str]] = defaultdict(set)
    for file in [*SOURCES.rglob("*.py"), *(SOURCES.parent / "dags").rglob("*.py")]:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or not node.args:
                continue
            given = node.args[0]
            if isinstance(given, ast.Constant) and re.fullmatch(ID_PATTERN, str(given.value)):
                # The gate's findings become its refusals.
                kind = "GateRefusedError" if node.func.id == "Finding" else node.func.id
                found[str(given.value)].add(kind)
    return found


def test_an_error_id_always_means_the_same_class() -> None:
    raised = classes_by_id()
    assert raised["TIDE-SPEC-010"] == {"SpecError"}
    assert {error_id: kinds for error_id, kinds in raised.items() if len(kinds) > 1} == {}
