"""Integers that JSON spells with a fraction or an exponent.

JSON Schema accepts `1.0` and `1e3` as integers, because their value is an integer. `pyarrow.json` reads only
digits as an integer. Digits alone mean the same number for every type, including doubles and decimals, so the
type of the column does not matter here.
"""

from __future__ import annotations

import re

_OTHERWISE_SPELLED = re.compile(r"[0-9][.eE]")
# A string, or the rest of a text that ends within one, or a separate number.
_STRING_OR_NUMBER = re.compile(
    r'"(?:[^"\\]++|\\.)*+"?'
    r"|(?<![\w.+-])(-?)(0|[1-9][0-9]*+)(?:\.([0-9]++))?(?:[eE]([+-]?[0-9]++))?(?![\w.+-])",
    re.DOTALL,
)

# Digits of int64's longest number.
_LONGEST = 19
# Maximum number of digits of an exponent that a text of at most 64 MiB can balance with zeros.
_LONGEST_EXPONENT = 9


def with_whole_numbers(text: str) -> str:
    """Return a JSON text with digits only for each number whose value is an integer of int64."""
    return _STRING_OR_NUMBER.sub(_respelled, text) if _OTHERWISE_SPELLED.search(text) else text


def is_whole(number: str) -> bool:
    """Return True for a number that is respelled, or spelled with digits only, as an integer of int64."""
    found = _STRING_OR_NUMBER.fullmatch(number)
    return found is not None and found[2] is not None and _whole(found) is not None


def _respelled(found: re.Match[str]) -> str:
    _, whole, fraction, exponent = found.groups()
    if whole is None or (fraction is None and exponent is None):
        return found[0]
    return _whole(found) or found[0]


def _whole(found: re.Match[str]) -> str | None:
    """Return a number with digits only, if it is an integer of int64."""
    sign, whole, fraction, exponent = found.groups()
    digits = _digits(whole, fraction or "", exponent or "0")
    return None if digits is None or not -(2**63) <= int(sign + digits) < 2**63 else sign + digits


def _digits(whole: str, fraction: str, exponent: str) -> str | None:
    """Return the digits of an integer without leading zeros; None if it is not an integer, or too long."""
    if len(exponent.lstrip("+-0")) > _LONGEST_EXPONENT:
        return None
    digits = (whole + fraction).rstrip("0")
    significant = digits.lstrip("0")
    if not significant:
        return "0"
    point = len(whole) + int(exponent)
    if point < len(digits) or point - (len(digits) - len(significant)) > _LONGEST:
        return None
    return significant + "0" * (point - len(digits))
