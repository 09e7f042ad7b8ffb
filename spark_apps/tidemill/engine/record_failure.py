"""Detection of failures that the content of a record causes. Pure.

Only for such a failure is it useful to search for the record.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tidemill.engine.classify import classify
from tidemill.failed_at import raised_in_python, text_of
from tidemill.spec.secret_mask import mask_secrets

# Spark's errors for a value that an expression cannot take (22; P0 for `raise_error`), and for failed user
# code (38, 39). Errors about names, types and syntax (42) or about a table's constraints (23) do not match.
_VALUE = re.compile(
    r"\[([A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)*)\] (?:(?!SQLSTATE: ).)*SQLSTATE: (?:22|38|39|P0)", re.DOTALL
)

# The line of a Python error: its class, perhaps with a module, and its message.
_PYTHON = re.compile(r"([A-Za-z_][\w.]*)(?::.*)?")

# Python errors about the machine, the network or the installation, with or without a module name. Another
# attempt at the same record may succeed.
_NOT_OF_A_RECORD = re.compile(
    r"(?:MemoryError|OSError|IOError|ConnectionError|Connection\w+Error|BrokenPipeError|\w*Timeout\w*|"
    r"PermissionError|FileNotFoundError|BlockingIOError|InterruptedError|EOFError|ImportError|"
    r"ModuleNotFoundError|OperationalError|InterfaceError|gaierror|SSLError|\w*URLError|HTTPError|"
    r"SystemExit|KeyboardInterrupt|PicklingError|UnpicklingError|StopIteration|\w*Py4J\w*|PySpark\w*)"
)


@dataclass(frozen=True)
class RecordFailure:
    """A failure of the transform on a record.

    Args:
        error: Class of the error without its module, or Spark's name for it.
        message: Message in one line, without secrets; it may quote the record.
    """

    error: str
    message: str


def record_failure(error: BaseException) -> RecordFailure | None:
    """Return the failure of the transform; None if something else failed.

    Other causes are a table, the machine, the plan, or Tidemill itself.
    """
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
