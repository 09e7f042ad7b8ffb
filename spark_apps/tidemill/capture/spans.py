"""Sets of integers as spans `(first, end)`, end exclusive: sequence numbers of one partition."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Span = tuple[int, int]


def union(spans: Iterable[Span]) -> tuple[Span, ...]:
    """Return the same numbers in ascending spans that do not touch."""
    found: list[Span] = []
    for first, end in sorted(span for span in spans if span[0] < span[1]):
        if found and first <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((first, end))
    return tuple(found)


def clipped(spans: Iterable[Span], within: Span) -> tuple[Span, ...]:
    """Return the part of each span that is inside another one, in order, without empty ones."""
    cut = ((max(first, within[0]), min(end, within[1])) for first, end in spans)
    return tuple(span for span in cut if span[0] < span[1])


def minus(spans: Iterable[Span], taken: Iterable[Span]) -> tuple[Span, ...]:
    """Return the numbers of `spans` that are not in `taken`."""
    left: list[Span] = []
    holes = union(taken)
    for span in union(spans):
        begins, end = span
        for start, stop in clipped(holes, span):
            left.append((begins, start))
            begins = stop
        left.append((begins, end))
    return union(left)


def common(spans: Iterable[Span], others: Sequence[Span]) -> tuple[Span, ...]:
    """Return the numbers that are in both."""
    return union(part for span in union(spans) for part in clipped(union(others), span))


def repeated(spans: Iterable[Span]) -> tuple[Span, ...]:
    """Return the numbers that are in more than one of the spans."""
    reached: int | None = None
    twice: list[Span] = []
    for first, end in sorted(span for span in spans if span[0] < span[1]):
        if reached is not None and first < reached:
            twice.append((first, min(end, reached)))
        reached = end if reached is None else max(reached, end)
    return union(twice)


def length(spans: Iterable[Span]) -> int:
    """Return the count of numbers; a number in two spans counts twice."""
    return sum(max(0, end - first) for first, end in spans)


def text(spans: Iterable[Span]) -> str:
    """Return the spans in readable form: `5-9, 12`."""
    return ", ".join(str(first) if end == first + 1 else f"{first}-{end - 1}" for first, end in spans)
