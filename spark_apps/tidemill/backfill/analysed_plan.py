"""Read Spark's analysed plan of a transform: each row is made of one record or of a whole window.

Expression ids are unique to a value. An attribute with the same id in input and result was not changed in
between.

Only node types that are known to work row by row prove anything. A new node type makes a backfill refuse, and
never makes it wrong.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from tidemill.backfill.plan_tree import Document, Node, expressions, tree
from tidemill.backfill.row_origin import EventWindow, RowOrigin, SinkOrigin
from tidemill.backfill.window_expression import is_window, read_window
from tidemill.names import LINEAGE_COLUMNS

# Nodes that only copy, filter or move rows of their child, and change no value.
_ROW_BY_ROW = frozenset(
    {
        "EventTimeWatermark",
        "Filter",
        "RebalancePartitions",
        "Repartition",
        "RepartitionByExpression",
        "ResolvedHint",
        "SubqueryAlias",
        "UpdateEventTimeWatermarkColumn",
        "View",
    }
)

# Sides (0 left, 1 right) whose rows are joined independently with a static other side, by join type.
_SIDES_KEPT = {
    "Inner": (0, 1),
    "Cross": (0, 1),
    "LeftOuter": (0,),
    "LeftSemi": (0,),
    "LeftAnti": (0,),
    "RightOuter": (1,),
}


@dataclass(frozen=True)
class Input:
    """The input of a transform.

    Args:
        plan: Analysed plan of its rows.
        columns: Their columns and expression ids, in order.
        event_time: The event-time column, if one is declared.
    """

    plan: Document
    columns: Sequence[tuple[str, int]]
    event_time: str | None = None


def origin_of(result: Document, columns: Sequence[tuple[str, int]], given: Input) -> RowOrigin:
    """Return the proven origin of a transform's rows.

    Args:
        result: Its analysed plan.
        columns: Its columns and expression ids, in order.
        given: The input.
    """
    found = _origin_of(result, columns, given)
    return found.model_copy(update={"windows": windows_in(result)})


def windows_in(result: Document) -> tuple[timedelta, ...]:
    """Return the lengths of all time windows in a plan, even of unused ones."""
    expressions = (e for node in tree(result).walk() for e in node.all_expressions())
    structs = (node for expression in expressions for node in expression.walk() if is_window(node))
    windows = (read_window(struct) for struct in structs)
    return tuple(sorted({window.length for window in windows if window is not None and window.length}))


def _origin_of(result: Document, columns: Sequence[tuple[str, int]], given: Input) -> RowOrigin:
    rows = _Reader(given).rows(tree(result))
    if rows.reason:
        return RowOrigin(stateful=rows.stateful, reason=rows.reason)
    meanings = [(name, rows.meanings.get(number)) for name, number in columns]
    if rows.window is not None:
        window = rows.window.model_copy(
            update={
                f"{part}_columns": tuple(name for name, meaning in meanings if meaning == _Part(part))
                for part in ("start", "end", "struct")
            }
        )
        return RowOrigin(window=window, stateful=True)
    if rows.stateful:
        return RowOrigin(stateful=True, reason="a row depends on records before its own")
    record = {m.name: name for name, m in reversed(meanings) if isinstance(m, _Column)}
    missing = [column for column in LINEAGE_COLUMNS if column not in record]
    if missing:
        return RowOrigin(reason=f"the result does not keep {', '.join(missing)}")
    return RowOrigin(record={column: record[column] for column in LINEAGE_COLUMNS})


def kept_columns(result: Document, columns: Sequence[tuple[str, int]], given: Input) -> SinkOrigin:
    """Return True if a sink's transform works row by row, and the columns that it keeps unchanged.

    A sink's transform sees one batch. An operation that combines rows, such as an aggregate or the newest row
    of a key, gives another result for a range of many batches, even if it gives whole windows for a stream.

    Args:
        result: Its analysed plan.
        columns: Its columns and expression ids, in order.
        given: The pipeline's result, without an event time, because windows made here are of one batch.
    """
    rows = _Reader(given).rows(tree(result))
    if rows.reason or rows.stateful or rows.static:
        return SinkOrigin(reason=rows.reason or "its rows are not made of the result's")
    meanings = [(name, rows.meanings.get(number)) for name, number in columns]
    return SinkOrigin(columns={m.name: name for name, m in reversed(meanings) if isinstance(m, _Column)})


@dataclass(frozen=True)
class _Column:
    """An unchanged column of the input."""

    name: str


@dataclass(frozen=True)
class _Part:
    """`start` or `end` of the window, or the `struct` of both."""

    name: str


@dataclass(frozen=True)
class _Rows:
    """The known facts about the rows of a node.

    Args:
        meanings: Known columns, by expression id.
        order: Expression ids of the columns, if their order is known.
        window: Window of the rows, made by an aggregation; before the aggregation, of its window column.
        aggregated: True if rows are aggregates.
        stateful: True if a row depends on others.
        static: True if the rows are not made of the input.
        reason: Reason why nothing is proven.
    """

    meanings: Mapping[int, _Column | _Part] = field(default_factory=dict)
    order: tuple[int, ...] | None = None
    window: EventWindow | None = None
    aggregated: bool = False
    stateful: bool = False
    static: bool = False
    reason: str = ""


class _Reader:
    """Reads one plan."""

    def __init__(self, given: Input) -> None:
        self._input = tree(given.plan)
        self._columns = given.columns
        self._event_time = given.event_time

    def rows(self, node: Node) -> _Rows:
        rows = self._read(node)
        unfinished = rows.window is not None and not rows.aggregated
        return replace(rows, window=None) if unfinished else rows

    def _read(self, node: Node) -> _Rows:
        if node == self._input:
            meanings = {number: _Column(name) for name, number in self._columns}
            return _Rows(meanings, tuple(number for _, number in self._columns))
        if not node.children:
            return _leaf(node)
        children = [self._read(child) for child in node.children]
        failed = next((child for child in children if child.reason), None)
        if failed is not None or all(child.static for child in children):
            return failed or _Rows(static=True)
        if node.kind in _ROW_BY_ROW:
            return children[0]
        readers = {
            "Aggregate": self._aggregate,
            "Deduplicate": self._deduplicate,
            "Expand": self._expand,
            "Generate": _generate,
            "Join": _join,
            "Project": self._select,
            "Union": _union,
        }
        if node.kind not in readers:
            return _unproven(f"{node.kind} does not work row by row", children)
        return readers[node.kind](node, children)

    def _select(self, node: Node, children: Sequence[_Rows]) -> _Rows:
        return self._project(node.expressions("projectList"), children[0])

    def _project(self, expressions: Sequence[Node], child: _Rows) -> _Rows:
        meanings: dict[int, _Column | _Part] = {}
        window = child.window
        for expression in expressions:
            found = None if child.aggregated else self._window_of(expression, child)
            if found is not None:
                if window is not None:
                    return _unproven("it makes windows twice", [child])
                window, meaning = found, _Part("struct")
            else:
                meaning = _meaning_of(expression, child)  # type: ignore[assignment]  # None: no meaning
            if meaning is not None:
                meanings[expression.expression_id] = meaning
        return replace(
            child, meanings=meanings, order=tuple(e.expression_id for e in expressions), window=window
        )

    def _window_of(self, expression: Node, child: _Rows) -> EventWindow | None:
        """Return the window that an expression makes from the event-time column."""
        struct = expression.children[0] if expression.kind == "Alias" else expression
        if not is_window(struct):
            return None
        times = {n.expression_id for n in struct.walk() if n.kind == "AttributeReference"}
        if [child.meanings.get(number) for number in times] != [_Column(self._event_time or "")]:
            return None
        return read_window(struct)

    def _expand(self, node: Node, children: Sequence[_Rows]) -> _Rows:
        """Return the rows of sliding windows: one for each window of a row, the window's struct first."""
        (child,) = children
        output = [expression.expression_id for expression in node.expressions("output")]
        first, *others = (expressions(projection) for projection in node.fields["projections"])
        window = self._window_of(first[0], child)
        if window is None or any(self._window_of(projection[0], child) is None for projection in others):
            return _unproven("it gives a row several times", children)
        kept = {
            number: child.meanings[number]
            for place, number in enumerate(output[1:], start=1)
            if number in child.meanings and first[place].kind == "AttributeReference"
        }
        return replace(
            child, meanings={output[0]: _Part("struct"), **kept}, order=tuple(output), window=window
        )

    def _deduplicate(self, node: Node, children: Sequence[_Rows]) -> _Rows:
        """Return deduplicated rows; duplicates share a window only if they have the same event time."""
        (child,) = children
        keys = [_meaning_of(expression, child) for expression in node.expressions("keys")]
        if child.aggregated or _Column(self._event_time or "") not in keys:
            return _unproven(
                "it removes repetitions without the event time among their columns", children, stateful=True
            )
        return replace(child, stateful=True)

    def _aggregate(self, node: Node, children: Sequence[_Rows]) -> _Rows:
        (child,) = children
        groups = [_meaning_of(expression, child) for expression in node.expressions("groupingExpressions")]
        if child.aggregated:
            return _unproven("it aggregates aggregates", children, stateful=True)
        if child.window is None or _Part("struct") not in groups:
            return _unproven("it aggregates without windows of event time", children, stateful=True)
        grouped = replace(child, aggregated=True, stateful=True)
        results = self._project(node.expressions("aggregateExpressions"), grouped)
        windows = {number: m for number, m in results.meanings.items() if isinstance(m, _Part)}
        return replace(results, meanings=windows)


