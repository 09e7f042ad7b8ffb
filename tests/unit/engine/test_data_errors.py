"""Errors at which a record may be to blame: what is said of them, to the letter, is nothing of the record."""

# ruff: noqa: E501  # the texts are long where Spark's are

from __future__ import annotations

import pickle

import pytest

from tests.support.spark_errors import (
    IN_TASK,
    IN_WORKER,
    NumberFormatException,
    ParseException,
    Py4JJavaError,
    PythonException,
)
from tidemill.engine.classify import classify
from tidemill.errors import DataError, InternalError, TidemillError

CASES = {
    "a UDF that fails": (
        PythonException(IN_WORKER.format(error="ZeroDivisionError: division by zero")),
        DataError,
        "TIDE-DATA-003",
        "ZeroDivisionError at /work/spark_apps/transforms/orders.py:7 in price",
    ),
    "a UDF that fails while Delta writes": (
        Py4JJavaError(
            IN_TASK.format(
                cause="org.apache.spark.api.python.PythonException: [PYTHON_EXCEPTION] "
                + IN_WORKER.format(error="KeyError: 'price'\n SQLSTATE: 38000")
            )
        ),
        DataError,
        "TIDE-DATA-003",
        "KeyError at /work/spark_apps/transforms/orders.py:7 in price",
    ),
    "a value that cannot be cast": (
        NumberFormatException(
            '[CAST_INVALID_INPUT] The value \'x\' of the type "STRING" cannot be cast to "INT" because it is '
            'malformed. SQLSTATE: 22018\n== DataFrame ==\n"cast" was called from\n/transforms/orders.py:9\n'
        ),
        DataError,
        "TIDE-DATA-003",
        "[CAST_INVALID_INPUT] at /transforms/orders.py:9",
    ),
    "a value with the words of something else": (
        NumberFormatException(
            "[CAST_INVALID_INPUT] The value 'Connection refused; No space left on device' of … SQLSTATE: 22018"
        ),
        DataError,
        "TIDE-DATA-003",
        "[CAST_INVALID_INPUT]",
    ),
    "a key that a map has twice": (
        RuntimeError("[DUPLICATED_MAP_KEY] Duplicate map key MARK was found. SQLSTATE: 23505"),
        DataError,
        "TIDE-DATA-003",
        "[DUPLICATED_MAP_KEY]",
    ),
    "a row that breaks a constraint": (
        Py4JJavaError(
            "[DELTA_VIOLATE_CONSTRAINT_WITH_VALUES] CHECK constraint positive (id > 0) violated by row with "
            "values:\n - id : -17\nSQLSTATE: 23001"
        ),
        DataError,
        "TIDE-DATA-003",
        "Py4JJavaError: [DELTA_VIOLATE_CONSTRAINT_WITH_VALUES] CHECK constraint positive (id > 0) violated by row with values:",
    ),
    "a task that fails for an unknown reason": (
        Py4JJavaError(
            "calling o320.save.\n: org.apache.spark.SparkException: Job aborted due to stage failure: Lost task 1.0 in "
            "stage 9.0: java.lang.IllegalStateException: MARK"
        ),
        InternalError,
        "TIDE-INT-001",
        "java.lang.IllegalStateException",
    ),
    "a division by zero while Delta writes": (
        Py4JJavaError(
            IN_TASK.format(
                cause="org.apache.spark.SparkArithmeticException: [DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012"
            )
        ),
        DataError,
        "TIDE-DATA-003",
        "[DIVIDE_BY_ZERO]",
    ),
    "an expression that is no SQL": (
        ParseException(
            "\n[PARSE_SYNTAX_ERROR] Syntax error at or near end of input. SQLSTATE: 42601 (line 1, pos 4)"
        ),
        DataError,
        "TIDE-DATA-003",
        "[PARSE_SYNTAX_ERROR] Syntax error at or near end of input. SQLSTATE: 42601 (line 1, pos 4)",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_class_or_condition_and_place_are_told(name: str) -> None:
    error, kind, error_id, reason = CASES[name]
    found = classify(error)
    assert (type(found), found.error_id, found.facts["reason"]) == (kind, error_id, reason)
    assert found.fix
    copy: TidemillError = pickle.loads(pickle.dumps(found))
    assert (type(copy), copy.error_id, copy.facts, str(copy)) == (kind, error_id, found.facts, str(found))
