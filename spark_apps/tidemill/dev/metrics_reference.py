"""The tables of metrics in `observe/README.md`, generated from the table in the code.

The text around them on the page is kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tidemill.metrics import CONTROL_METRICS, DRIVER_METRICS, Metric

PAGE = Path("spark_apps/tidemill/observe/README.md")

# Each table is between two lines of this form.
_TABLES = {"driver": DRIVER_METRICS, "control": CONTROL_METRICS}
_BEGIN, _END = "<!-- metrics of: {} -->", "<!-- end -->"


def with_tables(text: str) -> str:
    """Return a page with the current tables."""
    for name, metrics in _TABLES.items():
        before, begin, rest = text.partition(_BEGIN.format(name))
        _, end, after = rest.partition(_END)
        text = f"{before}{begin}\n{_table(metrics)}\n{end}{after}"
    return text


def write_metrics_files(folder: Path) -> list[Path]:
    """Write the tables; nothing in a project without the engine."""
    page = folder / PAGE
    if not page.is_file():
        return []
    page.write_text(with_tables(page.read_text(encoding="utf-8")), encoding="utf-8")
    return [page]


def differing_metrics_files(folder: Path) -> list[Path]:
    """Return the page if its tables are outdated."""
    page = folder / PAGE
    text = page.read_text(encoding="utf-8") if page.is_file() else ""
    return [page] if text and text != with_tables(text) else []


def _table(metrics: Iterable[Metric]) -> str:
    head = ("| metric | kind | labels | |", "|---|---|---|---|")
    rows = (f"| `{m.name}` | {m.kind} | {', '.join(m.labels)} | {m.about} |" for m in metrics)
    return "\n".join((*head, *rows))
