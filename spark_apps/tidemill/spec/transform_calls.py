"""Calls that no transform may make, found in its source text; only those that are certain.

A `.count()` of a group is right, and of a stream wrong, so it is refused where its rows are surely a stream's
(`transform_values.py`). All else that depends on types is left to Spark's plan.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from tidemill.spec.transform_values import Names, assigned, own_nodes

Function = ast.FunctionDef

# Of a source's rows each of these fails, writes past the sinks, or keeps what was read at the start for as
# long as the query runs. Uncalled, such a name may be a field of a struct.
_METHODS_OF_FRAMES = frozenset(
    (
        *("cache", "checkpoint", "collect", "foreach", "foreachPartition", "localCheckpoint", "persist"),
        *("show", "toArrow", "toLocalIterator", "toPandas"),
    )
)
_PROPERTIES_OF_FRAMES = frozenset(("rdd", "write", "writeStream", "writeTo"))

# Of a stream each of these fails, while a group has a method of the same name, or a joined table may answer.
_ACTIONS_ON_STREAMS = frozenset(("count", "first", "head", "isEmpty", "tail", "take", "toJSON"))
# Of a stream's rows each of these brings rows together, which `on_poison: quarantine` cannot take apart.
_METHODS_WITH_STATE = frozenset(
    (
        *("agg", "cube", "distinct", "dropDuplicates", "dropDuplicatesWithinWatermark"),
        *("drop_duplicates", "groupBy", "groupby", "groupingSets", "limit", "rollup"),
    )
)

# Wrong whatever they are of.
_METHODS = frozenset(("awaitTermination",))
_PROPERTIES = frozenset(("readStream",))

# What comes behind them is not made of the sources' rows.
_LEADS_AWAY = frozenset(("sparkSession", "sql_ctx", "pandas_api", "columns", "dtypes", "schema"))


@dataclass(frozen=True)
class WrongCall:
    """A call that no transform may make, and its line."""

    method: str
    line: int


@dataclass(frozen=True)
class WrongResult:
    """A value that is not a DataFrame, and the line that returns it."""

    what: str
    line: int


def find_wrong_call(
    function: Function,
    functions: Mapping[str, ast.FunctionDef | ast.AsyncFunctionDef],
    streams: Collection[str],
) -> WrongCall | None:
    """The first wrong call of a transform, and of the functions of its file that it gives its rows.

    Args:
        function: The transform; each of its parameters is the rows of a source.
        functions: All functions at the top level of its file.
        streams: Those of its parameters that are streams.
    """
    sources = {p.arg for p in (*_parameters(function), *function.args.kwonlyargs)}
    return _Search(functions, _wrong).look(function, sources, set(streams))


def find_call_with_state(
    function: Function,
    functions: Mapping[str, ast.FunctionDef | ast.AsyncFunctionDef],
    stream: str | None = None,
) -> WrongCall | None:
    """Return the first call that certainly brings rows of the one stream together.

    Args:
        function: The transform.
        functions: All functions at the top level of its file.
        stream: The parameter with the rows of the stream; by default the first one.
    """
    given = {stream} if stream is not None else {p.arg for p in _parameters(function)[:1]}
    return _Search(functions, _with_state).look(function, given, given)


def never_returns(function: Function) -> bool:
    """Whether it has no `return` with a value; a decorator may do anything."""
    values = (node.value for node in own_nodes(function) if isinstance(node, ast.Return))
    return not function.decorator_list and all(
        value is None or (isinstance(value, ast.Constant) and value.value is None) for value in values
    )


def find_wrong_result(function: Function, rows: Collection[str]) -> WrongResult | None:
    """The first `return` of a value that is certainly not a DataFrame; a decorator may change it.

    Args:
        function: The transform.
        rows: Those of its parameters that are DataFrames.
    """
    if function.decorator_list:
        return None
    names = Names(function, rows)
    returned = [node for node in own_nodes(function) if isinstance(node, ast.Return) and node.value]
    found = [
        WrongResult(what, node.lineno)
        for node in returned
        if node.value is not None and (what := names.other_value(node.value))
    ]
    return min(found, key=lambda result: result.line, default=None)


@dataclass(frozen=True)
class _Values:
    """The values of a function's names.

    Args:
        frames: Names that always hold rows of a source, or what is made of them.
        names: All names, by what is assigned to them.
        functions: The functions of the file.
    """

    frames: set[str]
    names: Names
    functions: Mapping[str, object]


_IsWrong = Callable[[ast.AST, _Values], WrongCall | None]


class _Search:
    """Through one file; each function is looked at once."""

    def __init__(
        self, functions: Mapping[str, ast.FunctionDef | ast.AsyncFunctionDef], wrong: _IsWrong
    ) -> None:
        self._functions = functions
        self._wrong = wrong
        self._seen: set[str] = set()

    def look(
        self, function: ast.FunctionDef | ast.AsyncFunctionDef, given: set[str], streams: set[str]
    ) -> WrongCall | None:
        """`given` are those of its parameters that are rows of a source, `streams` those of a stream."""
        self._seen.add(function.name)
        frames, names = _frames(function, given), Names(function, streams)
        nodes, values = list(own_nodes(function)), _Values(frames, names, self._functions)
        found = [call for node in nodes if (call := self._wrong(node, values))]
        if found:
            return min(found, key=lambda call: call.line)
        return next(filter(None, (self._called(node, frames, names) for node in nodes)), None)

    def _called(self, node: ast.AST, frames: set[str], names: Names) -> WrongCall | None:
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            return None
        called = self._functions.get(node.func.id)
        if called is None or called.name in self._seen or called.decorator_list:
            return None
        passed = list(zip(_parameters(called), node.args, strict=False))
        given = {parameter.arg for parameter, value in passed if _root(value) in frames}
        streams = {parameter.arg for parameter, value in passed if names.kind_of(value) == "frame"}
        return self.look(called, given, streams) if given else None


def _parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.arg]:
    return [*function.args.posonlyargs, *function.args.args]


def _frames(function: ast.AST, given: set[str]) -> set[str]:
    """Names that always hold rows of a source: those given, and what is made of them."""
    values: dict[str, list[ast.expr]] = {}
    bound: Counter[str] = Counter()
    for node in own_nodes(function):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            bound[node.id] += 1
        for name, value in assigned(node):
            values.setdefault(name, []).append(value)
    # A name that is bound in another way too, by a loop for example, may hold anything.
    frames = {name for name in given | values.keys() if bound[name] == len(values.get(name, ()))}
    while wrong := {n for n in frames for value in values.get(n, ()) if _root(value) not in frames}:
        frames -= wrong
    return frames


def _root(expression: ast.expr) -> str | None:
    """The name that a chain of methods begins with; None where it leads away from the rows."""
    while True:
        if isinstance(expression, ast.Attribute):
            if expression.attr in _LEADS_AWAY:
                return None
            expression = expression.value
        elif isinstance(expression, ast.Call) and isinstance(expression.func, ast.Attribute):
            expression = expression.func
        else:
            return expression.id if isinstance(expression, ast.Name) else None


def _wrong(node: ast.AST, values: _Values) -> WrongCall | None:
    if not isinstance(node, ast.Call):
        return _wrong_name(node, values.frames, _PROPERTIES_OF_FRAMES, _PROPERTIES)
    if isinstance(node.func, ast.Name):
        is_builtin = node.func.id == "open" and "open" not in values.functions
        return WrongCall("open", node.lineno) if is_builtin else None
    return _wrong_name(node.func, values.frames, _METHODS_OF_FRAMES, _METHODS) or _runs_stream(node, values)


def _with_state(node: ast.AST, values: _Values) -> WrongCall | None:
    called = node.func if isinstance(node, ast.Call) else None
    return None if called is None else _wrong_name(called, values.frames, _METHODS_WITH_STATE, frozenset())


def _wrong_name(
    node: ast.AST, frames: set[str], of_frames: frozenset[str], of_anything: frozenset[str]
) -> WrongCall | None:
    if not isinstance(node, ast.Attribute):
        return None
    wrong = node.attr in of_anything or (node.attr in of_frames and _root(node.value) in frames)
    # The line of the method's name, not of the chain's beginning.
    return WrongCall(node.attr, node.end_lineno or 0) if wrong else None


def _runs_stream(node: ast.Call, values: _Values) -> WrongCall | None:
    if not isinstance(node.func, ast.Attribute):
        return None
    if node.func.attr not in _ACTIONS_ON_STREAMS or values.names.kind_of(node.func.value) != "frame":
        return None
    return WrongCall(node.func.attr, node.func.end_lineno or 0)
