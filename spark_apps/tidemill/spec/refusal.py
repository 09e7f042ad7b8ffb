"""A combination of what a pipeline declares, and its refusal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from tidemill.errors import SpecError


@dataclass(frozen=True)
class Cell:
    """One combination; a value that is empty is not known yet."""

    runtime: str = ""
    source: str = ""
    run: str = ""
    trigger: str = ""
    sink: str = ""
    mode: str = ""


# Once: a thousand pipelines ask thousands of times, each time that Airflow parses DAG files.
_DIMENSIONS = tuple(dimension.name for dimension in fields(Cell))


@dataclass(frozen=True)
class Refusal:
    """Combinations that are refused: all whose values are among those that are named.

    Args:
        error_id: Stable id.
        what: What is combined, as the reference shows it.
        why: Why that is refused; a sentence.
        instead: What to write instead.
        runtime: Values of each dimension; empty fits all.
    """

    error_id: str
    what: str
    why: str
    instead: str
    runtime: frozenset[str] = frozenset()
    source: frozenset[str] = frozenset()
    run: frozenset[str] = frozenset()
    trigger: frozenset[str] = frozenset()
    sink: frozenset[str] = frozenset()
    mode: frozenset[str] = frozenset()

    def fits(self, cell: Cell) -> bool:
        """Whether it refuses this combination."""
        wanted = ((getattr(self, name), getattr(cell, name)) for name in _DIMENSIONS)
        return all(not values or value in values for values, value in wanted)

    def error(self, facts: Mapping[str, object]) -> SpecError:
        """The error of a pipeline that combines this."""
        return SpecError(self.error_id, self.why, facts=facts, fix=self.instead)


class RefusedError(ValueError):
    """A model's validator found a refused combination; `explain` makes it an error with the refusal's id.

    Args:
        refusal: Which.
        found: What of the file shows it.
    """

    def __init__(self, refusal: Refusal, **found: object) -> None:
        super().__init__(f"{refusal.why} To fix: {refusal.instead}")
        self.refusal = refusal
        self.found = found
