"""What may be said of an error that comes from data: its class or condition, and where; never its words.

Spark and Python quote the values at which they fail. What is said of an error goes into logs, statuses and
notifications, where nothing of a record belongs; `log4j2.properties` does the same for what Java logs.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator

# The line after a Python traceback's indented ones: the error itself.
_PYTHON_ERROR = re.compile(r"Traceback \(most recent call last\):\n((?:[ \t].*\n)+)(\S.*)")
_FRAME = re.compile(r'  File "([^"\n]+)", line (\d+)(?:, in (\S+))?')
_CLASS = re.compile(r"([A-Za-z_][\w.]*)(?::.*)?")

# How Spark begins a message, `[CAST_INVALID_INPUT] The value …`, but for those that only wrap another.
_CONDITION = re.compile(r"\[(?!TASK_WRITE_FAILED|STREAM_FAILED)([A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)*)\] ")
# Where an expression comes from: a line of Python, or a place in a text of SQL.
_CALL = re.compile(r'== DataFrame ==\n"\w+" was called from\n(\S+:\d+)')
_SQL = re.compile(r"== SQL \((line \d+, position \d+)\) ==")

# The innermost class of an error of Java.
_JAVA_ERROR = re.compile(r"(?<![\w.$])(?:[a-z]\w*\.)+[A-Z][\w$]*(?:Exception|Error)\b")

# Of others: a function of a library is called by one of the project.
_LIBRARIES = "site-packages"


def failed_at(error: BaseException) -> str:
    """One line, such as `ValueError at transforms/orders.py:7 in price`, or `[CAST_INVALID_INPUT] at …`."""
    text = text_of(error)
    if (raised := _PYTHON_ERROR.findall(text)) and (name := _CLASS.fullmatch(raised[-1][1])):
        return f"{name[1]}{_innermost(_FRAME.findall(raised[-1][0]))}"
    if condition := _CONDITION.search(text):
        place = _CALL.search(text) or _SQL.search(text)
        return f"[{condition[1]}]" + (f" at {place[1]}" if place else "")
    if classes := _JAVA_ERROR.findall(text):
        return str(classes[-1])
    frames = traceback.extract_tb(error.__traceback__)
    return f"{type(error).__name__}{_innermost([(f.filename, str(f.lineno), f.name) for f in frames])}"


def trace_of(error: BaseException) -> str:
    """A traceback as Python prints it, causes first, with places and classes."""
    return "\n".join(_parts(error))


def _parts(error: BaseException) -> Iterator[str]:
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if cause is not None:
        yield from _parts(cause)
        yield ""
    yield "Traceback (most recent call last):"
    for frame in traceback.extract_tb(error.__traceback__):
        yield f'  File "{frame.filename}", line {frame.lineno}, in {frame.name}'
    yield f"{type(error).__module__}.{type(error).__qualname__}"


def text_of(error: BaseException) -> str:
    """All that an error and its causes say."""
    parts = []
    cause: BaseException | None = error
    while cause is not None:
        parts.append(f"{type(cause).__name__}: {cause}")
        cause = cause.__cause__ or cause.__context__
    return "\n".join(parts)


def raised_in_python(text: str) -> list[str]:
    """The errors of all Python tracebacks in a text, causes before what they caused; a line each."""
    return [str(line) for _, line in _PYTHON_ERROR.findall(text)]


def _innermost(frames: list[tuple[str, str, str]]) -> str:
    """The last of them that is the project's."""
    own = [frame for frame in frames if _LIBRARIES not in frame[0]] or frames
    if not own:
        return ""
    file, line, function = own[-1]
    return f" at {file}:{line}" + (f" in {function}" if function else "")
