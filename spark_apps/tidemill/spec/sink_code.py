"""The class or function that a sink hands rows to, checked from its source text: no code of the user runs."""

from __future__ import annotations

import ast
from pathlib import Path

from tidemill.errors import SpecError
from tidemill.spec.near_key import near_key
from tidemill.spec.transform_file import parse_code

_FIXES = {
    "foreach": "write `class {name}:` with `def process(self, row):`; `open(self, partition_id, batch_id)` "
    "and "
    "`close(self, error)` as needed",
    "foreach_batch": "write `def {name}(rows, token):` at the top level of the file",
}


def check_sink_code(file: Path, name: str, key: str) -> None:
    """Check that `file` defines what a sink names, and that it takes what it is given.

    Args:
        file: With the code.
        name: Of the class or function.
        key: Where the pipeline file names it, such as `sinks[0].foreach`.

    Raises:
        SpecError: TIDE-SPEC-018 if the file is not Python, TIDE-SPEC-049 if it does not define it so.
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
    # A class of its own may inherit the rest.
    if "process" not in methods and not node.bases:
        return "it has no method `process`"
    wanted = {"open": 3, "process": 2, "close": 2}
    wrong = [name for name, count in wanted.items() if name in methods and not _takes(methods[name], count)]
    return f"`{wrong[0]}` takes other parameters" if wrong else ""


def _takes(function: ast.FunctionDef, count: int) -> bool:
    """Whether it can be called with so many arguments by place."""
    given = function.args
    most = len(given.posonlyargs) + len(given.args)
    required = most - len(given.defaults)
    named = sum(1 for default in given.kw_defaults if default is None)
    return named == 0 and required <= count and (count <= most or given.vararg is not None)
