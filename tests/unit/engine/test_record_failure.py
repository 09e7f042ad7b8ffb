"""Failed batches that are a record's fault, recognized by Spark 4.2's messages."""

from __future__ import annotations

import pytest

from tidemill.engine.record_failure import RecordFailure, record_failure
from tidemill.errors import DataError

TRACE = """PythonException: An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "/work/spark_apps/transforms/orders.py", line 7, in price
    return 1 / quantity
"""
CAUSED = "\nThe above exception was the direct cause of the following exception:\n\n"


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        (TRACE + "ZeroDivisionError: division by zero\n", "ZeroDivisionError", "division by zero"),
        (TRACE + "shop.prices.PriceError: no price: 7\n", "PriceError", "no price: 7"),
        (TRACE + "AssertionError\n", "AssertionError", ""),
        (
            "Job aborted due to stage failure: Task 0 failed 1 times\nCaused by: org.apache.spark."
            "SparkArithmeticException: [DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012\n\tat …",
            "DIVIDE_BY_ZERO",
            "Division by zero.",
        ),
        (
            "[CAST_INVALID_INPUT] The value 'a\nb' of \"STRING\" cannot be cast. SQLSTATE: 22018\n==",
            "CAST_INVALID_INPUT",
            "The value 'a",
        ),
        ("[USER_RAISED_EXCEPTION] no price SQLSTATE: P0001", "USER_RAISED_EXCEPTION", "no price"),
    ],
)
def test_what_user_code_or_an_expression_says_of_a_value(text: str, error: str, message: str) -> None:
    assert record_failure(RuntimeError(text)) == RecordFailure(error, message)


@pytest.mark.parametrize(
    "text",
    [
        TRACE + "ConnectionResetError: [Errno 104] reset\n",
        TRACE + "requests.exceptions.ReadTimeout: after 5 seconds\n",
        TRACE + "MemoryError\n",
        TRACE + "ModuleNotFoundError: No module named 'shop'\n",
        TRACE + "psycopg.OperationalError: the server closed the connection\n",
        TRACE + "OSError: [Errno 28] No space left on device\n",
        # The cause decides, whatever user code made of it.
        TRACE + "ConnectionResetError: reset\n" + CAUSED + TRACE + "shop.PriceError: no price\n",
        "ExecutorLostFailure (executor 1 exited) PythonException SQLSTATE: 22012",
        "Job aborted due to stage failure: java.lang.OutOfMemoryError: Java heap space",
        "Python worker exited unexpectedly (crashed)",
        "org.apache.spark.shuffle.FetchFailedException: Connection reset by peer",
        "[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column cannot be resolved. SQLSTATE: 42703",
        "[DELTA_VIOLATE_CONSTRAINT_WITH_VALUES] CHECK constraint violated. SQLSTATE: 23001",
        "Generic S3 error: error sending request",
    ],
)
def test_nothing_else_is_blamed_on_a_record(text: str) -> None:
    assert record_failure(RuntimeError(text)) is None


def test_errors_of_ours_are_not() -> None:
    assert record_failure(DataError("TIDE-DATA-001", "A record does not fit.")) is None
