"""Output of commands: tables and trees for people, JSON for programs. Errors go to stderr elsewhere."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from datetime import date, time, timedelta
from decimal import Decimal
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidemill.spec.readable import shown

if TYPE_CHECKING:
    from rich.console import Console

# Columns of output to a pipe or file, wide enough that no table line wraps.
PIPE_WIDTH = 240


def console() -> Console:
    """Return a console for standard output with the width of the terminal."""
    from rich.console import Console

    return Console() if sys.stdout.isatty() else Console(width=PIPE_WIDTH)


def say(text: str) -> None:
    """Print one line of text without markup."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def print_json(document: Any) -> None:
    """Print one JSON document."""
    say(json.dumps(_finite(document), indent=2, default=_plain))


def print_table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table with empty cells for None."""
    console().print(table(headings, rows))


def table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> Any:
    """Return a rich table with plain-text cells."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    made = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for heading in headings:
        # Without markup, because rich would interpret `tags[red]` as markup.
        made.add_column(Text(heading))
    for row in rows:
        made.add_row(*(Text(shown(cell)) for cell in row))
    return made


def _finite(value: Any) -> Any:
    """Convert NaN and infinity to text, because JSON has no numbers for them."""
    if isinstance(value, float) and not isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {name: _finite(part) for name, part in value.items()}
    return [_finite(part) for part in value] if isinstance(value, list) else value


def _plain(value: object) -> object:
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, set | frozenset | tuple):
        return sorted(value)
    raise TypeError(f"{type(value).__name__} has no plain form")
