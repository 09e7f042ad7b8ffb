"""A Tidemill error raised in a task reaches the driver as text, and becomes a Tidemill error again."""

from __future__ import annotations

import pytest

from tidemill.engine.classify import classify
from tidemill.errors import DataError, SpecError, TidemillError

INVALID = DataError(
    "TIDE-DATA-001",
    "A record does not fit the payload schema, and the pipeline says to stop then.",
    facts={"topic": "orders", "partition": 3, "offset": 41, "reason": "wrong_type:id"},
    fix="correct the producer or the schema",
)


def as_spark_tells_it(error: TidemillError) -> Exception:
    trace = "An exception was thrown from the Python worker: Traceback (most recent call last):\n  File …\n"
    raised = f"tidemill.errors.{type(error).__name__}: {error}\n\n\tat org.apache.spark.api.python.Runner"
    return RuntimeError(f"PythonException: {trace}{raised}")


def test_an_error_of_a_task_keeps_its_id_its_facts_and_its_fix() -> None:
    error = classify(as_spark_tells_it(INVALID))
    assert isinstance(error, DataError)
    assert (error.error_id, error.problem, error.fix) == (INVALID.error_id, INVALID.problem, INVALID.fix)
    assert error.facts == {"topic": "orders", "partition": "3", "offset": "41", "reason": "wrong_type:id"}


def test_a_fact_may_hold_blanks() -> None:
    cause = SpecError("TIDE-SPEC-001", "Wrong.", facts={"file": "a b.yaml", "line": 2})
    assert classify(as_spark_tells_it(cause)).facts == {"file": "a b.yaml", "line": "2"}


@pytest.mark.parametrize("facts", [{}, {"count": 0}])
def test_an_error_without_fix_is_read_back(facts: dict[str, object]) -> None:
    error = classify(as_spark_tells_it(DataError("TIDE-DATA-009", "Bad.", facts=facts)))
    assert (error.error_id, error.fix, set(error.facts)) == ("TIDE-DATA-009", "", set(facts))
