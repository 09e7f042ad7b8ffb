"""Descriptions of the computation of a plan's stateful operators, to compare two versions.

A column is described by the expression that computes it, down to the columns of the transform's input. For
example, `window` of five minutes and `window` of ten have the same name and type but are different keys.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from pyspark.sql import DataFrame

from tidemill.backfill.plan_tree import Node, expressions
from tidemill.backfill.window_expression import is_window, read_window
from tidemill.checkpoint.upgrade.version import Meaning
from tidemill.engine.plan_check.analysed import is_stream, root_of

# Maximum length of an expression that is kept as text, in characters; a longer one is kept as a digest.
MOST_CHARACTERS = 200

# Operations that pass on selected columns, with the field that lists them.
_SELECTING = {"Project": "projectList", "Aggregate": "aggregateExpressions"}

# `transformWithState`, for rows and for pandas.
_OWN_STATES = "TransformWithStateInPySpark"

# Fields of an expression that do not affect its value.
_STRUCTURE = ("class", "num-children")


def meanings_of(frame: DataFrame) -> tuple[Meaning, ...]:
    """Return each stateful operator of a stream's plan, from the root; empty if the plan's form is unknown.

    Spark does not guarantee the JSON form of a plan, and a stream must not fail because its plan cannot be
    read.
    """
    try:
        return plan_meanings(root_of(frame))
    except (KeyError, IndexError, TypeError, ValueError):
        return ()


def plan_meanings(root: Node) -> tuple[Meaning, ...]:
    """Return each stateful operator of a plan tree."""
    words = _Words(used_aggregates(root))
    for node in _from_the_leaves(root):
        words.learn(node)
    return tuple(
        _READ[node.kind](node, words) for node in root.walk() if node.kind in _READ and _keeps_state(node)
    )


def _keeps_state(node: Node) -> bool:
    """Return True if all input comes from streams; the initial state of `transformWithState` never does."""
    fed = node.children[:1] if node.kind == _OWN_STATES else node.children
    return all(is_stream(child) for child in fed)


class _Words:
    """Converts expressions to text; knows the expression of each column that it has seen computed.

    Args:
        used: Columns of each aggregation that a later operation needs, by `id` of the node.
    """

    def __init__(self, used: Mapping[int, Sequence[Node]]) -> None:
        self.used = used
        self._made: dict[int, str] = {}

    def learn(self, node: Node) -> None:
        """Learn the columns that an operation computes, after the operations below it."""
        for expression in _all_expressions(node.fields):
            for below in expression.walk():
                if below.kind == "Alias":
                    self._made[below.expression_id] = self.of(below.children[0])
        if node.kind == "Expand":
            places = zip(*map(expressions, node.fields["projections"]), strict=True)
            for column, made in zip(node.expressions("output"), places, strict=True):
                self._made[column.expression_id] = " or ".join(dict.fromkeys(map(self.of, made)))

    def of(self, expression: Node) -> str:
        """Return the text of one expression."""
        match expression.kind:
            case "AttributeReference":
                name = str(expression.fields["name"])
                return self._made.get(expression.expression_id, name)
            case "Alias":
                return self.of(expression.children[0])
            case "Literal":
                return f"{expression.fields['value']}:{expression.fields['dataType']}"
        return _short(self._window(expression) or self._call(expression))

    def _window(self, expression: Node) -> str:
        window = read_window(expression) if is_window(expression) else None
        if window is None or window.kind == "session":
            return ""
        time = next(node for node in expression.walk() if node.kind == "AttributeReference")
        return f"window({self.of(time)}, {window.length}, {window.slide}, {window.offset})"

    def _call(self, expression: Node) -> str:
        fields = sorted(expression.fields.items())
        told = [f"{name}={value}" for name, value in fields if _is_told(name, value)]
        return f"{expression.kind}({', '.join([*map(self.of, expression.children), *told])})"


def _is_told(name: str, value: object) -> bool:
    return name not in _STRUCTURE and isinstance(value, str | bool)


def used_aggregates(root: Node) -> dict[int, Sequence[Node]]:
    """Return the columns of each aggregation that operations above it need; Spark drops the others."""
    found: dict[int, Sequence[Node]] = {}
    _look_for_used(root, None, found)
    return found


def _look_for_used(node: Node, wanted: frozenset[int] | None, found: dict[int, Sequence[Node]]) -> None:
    """Walk down with the columns that are needed of an operation; None for all columns."""
    if node.kind in _SELECTING:
        columns = node.expressions(_SELECTING[node.kind])
        kept = [column for column in columns if wanted is None or column.expression_id in wanted]
        found[id(node)] = kept
        wanted = _columns_in([*kept, *node.expressions("groupingExpressions")])
    elif wanted is not None:
        wanted |= _columns_in(_all_expressions(node.fields))
    for place, child in enumerate(node.children):
        # The later parts of a union have their own columns at the positions of the first part's columns.
        _look_for_used(child, None if node.kind == "Union" and place else wanted, found)


def _columns_in(found: Iterable[Node]) -> frozenset[int]:
    return frozenset(
        below.expression_id
        for expression in found
        for below in expression.walk()
        if below.kind == "AttributeReference"
    )


def _short(words: str) -> str:
    if len(words) <= MOST_CHARACTERS:
        return words
    return f"{words.partition('(')[0]}#{hashlib.sha256(words.encode()).hexdigest()[:16]}"


def _from_the_leaves(node: Node) -> Iterator[Node]:
    for child in node.children:
        yield from _from_the_leaves(child)
    yield node


def _all_expressions(fields: object) -> Iterator[Node]:
    """Yield the expressions in the fields of an operation.

    An expression's document is a list of nodes whose first element has a class.
    """
    if isinstance(fields, dict):
        for part in fields.values():
            yield from _all_expressions(part)
    elif isinstance(fields, list) and fields and isinstance(fields[0], dict) and "num-children" in fields[0]:
        yield from expressions([fields])
    elif isinstance(fields, list):
        for part in fields:
            yield from _all_expressions(part)


def _aggregate(node: Node, words: _Words) -> Meaning:
    found = [
        below
        for expression in words.used[id(node)]
        for below in expression.walk()
        if below.kind == "AggregateExpression"
    ]
    return Meaning(
        kind=node.kind,
        keys=_unique(map(words.of, node.expressions("groupingExpressions"))),
        functions=tuple(_function(below) for below in found),
        inputs=_unique(map(words.of, found)),
    )


def _function(aggregate: Node) -> str:
    distinct = "distinct " if aggregate.fields.get("isDistinct") else ""
    return f"{distinct}{aggregate.children[0].kind}"


def _keyed(field: str) -> Callable[[Node, _Words], Meaning]:
    def read(node: Node, words: _Words) -> Meaning:
        return Meaning(kind=node.kind, keys=_unique(map(words.of, node.expressions(field))))

    return read


def _join(node: Node, words: _Words) -> Meaning:
    given = [node.fields["condition"]] if node.fields.get("condition") else []
    parts = [part for condition in expressions(given) for part in _conjuncts(condition)]
    return Meaning(
        kind=node.kind,
        keys=_unique(words.of(part) for part in parts if part.kind == "EqualTo"),
        functions=(str(node.fields["joinType"]),),
        inputs=_unique(words.of(part) for part in parts if part.kind != "EqualTo"),
    )


def _conjuncts(condition: Node) -> Iterator[Node]:
    if condition.kind != "And":
        yield condition
        return
    for child in condition.children:
        yield from _conjuncts(child)


def _own_states(node: Node, words: _Words) -> Meaning:
    """Return the meaning of `transformWithState`; Spark projects the key columns in front of all others."""
    columns = node.children[0].expressions("projectList")
    return Meaning(
        kind=node.kind, keys=_unique(map(words.of, columns[: int(node.fields["groupingAttributesLen"])]))
    )


def _by_kind(node: Node, _: _Words) -> Meaning:
    return Meaning(kind=node.kind)


def _unique(words: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(words))


_READ: dict[str, Callable[[Node, _Words], Meaning]] = {
    "Aggregate": _aggregate,
    "Deduplicate": _keyed("keys"),
    "DeduplicateWithinWatermark": _keyed("keys"),
    "Distinct": _by_kind,
    "Join": _join,
    "FlatMapGroupsInPandasWithState": _keyed("groupingAttributes"),
    _OWN_STATES: _own_states,
    "GlobalLimit": _by_kind,
}
