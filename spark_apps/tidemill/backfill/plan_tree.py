"""A Spark plan as a tree, from Spark's own JSON (`TreeNode.toJSON`).

The JSON is a list of nodes in depth-first order, each with the number of its children. Expressions of a node
are lists of the same form.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Document = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Node:
    """A node of a plan, or of an expression.

    Args:
        kind: Name of its class, without the package.
        fields: Fields as Spark writes them.
        children: Child nodes, in order.
    """

    kind: str
    fields: Mapping[str, Any]
    children: tuple[Node, ...]

    @property
    def expression_id(self) -> int:
        """Return the id of a named expression's value in the whole plan; -1 for others."""
        return int(self.fields["exprId"]["id"]) if "exprId" in self.fields else -1

    def walk(self) -> Iterator[Node]:
        """Yield the node and all its descendants."""
        yield self
        for child in self.children:
            yield from child.walk()

    def expressions(self, name: str) -> list[Node]:
        """Return the expressions in a list field."""
        return expressions(self.fields.get(name) or ())

    def all_expressions(self) -> Iterator[Node]:
        """Yield every expression in any field, as a tree."""
        yield from _expressions_in(list(self.fields.values()))


def _expressions_in(value: Any) -> Iterator[Node]:
    if not isinstance(value, list):
        return
    if value and isinstance(value[0], dict) and "num-children" in value[0]:
        yield tree(value)
        return
    for part in value:
        yield from _expressions_in(part)


def expressions(documents: Sequence[Document]) -> list[Node]:
    """Return each document as a tree."""
    return [tree(document) for document in documents]


def tree(document: Document) -> Node:
    """Return the tree of a document."""
    return _next_node(iter(document))


def _next_node(nodes: Iterator[Mapping[str, Any]]) -> Node:
    fields = next(nodes)
    children = tuple(_next_node(nodes) for _ in range(fields["num-children"]))
    return Node(str(fields["class"]).rpartition(".")[2], fields, children)
