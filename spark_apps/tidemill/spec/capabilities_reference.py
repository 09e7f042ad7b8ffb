"""The tables of supported combinations in the conf reference."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tidemill.spec.capabilities import ALL_REFUSALS, SINKS, SOURCES, TRIGGERS, refusal_of
from tidemill.spec.refusal import Cell

_RUNTIMES = ("local", "kubernetes")
_RUNS = ("stream", "incremental")

_HEAD = """## What goes with what

`tidemill validate` refuses the combinations listed below, even if Spark would run them. All sinks of a
pipeline share one output mode. It is the mode of the pipeline's tables (`append`; `merge` is Spark's update
mode, `replace` its complete mode). Without tables it is the `mode` of a sink. Tables are written first, in
any order of the sinks in the file.
"""


def capabilities_reference() -> str:
    """Return the tables of sources, sinks, triggers and refused combinations as Markdown."""
    parts = [_HEAD, *_sources(), *_sinks(), *_triggers(), *_refusals()]
    return "\n".join(parts) + "\n"


def _sources() -> list[str]:
    rows = [
        (
            f"`{name}`",
            facts.promise,
            _all_or(_RUNTIMES, [r for r in _RUNTIMES if refusal_of(Cell(source=name, runtime=r)) is None]),
            _all_or(_RUNS, [r for r in _RUNS if refusal_of(Cell(source=name, run=r)) is None]),
            "yes" if facts.has_past else "no: it has no past",
            _all_or(SINKS, [sink for sink in SINKS if refusal_of(Cell(source=name, sink=sink)) is None]),
        )
        for name, facts in SOURCES.items()
    ]
    return _table(("source", "a repeated batch reads", "runtime", "mode", "backfill", "sinks"), rows)


def _sinks() -> list[str]:
    rows = [
        (
            f"`{name}`",
            ", ".join(f"`{mode}`" for mode in facts.modes),
            facts.promise,
            _all_or(_RUNTIMES, [r for r in _RUNTIMES if refusal_of(Cell(sink=name, runtime=r)) is None]),
            "written again" if facts.backfilled else "left out",
        )
        for name, facts in SINKS.items()
    ]
    return _table(("sink", "mode", "a row arrives", "runtime", "in a backfill"), rows)


def _triggers() -> list[str]:
    rows = [
        (
            facts.written,
            f"`{facts.run}`",
            _all_or(SOURCES, [s for s in SOURCES if refusal_of(Cell(source=s, trigger=name)) is None]),
            _all_or(SINKS, [s for s in SINKS if refusal_of(Cell(sink=s, trigger=name)) is None]),
            facts.what,
        )
        for name, facts in TRIGGERS.items()
    ]
    return _table(("trigger", "mode", "sources", "sinks", "batches"), rows)


def _refusals() -> list[str]:
    rows = [(refusal.error_id, refusal.what, refusal.why, refusal.instead) for refusal in ALL_REFUSALS]
    return _table(("id", "refused", "because", "instead"), rows)


def _all_or(everything: Iterable[str], found: list[str]) -> str:
    return "all" if found == list(everything) else ", ".join(f"`{name}`" for name in found)


def _table(titles: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    lines = [titles, tuple("---" for _ in titles), *rows]
    return [*("| " + " | ".join(cells) + " |" for cells in lines), ""]
