"""Checks of a sink's class or function from its source text, without running user code."""

from __future__ import annotations

import ast
from pathlib import Path

from tidemill.errors import SpecError
from tidemill.spec.near_key import near_key
from tidemill.spec.transform_file import parse_code

_FIXES = {
    "foreach": "write `class {name}:` with `def process(self, row):`; `open(self, partition_id, batch_id)` "
    "and `close(self, error)` as needed",
    "foreach_batch": "write `def {name}(rows, token):` at the top level of the file",
}


def check_sink_code(file: Path, name: str, key: str) -> None:
    """Check that `file` defines the class or function of a sink with the right parameters.

    Args:
        file: File with the code.
        name: Name of the class or function.
        key: Key in the pipeline file that names it, such as `sinks[0].foreach`.

    Raises:
        SpecError: TIDE-SPEC-018 if the file is not Python, TIDE-SPEC-049 if the definition is missing or does
            not fit.
    """
    named = {
        node.name: node
        for node in parse_code(file, file.stat().st_mtime_ns).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    }
    kind = key.rpartition(".")[2]
    problem = _problem(kind, named.get(name))
    if problem:
        near = None if name in named else near_key(name, named)
        raise SpecError(
            "TIDE-SPEC-049",
            f"A sink cannot hand its rows to this code: {problem}.",
            facts={"key": key, "file": file, "name": name, "known": ", ".join(named) or "none"},
            fix=f"did you mean {near}?" if near else _FIXES[kind].format(name=name),
        )


def _problem(kind: str, node: ast.stmt | None) -> str:
    if node is None:
        return "the file does not define it"
    if kind == "foreach_batch":
        if not isinstance(node, ast.FunctionDef):
            return "it is no function"
        return "" if _takes(node, 2) else "it does not take the rows and the token"
    if not isinstance(node, ast.ClassDef):
        return "it is no class"
    methods = {part.name: part for part in node.body if isinstance(part, ast.FunctionDef)}
    # A class with base classes may inherit `process`.
    if "process" not in methods and not node.bases:
        return "it has no method `process`"
    wanted = {"open": 3, "process": 2, "close": 2}
    wrong = [name for name, count in wanted.items() if name in methods and not _takes(methods[name], count)]
    return f"`{wrong[0]}` takes other parameters" if wrong else ""


def _takes(function: ast.FunctionDef, count: int) -> bool:
    """Return True if the function can be called with `count` positional arguments."""
    given = function.args
    most = len(given.posonlyargs) + len(given.args)
    required = most - len(given.defaults)
    named = sum(1 for default in given.kw_defaults if default is None)
    return named == 0 and required <= count and (count <= most or given.vararg is not None)
