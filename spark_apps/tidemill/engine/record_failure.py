"""Does a batch fail because of what is in a record? Only then is it worth to look which one. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tidemill.engine.classify import classify
from tidemill.failed_at import raised_in_python, text_of
from tidemill.spec.secret_mask import mask_secrets

# What Spark says of a value that an expression cannot take (22, P0 by `raise_error`), and of code that a user
# wrote and that failed (38, 39). Not of names, types and syntax (42), nor of constraints of a table (23).
_VALUE = re.compile(
    r"\[([A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)*)\] (?:(?!SQLSTATE: ).)*SQLSTATE: (?:22|38|39|P0)", re.DOTALL
)

# The line that names a Python error: its class, perhaps with a module, and what it says.
_PYTHON = re.compile(r"([A-Za-z_][\w.]*)(?::.*)?")

# Python errors that say something of the machine, the network or the installation, however they are spelled
# with a module before; another attempt at the same record may end well.
_NOT_OF_A_RECORD = re.compile(
    r"(?:MemoryError|OSError|IOError|ConnectionError|Connection\w+Error|BrokenPipeError|\w*Timeout\w*|"
    r"PermissionError|FileNotFoundError|BlockingIOError|InterruptedError|EOFError|ImportError|"
    r"ModuleNotFoundError|OperationalError|InterfaceError|gaierror|SSLError|\w*URLError|HTTPError|"
    r"SystemExit|KeyboardInterrupt|PicklingError|UnpicklingError|StopIteration|\w*Py4J\w*|PySpark\w*)"
)


@dataclass(frozen=True)
class RecordFailure:
    """How the transform fails at a record.

    Args:
        error: Class of the error without its module, or Spark's name for it.
        message: What it says, in one line, without secrets; it may quote the record.
    """

    error: str
    message: str


def record_failure(error: BaseException) -> RecordFailure | None:
    """How the transform failed; None if anything else did: a table, the machine, the plan, ourselves."""
    if classify(error).error_id != "TIDE-DATA-003":
        return None
    text = text_of(error)
    if raised := raised_in_python(text):
        return _of_python(raised)
    value = _VALUE.search(text)
    if value is None:
        return None
    message = value[0].partition("] ")[2].partition("\n")[0]
    return RecordFailure(value[1], mask_secrets(message.rpartition(" SQLSTATE:")[0] or message))


def _of_python(raised: list[str]) -> RecordFailure | None:
    named = [_PYTHON.fullmatch(line) for line in raised]
    names = ["" if found is None else found[1].rpartition(".")[2] for found in named]
    if not all(names) or any(_NOT_OF_A_RECORD.fullmatch(name) for name in names):
        return None
    _, _, message = raised[-1].partition(": ")
    return RecordFailure(names[-1], mask_secrets(message))
