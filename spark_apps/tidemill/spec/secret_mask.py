"""Masking of secrets in texts of Spark or a library, such as plans or progress reports."""

from __future__ import annotations

import re
from typing import Any

MASK = "***"

# Names that precede a secret in connection strings, JAAS lines, SAS signatures and options.
_ASSIGNED = re.compile(
    r"(?i)((?:shared-?access-?key|account-?key|access-?key|shared-?access-?signature|pass(?:word|wd)?|pwd"
    r"|secret|token|\bsig)[\"']?\s*[=:]\s*)(?:\"[^\"]*\"|'[^']*'|[^\s,;&)\]}\"']+)"
)
_USER_INFO = re.compile(r"(?<=://)[^/\s:@]+:[^/\s@]+(?=@)")
_WEB_TOKEN = re.compile(r"\beyJ[\w-]{10,}\.[\w.-]+")

# Shorter values occur in ordinary words, and masking them there would reveal them.
_SHORTEST_VALUE = 4

_read: set[str] = set()


def remember_secret(value: str) -> None:
    """Mask this value in all texts from now on."""
    if len(value) >= _SHORTEST_VALUE:
        _read.add(value)


def mask_secrets(text: str) -> str:
    """Return the text with the secrets that this process has read, and likely secrets, masked."""
    for value in sorted(_read, key=len, reverse=True):
        text = text.replace(value, MASK)
    text = _ASSIGNED.sub(rf"\g<1>{MASK}", text)
    return _WEB_TOKEN.sub(MASK, _USER_INFO.sub(MASK, text))


def mask_document(document: Any) -> Any:
    """Return a JSON document with secrets masked in all strings, including keys."""
    if isinstance(document, str):
        return mask_secrets(document)
    if isinstance(document, dict):
        return {mask_secrets(key): mask_document(value) for key, value in document.items()}
    return [mask_document(part) for part in document] if isinstance(document, list) else document
