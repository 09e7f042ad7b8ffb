"""Detection of forbidden calls in a transform's source text, if they are certain.

`.count()` is valid for a group and wrong for a stream, so it is refused only if its rows are certainly those
of a stream (`transform_values.py`). Spark's plan decides other cases that depend on types.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from tidemill.spec.transform_values import Names, assigned, own_nodes

Function = ast.FunctionDef

# Called on a source's rows, each of these fails, bypasses the sinks, or keeps the data of the start while the
# query runs. Without a call, such a name may be a field of a struct.
_METHODS_OF_FRAMES = frozenset(
    (
        *("cache", "checkpoint", "collect", "foreach", "foreachPartition", "localCheckpoint", "persist"),
        *("show", "toArrow", "toLocalIterator", "toPandas"),
    )
)
_PROPERTIES_OF_FRAMES = frozenset(("rdd", "write", "writeStream", "writeTo"))

# Each of these fails on a stream. A group may have a method with the same name, and a joined table supports
# it.
_ACTIONS_ON_STREAMS = frozenset(("count", "first", "head", "isEmpty", "tail", "take", "toJSON"))
# Each of these combines rows of a stream, so `on_poison: quarantine` cannot run parts of a batch.
_METHODS_WITH_STATE = frozenset(
    (
        *("agg", "cube", "distinct", "dropDuplicates", "dropDuplicatesWithinWatermark"),
        *("drop_duplicates", "groupBy", "groupby", "groupingSets", "limit", "rollup"),
    )
)

# Wrong on any object.
_METHODS = frozenset(("awaitTermination",))
_PROPERTIES = frozenset(("readStream",))

# Attributes whose values are not made of the sources' rows.
_LEADS_AWAY = frozenset(("sparkSession", "sql_ctx", "pandas_api", "columns", "dtypes", "schema"))


@dataclass(frozen=True)
class WrongCall:
    """A forbidden call and its line."""

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
    """Return the first wrong call of a transform and of the functions in its file that get its rows.

    Args:
        function: The transform; each parameter has the rows of a source.
        functions: All functions at the top level of its file.
        streams: Its parameters that are streams.
    """
    sources = {p.arg for p in (*_parameters(function), *function.args.kwonlyargs)}
    return _Search(functions, _wrong).look(function, sources, set(streams))


def find_call_with_state(
    function: Function,
    functions: Mapping[str, ast.FunctionDef | ast.AsyncFunctionDef],
    stream: str | None = None,
) -> WrongCall | None:
    """Return the first call that certainly combines rows of the single stream.

    Args:
        function: The transform.
        functions: All functions at the top level of its file.
        stream: The parameter with the rows of the stream; the first one by default.
    """
    given = {stream} if stream is not None else {p.arg for p in _parameters(function)[:1]}
    return _Search(functions, _with_state).look(function, given, given)


def never_returns(function: Function) -> bool:
    """Return True if no `return` has a value and no decorator could change that."""
    values = (node.value for node in own_nodes(function) if isinstance(node, ast.Return))
    return not function.decorator_list and all(
        value is None or (isinstance(value, ast.Constant) and value.value is None) for value in values
    )


def find_wrong_result(function: Function, rows: Collection[str]) -> WrongResult | None:
    """Return the first result that is certainly not a DataFrame; None if a decorator could change it.

    Args:
        function: The transform.
        rows: Its parameters that are DataFrames.
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
        frames: Names whose values are always derived from the rows of a source.
        names: All names with their assigned values.
        functions: The functions of the file.
    """

    frames: set[str]
    names: Names
    functions: Mapping[str, object]


_IsWrong = Callable[[ast.AST, _Values], WrongCall | None]


class _Search:
    """A search through one file that visits each function once."""

    def __init__(
        self, functions: Mapping[str, ast.FunctionDef | ast.AsyncFunctionDef], wrong: _IsWrong
    ) -> None:
        self._functions = functions
        self._wrong = wrong
        self._seen: set[str] = set()

    def look(
        self, function: ast.FunctionDef | ast.AsyncFunctionDef, given: set[str], streams: set[str]
    ) -> WrongCall | None:
        """Return the first wrong call.

        `given` are the parameters with rows of a source, `streams` those with rows of a stream.
        """
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
    """Return the names whose values are always derived from the rows of a source."""
    values: dict[str, list[ast.expr]] = {}
    bound: Counter[str] = Counter()
    for node in own_nodes(function):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            bound[node.id] += 1
        for name, value in assigned(node):
            values.setdefault(name, []).append(value)
    # A name that is also bound in another way, for example by a loop, may have any value.
    frames = {name for name in given | values.keys() if bound[name] == len(values.get(name, ()))}
    while wrong := {n for n in frames for value in values.get(n, ()) if _root(value) not in frames}:
        frames -= wrong
    return frames


def _root(expression: ast.expr) -> str | None:
    """Return the name at the start of a chain of methods; None if the chain does not return rows."""
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
    # The line of the method's name, not of the chain's start.
    return WrongCall(node.attr, node.end_lineno or 0) if wrong else None


def _runs_stream(node: ast.Call, values: _Values) -> WrongCall | None:
    if not isinstance(node.func, ast.Attribute):
        return None
    if node.func.attr not in _ACTIONS_ON_STREAMS or values.names.kind_of(node.func.value) != "frame":
        return None
    return WrongCall(node.func.attr, node.func.end_lineno or 0)
