"""Find the schema with which each framed record was written: in the declaration, or in a registry."""

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
        """Return the schema, or the reason why records with the number are invalid."""


class NamedWriters(Generic[S]):
    """Schemas that the declaration names.

    Args:
        schemas: Schemas by number.
        check: Raises if records of a schema cannot be read with the pipeline's schema.
    """

    def __init__(self, schemas: Mapping[int, S], check: Callable[[S], None]) -> None:
        for schema in schemas.values():
            check(schema)
        self._schemas = dict(schemas)

    def find(self, number: int) -> S | str:
        """Return the schema, or `unknown_schema_id`."""
        return self._schemas.get(number, f"{UNKNOWN_SCHEMA_ID}:{number}")


class RegisteredWriters(Generic[S]):
    """Schemas from a registry, requested when their records arrive.

    Args:
        find: Returns the content of a schema by its number; None for an unknown one.
        load: Parses the content of a numbered schema, and checks that it fits.
    """

    def __init__(self, find: Callable[[int], bytes | None], load: Callable[[bytes, int], S]) -> None:
        self._find = find
        self._load = load
        self._found: dict[int, S | str] = {}

    def find(self, number: int) -> S | str:
        """Return the schema, or the reason why records with the number are invalid.

        Raises:
            UnavailableError: If the registry does not answer, because then nothing is known about the
                records.
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
            # A problem of one writer's schema rejects its records; any other problem stops the pipeline.
            if not error.error_id.startswith("TIDE-SPEC-"):
                raise
            return f"{UNREADABLE_SCHEMA}:{number}"
