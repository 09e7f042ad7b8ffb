"""The logged facts of an error caused by data: class or condition, and place, but nothing of a record."""

from __future__ import annotations

import pytest

from tidemill.failed_at import failed_at, trace_of

MARK = "payload-7c1e"

IN_WORKER = f"""[PYTHON_EXCEPTION] An exception was thrown: Traceback (most recent call last):
  File "/p/transforms/orders.py", line 7, in price
    return Decimal(text)
           ^^^^^^^^^^^^^
  File "/v/site-packages/numbers.py", line 1, in parse
    raise exceptions.Bad(text)
numbers.exceptions.Bad: no number: {MARK}
and more of {MARK}
 SQLSTATE: 38000"""

TOLD = {
    IN_WORKER: "numbers.exceptions.Bad at /p/transforms/orders.py:7 in price",
    f'Traceback (most recent call last):\n  File "/p/a.py", line 2\n{MARK}\nValueError': "RuntimeError",
    f"[CAST_INVALID_INPUT] '{MARK}' SQLSTATE: 22018\n== DataFrame ==\n\"cast\" was called from\n/p/a.py:4": (
        "[CAST_INVALID_INPUT] at /p/a.py:4"
    ),
    f"[CAST_INVALID_INPUT] '{MARK}' … SQLSTATE: 22018\n== SQL (line 1, position 8) ==\nSELECT int(note)\n": (
        "[CAST_INVALID_INPUT] at line 1, position 8"
    ),
    f"[STREAM_FAILED] Query: [USER_RAISED_ERROR] {MARK}\n{MARK} SQLSTATE: P0001": "[USER_RAISED_ERROR]",
    f"Lost task 0: org.apache.spark.SparkException: x\nCaused by: java.lang.IllegalStateException: {MARK}": (
        "java.lang.IllegalStateException"
    ),
    "o1.execute.\n: java.lang.IllegalStateException: MARK\n\tat a.FooException$.apply(A.scala:3)": (
        "java.lang.IllegalStateException"
    ),
    "scala.MatchError: [DE89MARK0440532013000] (of class Row)": "scala.MatchError",
    "Lost task 0: a.BException: java.net.ConnectException: refused": "java.net.ConnectException: refused",
    MARK: "RuntimeError",
}


@pytest.mark.parametrize("text", TOLD)
def test_a_line_tells_class_and_place(text: str) -> None:
    assert failed_at(RuntimeError(text)) == TOLD[text]


def test_a_trace_has_the_classes_and_frames_of_java_too_and_ends() -> None:
    java = f": a.BException: {MARK}\n\tat a.B.c(B.java:1)\nCaused by: a.DException: {MARK}\n"
    java += ": 4711\nCaused by: me\n"
    error = RuntimeError(f"calling o1.\n{java}")
    error.__cause__ = ValueError(MARK)
    error.__cause__.__cause__ = error
    lines = trace_of(error).splitlines()
    assert lines[-4:] == ["builtins.RuntimeError", "a.BException", "\tat a.B.c(B.java:1)", "a.DException"]
    assert failed_at(error) == "a.DException"


def test_what_python_raised_here_is_told_by_its_line() -> None:
    with pytest.raises(ValueError, match=MARK) as caught:
        int(f"{MARK}")
    line = caught.traceback[-1].lineno + 1
    assert failed_at(caught.value) == (
        f"ValueError at {__file__}:{line} in {test_what_python_raised_here_is_told_by_its_line.__name__}"
    )


def test_a_trace_has_places_and_classes_of_an_error_and_its_causes() -> None:
    def fail() -> None:
        try:
            int(MARK)
        except ValueError as error:
            raise RuntimeError(MARK) from error

    with pytest.raises(RuntimeError) as caught:
        fail()
    trace = trace_of(caught.value)
    assert MARK not in trace
    assert [line for line in trace.splitlines() if not line.startswith("  File ")] == [
        "Traceback (most recent call last):",
        "builtins.ValueError",
        "",
        "Traceback (most recent call last):",
        "builtins.RuntimeError",
    ]
    assert f'  File "{__file__}", line' in trace
