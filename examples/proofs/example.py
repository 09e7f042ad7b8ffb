"""An example: the code in a document, the pipelines that do the same here, and their proof."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from examples.proofs.stage import Stage


# Before the name of a pipeline of this repository's own.
REPOSITORY = "repository/"


@dataclass(frozen=True)
class Result:
    """The rows of one output, and the rows that plain Python computes from the same input.

    Args:
        what: The output.
        rows: Its rows, in any order.
        expected: The rows that it must have.
    """

    what: str
    rows: Sequence[Any]
    expected: Sequence[Any]

    @property
    def seen(self) -> list[str]:
        """Return the rows, sorted."""
        return sorted(map(_text, self.rows))

    @property
    def wanted(self) -> list[str]:
        """The same of the expected ones."""
        return sorted(map(_text, self.expected))

    @property
    def agrees(self) -> bool:
        """Return True if both have the same rows equally often; an empty result proves nothing."""
        return bool(self.expected) and self.seen == self.wanted


def _text(value: object) -> str:
    """Return a value as text; times are in UTC."""
    if isinstance(value, tuple | list):
        return f"({', '.join(map(_text, value))})"
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    return repr(value)


Proof = Callable[["Stage"], Sequence[Result]]


@dataclass(frozen=True)
class Example:
    """One example of the documents.

    Args:
        number: Its place in the list of all examples.
        document: Document with the example.
        shows: Subject of the example.
        pipelines: What does it here: files of `conf/pipelines`; `repository/NAME` is one of this repository.
        refused: Its own wrong forms, files of `wrong/conf/pipelines`, with the error that refuses each.
        reported: The same for what is reported and started.
        note: Where the platform, or Spark 4.2, differs from the document; or why it does not run yet.
        proof: Runs it; None where nothing runs.
    """

    number: int
    document: str
    shows: str
    pipelines: tuple[str, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)
    reported: Mapping[str, str] = field(default_factory=dict)
    note: str = ""
    proof: Proof | None = None
