"""Benchmarks measure Spark as drivers run it: the session of tests interprets plans, which slows a peer."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tidemill.testing.session import INTERPRETED

BENCHMARKS = sorted((Path(__file__).parents[1] / "bench").glob("*.py"))
SESSIONS_OF_TESTS = {"shared_session", "tidemill_spark", "SparkSession.builder", *INTERPRETED}


def names_of(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    dotted = {ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    texts = {str(node.value) for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    return names | dotted | texts


@pytest.mark.parametrize("path", BENCHMARKS, ids=lambda path: path.stem)
def test_a_benchmark_starts_spark_with_the_settings_of_a_driver(path: Path) -> None:
    assert not names_of(path) & SESSIONS_OF_TESTS
