"""Human-readable values: timestamps, ages, sizes. Standard library only, because `--help` imports it."""

from __future__ import annotations

from datetime import datetime, timedelta


def shown(value: object) -> str:
    """Return a value in human-readable form."""
    if value is None:
        return ""
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}"
    if isinstance(value, timedelta):
        return short_duration(value)
    return str(value)


def plain(value: object) -> str:
    """Return a value in one line without control characters for terminals."""
    return "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in shown(value))


def cell(value: object) -> str:
    """Return a row's value in one line: times with fractions, structs with field names."""
    return "" if value is None else plain(_part(value))


def _part(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, datetime):
        fraction = f".{value:%f}".rstrip("0").rstrip(".")
        return shown(value) + fraction
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {_part(part)}" for name, part in value.items()) + "}"
    if isinstance(value, list):
        # Arrow returns a map as pairs.
        if value and all(isinstance(part, tuple) for part in value):
            return "{" + ", ".join(f"{_part(key)} -> {_part(part)}" for key, part in value) + "}"
        return "[" + ", ".join(map(_part, value)) + "]"
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return str(value)


def short_duration(duration: timedelta) -> str:
    """Return a rounded duration such as `12 s`, `5 min`, `3.5 h` or `2 days`."""
    seconds = duration.total_seconds()
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 172_800 else f"{seconds / 86_400:.0f} days"


def readable_size(size: float) -> str:
    """Return a size in a decimal unit with few digits, e.g. `812 B` or `1.2 MB`."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"
