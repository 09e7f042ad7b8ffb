"""What the stateful operators of a plan compute, in words that two versions can be compared by.

A column stands for what it is made of, down to the columns that the transform is given: `window` of five
minutes and `window` of ten have the same name and type, and are not the same key.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from pyspark.sql import DataFrame

from tidemill.backfill.plan_tree import Node, expressions
from tidemill.backfill.window_expression import is_window, read_window
from tidemill.checkpoint.upgrade.version import Meaning
from tidemill.engine.plan_check.analysed import is_stream, root_of

# Longest expression that is kept in words, in characters; what is longer is told by its digest.
MOST_CHARACTERS = 200

# Operations that give on what they name, by the field that names it.
_SELECTING = {"Project": "projectList", "Aggregate": "aggregateExpressions"}

# `transformWithState`, of rows and of pandas.
_OWN_STATES = "TransformWithStateInPySpark"

# Fields of an expression that say nothing of its value.
_STRUCTURE = ("class", "num-children")


def meanings_of(frame: DataFrame) -> tuple[Meaning, ...]:
    """Each stateful operator of a stream's plan, from the root; empty if Spark tells of it in a new way.

    Spark's JSON of a plan is no promise of its, and a stream must not fail because nobody can explain it.
    """
    try:
        return plan_meanings(root_of(frame))
    except (KeyError, IndexError, TypeError, ValueError):
        return ()


def plan_meanings(root: Node) -> tuple[Meaning, ...]:
    """The same, of a plan as a tree."""
    words = _Words(used_aggregates(root))
    for node in _from_the_leaves(root):
        words.learn(node)
    return tuple(
        _READ[node.kind](node, words) for node in root.walk() if node.kind in _READ and _keeps_state(node)
    )


def _keeps_state(node: Node) -> bool:
    """Whether all its rows come from streams; the initial state of a `transformWithState` never does."""
    fed = node.children[:1] if node.kind == _OWN_STATES else node.children
    return all(is_stream(child) for child in fed)


class _Words:
    """Expressions in words; knows what each column is made of once it has seen where it is made.

    Args:
        used: Columns of each aggregation that anything needs, by `id` of its node.
    """

    def __init__(self, used: Mapping[int, Sequence[Node]]) -> None:
        self.used = used
        self._made: dict[int, str] = {}

    def learn(self, node: Node) -> None:
        """Take in the columns that an operation makes; those below it are known."""
        for expression in _all_expressions(node.fields):
            for below in expression.walk():
                if below.kind == "Alias":
                    self._made[below.expression_id] = self.of(below.children[0])
        if node.kind == "Expand":
            places = zip(*map(expressions, node.fields["projections"]), strict=True)
            for column, made in zip(node.expressions("output"), places, strict=True):
                self._made[column.expression_id] = " or ".join(dict.fromkeys(map(self.of, made)))

    def of(self, expression: Node) -> str:
        """One expression."""
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
    """What of each aggregation anything above it needs; Spark leaves the rest out of plan and state."""
    found: dict[int, Sequence[Node]] = {}
    _look_for_used(root, None, found)
    return found


def _look_for_used(node: Node, wanted: frozenset[int] | None, found: dict[int, Sequence[Node]]) -> None:
    """Go down with the columns that are wanted of an operation; None for all of them."""
    if node.kind in _SELECTING:
        columns = node.expressions(_SELECTING[node.kind])
        kept = [column for column in columns if wanted is None or column.expression_id in wanted]
        found[id(node)] = kept
        wanted = _columns_in([*kept, *node.expressions("groupingExpressions")])
    elif wanted is not None:
        wanted |= _columns_in(_all_expressions(node.fields))
    for place, child in enumerate(node.children):
        # The later parts of a union have columns of their own in the places of the first one's.
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
    """Expressions in the fields of an operation: a document is a list of nodes that begins with a class."""
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
    """Spark projects the columns of the key in front of all others."""
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