def _leaf(node: Node) -> _Rows:
    if node.kind.startswith("StreamingRelation") or node.kind == "StreamingExecutionRelation":
        return _Rows(reason="it reads a stream of its own, or its input twice", stateful=True)
    return _Rows(static=True)


def _join(node: Node, children: Sequence[_Rows]) -> _Rows:
    kind = str((node.fields.get("joinType") or {}).get("object", "")).rpartition(".")[2].rstrip("$")
    moving = [side for side, child in enumerate(children) if not child.static]
    if len(moving) != 1 or moving[0] not in _SIDES_KEPT.get(kind, ()):
        return _unproven("it joins its rows with each other", children)
    return replace(children[moving[0]], order=None)


def _generate(_: Node, children: Sequence[_Rows]) -> _Rows:
    return replace(children[0], order=None)


def _union(_: Node, children: Sequence[_Rows]) -> _Rows:
    """Return the columns with the same meaning in every branch; the id is the first branch's."""
    first, *others = children
    if any(child.order is None or child.static or child.aggregated for child in children):
        return _unproven("it unites rows of different kinds", children)
    meanings = {
        number: meaning
        for place, number in enumerate(first.order or ())
        if (meaning := first.meanings.get(number)) is not None
        and all(other.meanings.get((other.order or ())[place]) == meaning for other in others)
    }
    return replace(first, meanings=meanings, window=None, stateful=any(child.stateful for child in children))


def _unproven(reason: str, children: Sequence[_Rows], *, stateful: bool = False) -> _Rows:
    return _Rows(reason=reason, stateful=stateful or any(child.stateful for child in children))


def _meaning_of(expression: Node, child: _Rows) -> _Column | _Part | None:
    """Return an expression's meaning: a column, or a part of the window; None if it is computed."""
    inner = expression.children[0] if expression.kind == "Alias" else expression
    if inner.kind == "AttributeReference":
        return child.meanings.get(inner.expression_id)
    if inner.kind == "GetStructField" and _meaning_of(inner.children[0], child) == _Part("struct"):
        return _Part(("start", "end")[inner.fields["ordinal"]])
    return None
