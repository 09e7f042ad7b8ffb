"""Safe description of an error caused by data: its class or condition, and its location; never its message.

Spark and Python quote the values at which they fail. Descriptions go into logs, statuses and notifications,
which must not contain parts of records. `log4j2.properties` does the same for Java's log lines.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator

# The line after the indented lines of a Python traceback: the error itself.
_PYTHON_ERROR = re.compile(r"Traceback \(most recent call last\):\n((?:[ \t].*\n)+)(\S.*)")
_FRAME = re.compile(r'  File "([^"\n]+)", line (\d+)(?:, in (\S+))?')
_CLASS = re.compile(r"([A-Za-z_][\w.]*)(?::.*)?")

# The begin of a Spark message, `[CAST_INVALID_INPUT] The value …`, except for messages that only wrap
# another.
CONDITION = re.compile(r"\[(?!TASK_WRITE_FAILED|STREAM_FAILED)([A-Z]+_[A-Z0-9_]+(?:\.[A-Z0-9_]+)*)\] ")
# The end of a Spark message, with the SQL standard's class of the condition.
_STATE = re.compile(r"SQLSTATE: (\w\w)")
# Data exception, integrity, user code, `raise_error`.
_OF_VALUES = ("22", "23", "38", "39", "P0")

# Origin of an expression: a line of Python, or a position in SQL text.
_CALL = re.compile(r'== DataFrame ==\n"\w+" was called from\n(\S+:\d+)')
_SQL = re.compile(r"== SQL \((line \d+, position \d+)\) ==")

# Class of a Java error; and Java frames, whose classes did not fail.
_JAVA_ERROR = re.compile(r"(?<![\w.$])(?:[a-z]\w*\.)+[A-Z][\w$]*(?:Exception|Error)\b")
_JAVA_FRAME = re.compile(r"(?m)^[ \t]+at .*$")
_JAVA_TRACE = re.compile(
    r"(?m)^(?:: |Caused by: )((?:\w+\.)+[\w$]+(?:Exception|Error))\b|^([ \t]+at [^\s(]+\([\w.$ :<>-]*\))$"
)
# Java errors about network, disk, memory and Kafka, which keep their message; as in `log4j2.properties`.
_INFRASTRUCTURE = re.compile(
    r"java\.(?:io|net|nio)\.|java\.util\.concurrent\.Timeout|java\.lang\.(?:OutOfMemory|NoClassDefFound)|"
    r"org\.apache\.(?:kafka\.common|hadoop\.(?:fs|ipc|net|security|util))\.|org\.rocksdb\."
)

_CAUSE = re.compile(r"(?m)^Caused by: (.+)$")

# Code in a task processes records.
_IN_A_TASK = "Lost task"

# Frames of libraries, which the project's functions call.
_LIBRARIES = "site-packages"

# Maximum characters of an infrastructure error's line.
_CHARACTERS = 600


def failed_at(error: BaseException) -> str:
    """Return one line: `ValueError at transforms/orders.py:7 in price`, or `[CAST_INVALID_INPUT] at …`."""
    text = text_of(error)
    if (raised := _PYTHON_ERROR.findall(text)) and (name := _CLASS.fullmatch(raised[-1][1])):
        return f"{name[1]}{_innermost(_FRAME.findall(raised[-1][0]))}"
    if (condition := CONDITION.search(text)) and state_of(text):
        place = _CALL.search(text) or _SQL.search(text)
        return f"[{condition[1]}]" + (f" at {place[1]}" if place else "")
    without_frames = _JAVA_FRAME.sub("", text)
    if classes := list(_JAVA_ERROR.finditer(without_frames)):
        line = without_frames[classes[-1].start() :].partition("\n")[0]
        return line[:_CHARACTERS] if _INFRASTRUCTURE.match(line) else classes[-1][0]
    frames = traceback.extract_tb(error.__traceback__)
    return f"{type(error).__name__}{_innermost([(f.filename, str(f.lineno), f.name) for f in frames])}"


def cause_in(text: str) -> str:
    """Return the innermost cause about network, storage or memory, with its message; empty if none."""
    causes = [line for line in _CAUSE.findall(text) if _INFRASTRUCTURE.match(line)]
    return causes[-1][:_CHARACTERS] if causes else ""


def may_quote(error: BaseException) -> bool:
    """Return True if an error may quote a record: from a task, a user's function, or about a value."""
    text = text_of(error)
    return _IN_A_TASK in text or bool(raised_in_python(text)) or state_of(text) in _OF_VALUES


def state_of(text: str) -> str:
    """Return the SQLSTATE class of the first condition, such as `22`; empty without one."""
    condition = CONDITION.search(text)
    state = None if condition is None else _STATE.search(text, condition.end())
    return "" if state is None else state[1]


def trace_of(error: BaseException) -> str:
    """Return a traceback as Python prints it, causes first, without messages, with Java's frames below."""
    return "\n\n".join("\n".join(_trace(each)) for each in reversed(_chain(error)))


def _trace(error: BaseException) -> Iterator[str]:
    yield "Traceback (most recent call last):"
    for frame in traceback.extract_tb(error.__traceback__):
        yield f'  File "{frame.filename}", line {frame.lineno}, in {frame.name}'
    yield f"{type(error).__module__}.{type(error).__qualname__}"
    yield from (name or frame for name, frame in _JAVA_TRACE.findall(str(error)))


def _chain(error: BaseException) -> list[BaseException]:
    """Return an error and its causes, each once."""
    chain: list[BaseException] = []
    at: BaseException | None = error
    while at is not None and at not in chain:
        chain.append(at)
        at = at.__cause__ or at.__context__
    return chain


def text_of(error: BaseException) -> str:
    """Return the messages of an error and all its causes."""
    return "\n".join(f"{type(each).__name__}: {each}" for each in _chain(error))


def raised_in_python(text: str) -> list[str]:
    """Return the errors of all Python tracebacks in a text, causes first, one line each."""
    return [str(line) for _, line in _PYTHON_ERROR.findall(text)]


def _innermost(frames: list[tuple[str, str, str]]) -> str:
    """Return the location of the last frame that belongs to the project."""
    own = [frame for frame in frames if _LIBRARIES not in frame[0]] or frames
    if not own:
        return ""
    file, line, function = own[-1]
    return f" at {file}:{line}" + (f" in {function}" if function else "")
