"""Validated names of an action: request id, operator and reason.

Unsafe text reaches neither paths nor logs.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from tidemill.errors import UsageError

# Valid as a file name, a folder name and a part of a commit's metadata.
REQUEST_PATTERN = r"[a-z0-9][a-z0-9_-]{0,79}"

# Maximum length of a name and a reason, in characters: a table row and a sentence of an audit entry.
MAX_NAME = 100
MAX_REASON = 500

# Number of hex digits of a derived id that distinguish arguments. A pipeline has few requests, and two of
# them collide with a probability of 1 in 2**48.
DIGEST_DIGITS = 12


def check_request_id(request_id: str) -> str:
    """Return `request_id` if it can name files.

    Raises:
        UsageError: TIDE-CKPT-030.
    """
    if re.fullmatch(REQUEST_PATTERN, request_id) is None:
        raise UsageError(
            "TIDE-CKPT-030",
            "This is not a request id.",
            facts={"id": ascii(request_id[:80]), "pattern": REQUEST_PATTERN},
            fix="use lower-case letters, digits, - and _, 80 at most; without one, the verb makes its own",
        )
    return request_id


def check_person(name: str) -> str:
    """Return `name` if it is valid in an audit entry.

    Raises:
        UsageError: TIDE-CKPT-031.
    """
    return _one_line("name", name, MAX_NAME)


def check_reason(reason: str) -> str:
    """Return `reason` if it is valid in an audit entry.

    Raises:
        UsageError: TIDE-CKPT-031.
    """
    return _one_line("reason", reason, MAX_REASON)


def request_stem(verb: str, arguments: Mapping[str, Any]) -> str:
    """Return the prefix of an operation's requests with these arguments, such as `rewind-3f5a90c1d2e4`."""
    document = json.dumps(arguments, sort_keys=True, default=str)
    return f"{verb}-{hashlib.sha256(document.encode()).hexdigest()[:DIGEST_DIGITS]}"


def _one_line(what: str, text: str, most: int) -> str:
    stripped = text.strip()
    if not stripped or len(stripped) > most or not stripped.isprintable():
        raise UsageError(
            "TIDE-CKPT-031",
            f"This {what} cannot be kept.",
            facts={what: ascii(text[:80]), "characters": len(text), "most": most},
            fix="write one line of printable text",
        )
    return stripped
