"""Checks of a transform's contract from its source text, without running user code or Spark."""

from __future__ import annotations

import ast
from collections.abc import Collection, Sequence
from functools import lru_cache
from pathlib import Path

from tidemill.errors import SpecError
from tidemill.spec.near_key import near_key
from tidemill.spec.transform_calls import (
    find_call_with_state,
    find_wrong_call,
    find_wrong_result,
    never_returns,
)
from tidemill.spec.transform_rules import NOTHING_RETURNED, OTHER_RETURNED, STATE_AND_POISON, wrong_call

# Maximum number of cached files. Each is parsed once, even if many pipelines share it.
_KEPT_FILES = 1024


def check_transform(
    file: Path,
    function: str,
    sources: Sequence[str] = (),
    models: Sequence[str] = (),
    tables: Collection[str] = (),
) -> None:
    """Check that `file` defines `function` with a parameter for each source and without certain violations.

    Args:
        file: File with the function.
        function: Name of the function.
        sources: Names of several sources, which are the parameters. For one source, any name is valid.
        models: Names of the models, which are additional parameters.
        tables: Sources that are joined as a whole.

    Raises:
        SpecError: TIDE-SPEC-018 if the file is not Python, TIDE-SPEC-019 if the function is missing or has
            other parameters, TIDE-PLAN-… if it returns no DataFrame or makes a forbidden call.
    """
    functions = _functions(file, file.stat().st_mtime_ns)
    _check_signature(functions, function, (sources, models), {"file": file, "function": function})
    transform = functions[function]
    if isinstance(transform, ast.FunctionDef):
        rows = set(sources) or {_first_parameter(transform)}
        found = find_wrong_call(transform, functions, rows - set(tables))
        if found is not None:
            raise wrong_call(found.method, {"file": f"{file}:{found.line}", "function": function})
        _check_result(file, transform, rows)


def check_no_state(file: Path, function: str, stream: str | None) -> None:
    """Check that a transform does not certainly keep state, as `on_poison: quarantine` requires.

    Args:
        file: File with the function.
        function: Name of the function.
        stream: The parameter with the rows of the stream; None for the first one.

    Raises:
        SpecError: TIDE-PLAN-032. State that the text does not show is found by drivers in Spark's plan.
    """
    functions = _functions(file, file.stat().st_mtime_ns)
    transform = functions[function]
    if not isinstance(transform, ast.FunctionDef):
        return
    found = find_call_with_state(transform, functions, stream)
    if found is not None:
        raise STATE_AND_POISON.refusal(
            {"file": f"{file}:{found.line}", "function": function, "call": found.method}
        )


def check_sink_transform(file: Path, function: str, key: str) -> None:
    """Check a sink's transform, which gets a batch and may use operations that a stream does not support.

    Args:
        file: File with the function.
        function: Name of the function.
        key: Key in the pipeline file that names it.

    Raises:
        SpecError: TIDE-SPEC-018, TIDE-SPEC-019; TIDE-PLAN-002 or -007 if it returns no DataFrame.
    """
    functions = _functions(file, file.stat().st_mtime_ns)
    _check_signature(functions, function, ((), ()), {"key": key, "file": file, "function": function})
    transform = functions[function]
    if isinstance(transform, ast.FunctionDef):
        _check_result(file, transform, {_first_parameter(transform)})


def _check_signature(
    functions: dict[str, ast.FunctionDef | ast.AsyncFunctionDef],
    function: str,
    named: tuple[Sequence[str], Sequence[str]],
    facts: dict[str, object],
) -> None:
    if function not in functions:
        near = near_key(function, functions)
        raise SpecError(
            "TIDE-SPEC-019",
            "The transform file has no such function.",
            facts={**facts, "known": ", ".join(functions) or "none"},
            fix=f"did you mean {near}?" if near else "define it at the top level of the file, with `def`",
        )
    sources, models = named
    problem = _wrong_parameters(functions[function], sources, models)
    if problem:
        kinds = [(name, "DataFrame") for name in sources or ("records",)]
        kinds += [(name, "Model") for name in models]
        parameters = ", ".join(f"{name}: {kind}" for name, kind in kinds)
        beside = ", and each model," if models else ""
        raise SpecError(
            "TIDE-SPEC-019",
            f"A transform takes one DataFrame of each source{beside} and returns one: {problem}.",
            facts={**facts, "line": functions[function].lineno},
            fix=f"write `def {function}({parameters}) -> DataFrame:`; constants belong into the file",
        )


def _check_result(file: Path, transform: ast.FunctionDef, rows: set[str]) -> None:
    if never_returns(transform):
        raise NOTHING_RETURNED.refusal({"file": f"{file}:{transform.lineno}", "function": transform.name})
    found = find_wrong_result(transform, rows)
    if found is not None:
        facts = {"file": f"{file}:{found.line}", "function": transform.name, "returns": found.what}
        raise OTHER_RETURNED.refusal(facts)


def _first_parameter(function: ast.FunctionDef) -> str:
    """Return the parameter that gets the rows. The signature has been checked before."""
    return next(iter((*function.args.posonlyargs, *function.args.args))).arg


def _functions(file: Path, modified: int) -> dict[str, ast.FunctionDef | ast.AsyncFunctionDef]:
    """Return the functions at the top level of a file."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name: node for node in parse_code(file, modified).body if isinstance(node, kinds)}


@lru_cache(maxsize=_KEPT_FILES)
def parse_code(file: Path, _modified: int) -> ast.Module:
    """Parse a Python file of the project without running it.

    Raises:
        SpecError: TIDE-SPEC-018 if it is not Python.
    """
    try:
        return ast.parse(file.read_bytes(), filename=file.name)
    except (SyntaxError, ValueError, OSError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None)
        raise SpecError(
            "TIDE-SPEC-018",
            "The transform file is not Python.",
            facts={
                "file": f"{file}:{line}" if line else file,
                "reason": getattr(error, "msg", None) or type(error).__name__,
            },
            fix="correct the file",
        ) from error


def _wrong_parameters(
    function: ast.FunctionDef | ast.AsyncFunctionDef, sources: Sequence[str], models: Sequence[str]
) -> str:
    if isinstance(function, ast.AsyncFunctionDef):
        return "it is async"
    parameters = function.args
    missing = set(models) - {parameter.arg for parameter in (*parameters.args, *parameters.kwonlyargs)}
    if missing:
        return f"it has no parameter for the model {min(missing)}"
    if sources:
        # Several sources are passed by name.
        named = [parameter.arg for parameter in (*parameters.args, *parameters.kwonlyargs)]
        given = [
            *named,
            *(p.arg for p in (*parameters.posonlyargs, parameters.vararg, parameters.kwarg) if p),
        ]
        fits = set(named) == {*sources, *models} and len(given) == len(named)
        found = f"the sources are {', '.join(sources)}, its parameters {', '.join(given) or 'none'}"
        return "" if fits else found
    # The rows are passed as the first argument, the models by name.
    first = next(iter((*parameters.posonlyargs, *parameters.args)), None)
    if first is not None and first.arg in models:
        return f"the rows come first, not the model {first.arg}"
    positional = len(parameters.posonlyargs) + sum(p.arg not in models for p in parameters.args)
    others = sum(p.arg not in models for p in parameters.kwonlyargs)
    others += bool(parameters.vararg) + bool(parameters.kwarg)
    return "" if (positional, others) == (1, 0) else f"this one has {positional + others} parameters"
