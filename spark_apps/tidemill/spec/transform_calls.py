"""Calls that no transform may make, found in its source text; only those that are certain.

A `.count()` may be of a group, which is right, so it is left to the plan, like all that depends on types.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

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

_OWN_SCOPE = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


@dataclass(frozen=True)
class WrongCall:
    """A call that no transform may make, and its line."""

    method: str
    line: int


def find_wrong_call(
    function: Function,
    functions: Mapping[str, ast.FunctionDef | ast.AsyncFunctionDef],
) -> WrongCall | None:
    """The first wrong call of a transform, and of the functions of its file that it gives its rows.

    Args:
        function: The transform; each of its parameters is the rows of a source.
        functions: All functions at the top level of its file.
    """
    sources = {p.arg for p in (*_parameters(function), *function.args.kwonlyargs)}
    return _Search(functions, _wrong).look(function, sources)


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
    return _Search(functions, _with_state).look(function, given)


def never_returns(function: Function) -> bool:
    """Whether it has no `return` with a value; a decorator may do anything."""
    values = (node.value for node in _own_nodes(function) if isinstance(node, ast.Return))
    return not function.decorator_list and all(
        value is None or (isinstance(value, ast.Constant) and value.value is None) for value in values
    )


# A node, the names that hold rows, the functions of the file -> the wrong call that the node is.
IsWrong = Callable[[ast.AST, set[str], Mapping[str, object]], WrongCall | None]


class _Search:
    """Through one file; each function is looked at once."""

    def __init__(
        self, functions: Mapping[str, ast.FunctionDef | ast.AsyncFunctionDef], wrong: IsWrong
    ) -> None:
        self._functions = functions
        self._wrong = wrong
        self._seen: set[str] = set()

    def look(self, function: ast.FunctionDef | ast.AsyncFunctionDef, given: set[str]) -> WrongCall | None:
        """`given`: which of its parameters are rows of a source."""
        self._seen.add(function.name)
        frames = _frames(function, given)
        found = [
            call for node in _own_nodes(function) if (call := self._wrong(node, frames, self._functions))
        ]
        if found:
            return min(found, key=lambda call: call.line)
        return next(filter(None, (self._called(node, frames) for node in _own_nodes(function))), None)

    def _called(self, node: ast.AST, frames: set[str]) -> WrongCall | None:
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            return None
        called = self._functions.get(node.func.id)
        if called is None or called.name in self._seen or called.decorator_list:
            return None
        given = {
            p.arg for p, value in zip(_parameters(called), node.args, strict=False) if _root(value) in frames
        }
        return self.look(called, given) if given else None


def _parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.arg]:
    return [*function.args.posonlyargs, *function.args.args]


def _own_nodes(function: ast.AST) -> Iterator[ast.AST]:
    """Everything in it, but for the insides of other functions."""
    for node in ast.iter_child_nodes(function):
        if not isinstance(node, _OWN_SCOPE):
            yield node
            yield from _own_nodes(node)


def _frames(function: ast.AST, given: set[str]) -> set[str]:
    """Names that always hold rows of a source: those given, and what is made of them."""
    values: dict[str, list[ast.expr]] = {}
    bound: Counter[str] = Counter()
    for node in _own_nodes(function):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            bound[node.id] += 1
        for name, value in _assigned(node):
            values.setdefault(name, []).append(value)
    # A name that is bound in another way too, by a loop for example, may hold anything.
    frames = {name for name in given | values.keys() if bound[name] == len(values.get(name, ()))}
    while wrong := {n for n in frames for value in values.get(n, ()) if _root(value) not in frames}:
        frames -= wrong
    return frames


def _assigned(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Names that a node gives a value to."""
    if isinstance(node, ast.Assign):
        yield from ((target.id, node.value) for target in node.targets if isinstance(target, ast.Name))
    elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and isinstance(node.target, ast.Name) and node.value:
        yield node.target.id, node.value


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


def _wrong(node: ast.AST, frames: set[str], functions: Mapping[str, object]) -> WrongCall | None:
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Name):
            is_builtin = node.func.id == "open" and "open" not in functions
            return WrongCall("open", node.lineno) if is_builtin else None
        return _wrong_name(node.func, frames, _METHODS_OF_FRAMES, _METHODS)
    return _wrong_name(node, frames, _PROPERTIES_OF_FRAMES, _PROPERTIES)


def _with_state(node: ast.AST, frames: set[str], _: Mapping[str, object]) -> WrongCall | None:
    called = node.func if isinstance(node, ast.Call) else None
    return None if called is None else _wrong_name(called, frames, _METHODS_WITH_STATE, frozenset())


def _wrong_name(
    node: ast.AST, frames: set[str], of_frames: frozenset[str], of_anything: frozenset[str]
) -> WrongCall | None:
    if not isinstance(node, ast.Attribute):
        return None
    wrong = node.attr in of_anything or (node.attr in of_frames and _root(node.value) in frames)
    # The line of the method's name, not of the chain's beginning.
    return WrongCall(node.attr, node.end_lineno or 0) if wrong else None
