"""The matrix of supported joins, for conf/README.md and for the test that runs each of them.

Spark's checker and `engine/plan_check` refuse the others by the rules that are named here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tidemill.spec.transform_rules import JOIN_SIDE, UNBOUNDED_JOIN, UNBOUNDED_STATE, Rule

Input = Literal["stream", "table"]
Kind = Literal["inner", "left", "right", "full", "semi"]

KINDS: tuple[Kind, ...] = ("inner", "left", "right", "full", "semi")


@dataclass(frozen=True)
class Join:
    """One cell of the matrix.

    Args:
        left: Left side of the join.
        right: Right side of the join.
        kind: Kind of join.
        refused: Rule that refuses it; None if it runs.
        needs: The sides of two streams of which one must have a watermark in Spark; empty if none.
    """

    left: Input
    right: Input
    kind: Kind
    refused: Rule | None = None
    needs: tuple[str, ...] = ()

    @property
    def stateful(self) -> bool:
        """Return True if it keeps rows from batch to batch."""
        return (self.left, self.right) == ("stream", "stream")


_SIDES: tuple[tuple[Input, Input], ...] = (
    ("table", "table"),
    ("stream", "table"),
    ("table", "stream"),
    ("stream", "stream"),
)
_REFUSED: dict[tuple[Input, Input], tuple[Kind, ...]] = {
    ("stream", "table"): ("right", "full"),
    ("table", "stream"): ("left", "full", "semi"),
}
_NEEDS: dict[Kind, tuple[str, ...]] = {
    "left": ("right",),
    "right": ("left",),
    "full": ("left", "right"),
    "semi": ("right",),
}

JOINS = tuple(
    Join(
        *sides,
        kind,
        refused=JOIN_SIDE if kind in _REFUSED.get(sides, ()) else None,
        needs=_NEEDS.get(kind, ()) if sides == ("stream", "stream") else (),
    )
    for sides in _SIDES
    for kind in KINDS
)

_HEAD = f"""## Which joins run

A table is a source with `as: table`, or rows that the transform creates. `semi` is Spark's `left_semi`. A
join with a table keeps no state, because each batch is joined with the newest version of a Delta table, or
with the files that a folder has when the batch begins. A join of two streams keeps the rows of both until
the watermarks pass them. It needs `event_time` on both sides and a bound in time, and is refused without
them ({UNBOUNDED_JOIN.error_id}). With `run.unbounded_state: accepted`, an inner join keeps the rows of both
forever ({UNBOUNDED_STATE.error_id}).
"""
_FOOT = """
Spark requires only the watermark that shows that a row has no match. Without the other watermark, it never
removes the rows of one side, and the growing state ends the stream eventually. Tidemill therefore requires
both.
"""


def joins_reference() -> str:
    """Return the matrix as a Markdown section of the conf reference."""
    lines = [
        _HEAD,
        "| left | right | " + " | ".join(f"`{kind}`" for kind in KINDS) + " |",
        "|---" * (2 + len(KINDS)) + "|",
    ]
    for sides in _SIDES:
        cells = [_cell(join) for join in JOINS if (join.left, join.right) == sides]
        lines.append(f"| {sides[0]} | {sides[1]} | " + " | ".join(cells) + " |")
    lines += [_FOOT, "| two streams | Spark needs the watermark of | optional to Spark |", "|---|---|---|"]
    lines += [f"| `{join.kind}` | {_needed(join)} | {_optional(join)} |" for join in JOINS if join.stateful]
    return "\n".join(lines) + "\n"


def _cell(join: Join) -> str:
    if join.refused is not None:
        return f"refused: {join.refused.error_id}"
    return "with state" if join.stateful else "without state"


def _needed(join: Join) -> str:
    return " or ".join(f"the {side}" for side in join.needs) or "neither"


def _optional(join: Join) -> str:
    if len(join.needs) > 1:
        return "the other"
    return " and ".join(f"the {side}" for side in ("left", "right") if side not in join.needs)
