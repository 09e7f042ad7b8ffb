"""The expression that Spark makes of `window()`, and its parameters (TimeWindowing, Spark 4.2).

It is a struct of `start` and `end`: start = t - (t - offset) % slide, less whole slides; end = start +
length, all in microseconds. The end of a session window is its event's time plus the gap, without a
remainder.
"""

from __future__ import annotations

from datetime import timedelta

from tidemill.backfill.plan_tree import Node
from tidemill.backfill.row_origin import EventWindow

_MICROSECOND = timedelta(microseconds=1)


def is_window(struct: Node) -> bool:
    """Return True if the expression is a window of Spark."""
    edges = struct.children[1::2]
    return (
        struct.kind == "CreateNamedStruct"
        and len(edges) == 2
        and all(_unwrapped(edge).kind == "PreciseTimestampConversion" for edge in edges)
    )


def read_window(struct: Node) -> EventWindow | None:
    """Return the window of a window expression; None if its parameters are not constant."""
    start, end = struct.children[1::2]
    remainders = [node for node in start.walk() if node.kind == "Remainder"]
    if not remainders:
        return EventWindow(kind="session")
    slides = {_microseconds(node.children[1]) for node in remainders}
    offsets = {_microseconds(node.children[0].children[1]) for node in remainders}
    end = _unwrapped(end).children[0]
    length = _microseconds(end.children[1]) if end.kind == "Add" else None
    if len(slides) != 1 or len(offsets) != 1:
        return None
    (slide,), (offset,) = slides, offsets
    if length is None or slide is None or offset is None:
        return None
    kind = "tumbling" if length == slide else "sliding"
    return EventWindow(kind=kind, length=length, slide=slide, offset=offset)


def _unwrapped(node: Node) -> Node:
    return node.children[0] if node.kind == "KnownNullable" else node


def _microseconds(node: Node) -> timedelta | None:
    is_number = node.kind == "Literal" and node.fields["dataType"] == "long"
    return int(node.fields["value"]) * _MICROSECOND if is_number else None
