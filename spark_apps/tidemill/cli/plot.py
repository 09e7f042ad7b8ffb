"""Character plots: columns over an ordered axis, and bars by key. Pure functions from points to lines."""

from __future__ import annotations

from collections.abc import Sequence

from tidemill.ledger.newest_rows import Point

# Eighths of a character cell, from below and from the left.
_COLUMN = " ▁▂▃▄▅▆▇█"
_BAR = " ▏▎▍▌▋▊▉█"
_EIGHTHS = 8

# Maximum cells of a bar's label. Longer labels are truncated.
LABEL_CELLS = 24


def columns(points: Sequence[Point], height: int) -> list[str]:
    """Return a plot with one column per point, scaled from the lowest to the highest value."""
    values = [point.value for point in points]
    low, high = min(values), max(values)
    levels = [_level(value, low, high, height * _EIGHTHS) for value in values]
    axis = [number(high), *[""] * (height - 2), number(low)]
    width = max(map(len, axis))
    lines = []
    for row, name in zip(reversed(range(height)), axis, strict=True):
        cells = "".join(_COLUMN[max(0, min(_EIGHTHS, level - row * _EIGHTHS))] for level in levels)
        lines.append(f"{name:>{width}} ┤{cells}".rstrip())
    return [*lines, f"{'':>{width}} └{'─' * len(values)}", f"{'':>{width}}  {_ends(points)}"]


def bars(points: Sequence[Point], width: int) -> list[str]:
    """Return a plot with one bar per point from zero, negative bars to the left."""
    from rich.cells import cell_len, set_cell_size

    values = [point.value for point in points]
    low, high = min(0.0, *values), max(0.0, *values)
    unit = width / (high - low) if high > low else 0.0
    zero = round(-low * unit)
    label_width = min(LABEL_CELLS, max(cell_len(point.label) for point in points))
    labels = [set_cell_size(point.label, label_width) for point in points]
    drawn = [f"{_bar(value * unit, zero):<{width}} {number(value)}" for value in values]
    return [f"{label} {bar}" for label, bar in zip(labels, drawn, strict=True)]


def sparkline(values: Sequence[float]) -> str:
    """Return a one-line plot with one column per value, scaled from zero to the highest."""
    high = max(values, default=0.0)
    return "".join(_COLUMN[_level(value, 0.0, high, _EIGHTHS)] for value in values)


def number(value: float) -> str:
    """Return a number in few characters."""
    return f"{value:.0f}" if value == int(value) and abs(value) < 1e9 else f"{value:.4g}"


def _level(value: float, low: float, high: float, most: int) -> int:
    """Return a level from 1 to `most`, or the middle if all values are equal."""
    return most // 2 if high == low else 1 + round((value - low) / (high - low) * (most - 1))


def _bar(cells: float, zero: int) -> str:
    if cells < 0:
        length = round(-cells)
        return " " * (zero - length) + "█" * length
    full, part = divmod(round(cells * _EIGHTHS), _EIGHTHS)
    return " " * zero + "█" * full + (_BAR[part] if part else "")


def _ends(points: Sequence[Point]) -> str:
    """Return the first and the last label below their columns, if there is room for both."""
    first, last = points[0].label, points[-1].label
    room = len(points) - len(first) - len(last)
    return f"{first}{' ' * room}{last}" if room > 0 else f"{first} … {last}" if first != last else first
