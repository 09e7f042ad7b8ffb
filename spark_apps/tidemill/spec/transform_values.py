"""Values that the variables of a transform certainly have, according to its source text."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Collection, Iterator
from typing import Literal

Kind = Literal["frame", "grouped"]

# Methods of a DataFrame that return a DataFrame.
_FRAME_METHODS = (
    *("alias", "coalesce", "crossJoin", "distinct", "drop", "dropDuplicates"),
    *("dropDuplicatesWithinWatermark", "drop_duplicates", "dropna", "exceptAll", "fillna"),
    *("filter", "hint", "intersect", "intersectAll", "join", "limit", "mapInArrow", "mapInPandas"),
    *("melt", "observe", "offset", "orderBy", "repartition", "repartitionByRange", "replace"),
    *("sample", "select", "selectExpr", "sort", "subtract", "to", "toDF", "transform", "union"),
    *("unionAll", "unionByName", "unpivot", "where", "withColumn", "withColumnRenamed"),
    *("withColumns", "withColumnsRenamed", "withMetadata", "withWatermark"),
)
_GROUPING = ("cube", "groupBy", "groupby", "groupingSets", "rollup")
# Methods of a grouped DataFrame that return a DataFrame.
_AGGREGATING = (
    *("agg", "applyInArrow", "applyInPandas", "applyInPandasWithState", "avg", "count", "max", "mean", "min"),
    *("sum", "transformWithState", "transformWithStateInPandas"),
)
_RESULTS: dict[tuple[Kind, str], Kind] = {
    **{("frame", method): "frame" for method in _FRAME_METHODS},
    **{("frame", method): "grouped" for method in _GROUPING},
    **{("grouped", method): "frame" for method in _AGGREGATING},
    ("grouped", "pivot"): "grouped",
}

_OWN_SCOPE = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)

# Expressions that are never a DataFrame, with their names in errors.
_OTHER_VALUES: dict[type[ast.expr], str] = {
    ast.List: "a list",
    ast.ListComp: "a list",
    ast.Tuple: "a tuple",
    ast.Dict: "a dict",
    ast.DictComp: "a dict",
    ast.Set: "a set",
    ast.SetComp: "a set",
    ast.GeneratorExp: "a generator",
    ast.JoinedStr: "a text",
    ast.Lambda: "a function",
}


def own_nodes(function: ast.AST) -> Iterator[ast.AST]:
    """Yield all nodes of a function except those inside nested functions."""
    for node in ast.iter_child_nodes(function):
        if not isinstance(node, _OWN_SCOPE):
            yield node
            yield from own_nodes(node)


def assigned(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Yield the names that a node assigns, with the values."""
    if isinstance(node, ast.Assign):
        yield from ((target.id, node.value) for target in node.targets if isinstance(target, ast.Name))
    elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and isinstance(node.target, ast.Name) and node.value:
        yield node.target.id, node.value


class Names:
    """The names of one function.

    Args:
        function: The function.
        frames: Its parameters that are DataFrames.
    """

    def __init__(self, function: ast.AST, frames: Collection[str]) -> None:
        self._values: dict[str, list[ast.expr]] = {}
        bound: Counter[str] = Counter()
        for node in own_nodes(function):
            if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
                bound[node.id] += 1
            for name, value in assigned(node):
                self._values.setdefault(name, []).append(value)
        # A name that is also bound in another way, for example by a loop, may have any value.
        self._unsure = {name for name, times in bound.items() if times != len(self._values.get(name, ()))}
        self._parameters = _parameters_of(function)
        self._frames = frozenset(frames)
        self._kinds = self._all_kinds()

    def kind_of(self, expression: ast.expr) -> Kind | None:
        """Return the kind of a value; None if it is not certain."""
        return _kind(expression, self._kinds)

    def other_value(self, expression: ast.expr) -> str:
        """Return a description of the value if it is certainly not a DataFrame; empty otherwise."""
        if isinstance(expression, ast.Name):
            values = self._values.get(expression.id, [])
            if expression.id in self._unsure or expression.id in self._parameters:
                return ""
            found = [_OTHER_VALUES.get(type(value), "") for value in values]
            if found and all(found):
                return found[0]
        if isinstance(expression, ast.Constant) and expression.value is not None:
            return "a constant"
        if self.kind_of(expression) == "grouped":
            return "groups without an aggregation"
        return _OTHER_VALUES.get(type(expression), "")

    def _all_kinds(self) -> dict[str, Kind]:
        """Return the kind of each name whose assigned values all have the same kind."""
        unsure = set(self._unsure)
        while True:
            kinds: dict[str, Kind] = dict.fromkeys(self._frames - unsure, "frame")
            while new := self._more(kinds, unsure):
                kinds |= new
            mixed = {name for name in kinds if self._kinds_given(name, kinds) != {kinds[name]}}
            if not mixed:
                return kinds
            unsure |= mixed

    def _more(self, kinds: dict[str, Kind], unsure: set[str]) -> dict[str, Kind]:
        more: dict[str, Kind] = {}
        for name in self._values.keys() - kinds.keys() - unsure - self._parameters:
            given = self._kinds_given(name, kinds)
            if len(given) == 1 and (kind := given.pop()) is not None:
                more[name] = kind
        return more

    def _kinds_given(self, name: str, kinds: dict[str, Kind]) -> set[Kind | None]:
        given: set[Kind | None] = {"frame"} if name in self._frames else set()
        return given | {_kind(value, kinds) for value in self._values.get(name, ())}


def _parameters_of(function: ast.AST) -> set[str]:
    return {node.arg for node in ast.walk(getattr(function, "args", ast.Pass())) if isinstance(node, ast.arg)}


def _kind(expression: ast.expr, kinds: dict[str, Kind]) -> Kind | None:
    methods = []
    while isinstance(expression, ast.Call) and isinstance(expression.func, ast.Attribute):
        methods.append(expression.func.attr)
        expression = expression.func.value
    kind = kinds.get(expression.id) if isinstance(expression, ast.Name) else None
    for method in reversed(methods):
        kind = None if kind is None else _RESULTS.get((kind, method))
    return kind
