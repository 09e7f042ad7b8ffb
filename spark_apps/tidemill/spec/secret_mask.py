"""Hides secrets in text that Spark or a library wrote, such as a plan or a progress."""

from __future__ import annotations

import re
from typing import Any

MASK = "***"

# Names that stand before a secret in connection strings, JAAS lines, SAS signatures and options.
_ASSIGNED = re.compile(
    r"(?i)((?:shared-?access-?key|account-?key|access-?key|shared-?access-?signature|pass(?:word|wd)?|pwd"
    r"|secret|token|\bsig)[\"']?\s*[=:]\s*)(?:\"[^\"]*\"|'[^']*'|[^\s,;&)\]}\"']+)"
)
_USER_INFO = re.compile(r"(?<=://)[^/\s:@]+:[^/\s@]+(?=@)")
_WEB_TOKEN = re.compile(r"\beyJ[\w-]{10,}\.[\w.-]+")

# A shorter value of a secret is part of ordinary words: to hide it would tell what it is.
_SHORTEST_VALUE = 4

_read: set[str] = set()


def remember_secret(value: str) -> None:
    """Hide this value from now on, wherever it stands."""
    if len(value) >= _SHORTEST_VALUE:
        _read.add(value)


def mask_secrets(text: str) -> str:
    """The text without values of secrets that this process has read, and without what looks like one."""
    for value in sorted(_read, key=len, reverse=True):
        text = text.replace(value, MASK)
    text = _ASSIGNED.sub(rf"\g<1>{MASK}", text)
    return _WEB_TOKEN.sub(MASK, _USER_INFO.sub(MASK, text))


def mask_document(document: Any) -> Any:
    """The same for every text of a JSON document, keys included."""
    if isinstance(document, str):
        return mask_secrets(document)
    if isinstance(document, dict):
        return {mask_secrets(key): mask_document(value) for key, value in document.items()}
    return [mask_document(part) for part in document] if isinstance(document, list) else document
