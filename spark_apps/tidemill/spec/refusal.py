"""Combinations of a pipeline's parts, and refusals of combinations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from tidemill.errors import SpecError


@dataclass(frozen=True)
class Cell:
    """One combination. An empty value is not known yet."""

    runtime: str = ""
    source: str = ""
    run: str = ""
    trigger: str = ""
    sink: str = ""
    mode: str = ""


# Computed once, because a thousand pipelines need it thousands of times whenever Airflow parses DAG files.
_DIMENSIONS = tuple(dimension.name for dimension in fields(Cell))


@dataclass(frozen=True)
class Refusal:
    """A set of refused combinations: all combinations of the given values.

    Args:
        error_id: Stable id.
        what: Description of the combination for the reference.
        why: Reason for the refusal, as a sentence.
        instead: Fix.
        runtime: Values of each dimension; an empty set matches all.
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
        """Return True if it refuses this combination."""
        wanted = ((getattr(self, name), getattr(cell, name)) for name in _DIMENSIONS)
        return all(not values or value in values for values, value in wanted)

    def error(self, facts: Mapping[str, object]) -> SpecError:
        """Return the error of a pipeline with this combination."""
        return SpecError(self.error_id, self.why, facts=facts, fix=self.instead)


class RefusedError(ValueError):
    """A refused combination found by a model's validator.

    `explain` converts it to an error with the refusal's id.

    Args:
        refusal: The refusal.
        found: Parts of the file that show the combination.
    """

    def __init__(self, refusal: Refusal, **found: object) -> None:
        super().__init__(f"{refusal.why} To fix: {refusal.instead}")
        self.refusal = refusal
        self.found = found
