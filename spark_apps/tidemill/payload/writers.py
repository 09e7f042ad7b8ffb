"""With which schema each framed record was written: named in the declaration, or told by a registry."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, Protocol, TypeVar

from tidemill.errors import SpecError
from tidemill.payload.registry_header import UNKNOWN_SCHEMA_ID

# A schema that does not fit the pipeline's, or is of another kind.
UNREADABLE_SCHEMA = "unreadable_schema"

S_co = TypeVar("S_co", covariant=True)
S = TypeVar("S")


class Writers(Protocol[S_co]):
    """Schemas by number."""

    def find(self, number: int) -> S_co | str:
        """The schema, or the reason why records with the number are invalid."""


class NamedWriters(Generic[S]):
    """Those that the declaration names.

    Args:
        schemas: By number.
        check: Raises if one cannot be read as the pipeline's.
    """

    def __init__(self, schemas: Mapping[int, S], check: Callable[[S], None]) -> None:
        for schema in schemas.values():
            check(schema)
        self._schemas = dict(schemas)

    def find(self, number: int) -> S | str:
        """The schema, or `unknown_schema_id`."""
        return self._schemas.get(number, f"{UNKNOWN_SCHEMA_ID}:{number}")


class RegisteredWriters(Generic[S]):
    """Those that a registry tells, as their records come.

    Args:
        find: Content of a schema by its number; None for an unknown one.
        load: Makes a schema of it, by its number, and checks that it fits.
    """

    def __init__(self, find: Callable[[int], bytes | None], load: Callable[[bytes, int], S]) -> None:
        self._find = find
        self._load = load
        self._found: dict[int, S | str] = {}

    def find(self, number: int) -> S | str:
        """The schema, or why records with the number are invalid.

        Raises:
            UnavailableError: If the registry does not answer: nothing is known of the records then.
        """
        if number not in self._found:
            self._found[number] = self._look(number)
        return self._found[number]

    def _look(self, number: int) -> S | str:
        try:
            content = self._find(number)
            if content is None:
                return f"{UNKNOWN_SCHEMA_ID}:{number}"
            return self._load(content, number)
        except SpecError as error:
            # What is wrong with one writer's schema is told of its records; anything else stops the pipeline.
            if not error.error_id.startswith("TIDE-SPEC-"):
                raise
            return f"{UNREADABLE_SCHEMA}:{number}"
