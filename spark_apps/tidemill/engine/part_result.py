"""The result of a part, an operation's step in a separate process, stored for the process that waits for it.

This module needs no Spark. The part writes the result where Spark runs, and the operation reads it where
Spark does not run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict

import tidemill.errors
from tidemill.errors import TidemillError
from tidemill.names import Layout
from tidemill.storage.store import Store


class PartResult(BaseModel):
    """The result of one part.

    Args:
        run_id: Id of the part.
        error: The error that it failed with, including its class; None if it succeeded.
        answer: The answer, as plain data.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    v: int = 1
    run_id: str
    error: dict[str, Any] | None = None
    answer: Any = None

    def answer_or_raise(self) -> Any:
        """Return the answer.

        Raises:
            TidemillError: The part's own error, as if it had been raised here.
        """
        if self.error is not None:
            raise _error_of(self.error)
        return self.answer


def write_part_result(store: Store, layout: Layout, pipeline: str, result: PartResult) -> None:
    """Store a result; it replaces an earlier result of the same part."""
    store.write_json(_path(layout, pipeline, result.run_id), result.model_dump(mode="json"))


def read_part_result(store: Store, layout: Layout, pipeline: str, run_id: str) -> PartResult | None:
    """Return the result of a part; None if it left none."""
    document = store.read_json(_path(layout, pipeline, run_id))
    return None if document is None else PartResult.model_validate(document)


def drop_part_result(store: Store, layout: Layout, pipeline: str, run_id: str) -> None:
    """Delete the result of an earlier attempt."""
    store.delete(_path(layout, pipeline, run_id))


def document_of(error: TidemillError) -> dict[str, Any]:
    """Return an error as plain data, with its class."""
    return {
        "kind": type(error).__name__,
        "id": error.error_id,
        "problem": error.problem,
        "facts": {name: str(value) for name, value in error.facts.items()},
        "fix": error.fix,
        "runbook": error.runbook,
    }


def _error_of(document: Mapping[str, Any]) -> TidemillError:
    kind: type[TidemillError] = getattr(tidemill.errors, document["kind"], TidemillError)
    told = {name: document[name] for name in ("facts", "fix", "runbook")}
    return kind(document["id"], document["problem"], **told)


def _path(layout: Layout, pipeline: str, run_id: str) -> str:
    return f"{layout.parts(pipeline)}/{run_id}.json"
