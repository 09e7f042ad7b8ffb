"""Texts of numbers as decimals, whose digits are declared.

Arrow (pyarrow 26) reads some numbers as others, in silence. One whose digits before the point and those of
the scale are more than 38 can wrap around 128 bits; a long exponent leads past the end of a table of powers,
so that `2.9e-41` is 0. Such a number is found by a pattern, and Arrow sees it only if the type holds it.

Of the others, Arrow refuses those with too many digits behind the point, but lets some pass with too many
before it: a column is parsed with all the digits that there are, and then looked at.
"""

from __future__ import annotations

import re
from decimal import Context, Decimal

import pyarrow as pa
import pyarrow.compute as pc

# Digits of a decimal that Spark and Arrow hold.
MAX_DIGITS = 38

_CONTEXT = Context(prec=MAX_DIGITS)

# What Arrow takes for a decimal.
DECIMAL_TEXT = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")

# Digits of an exponent above which no decimal holds the number, unless it is zero.
_LONGEST_EXPONENT = 4


def parsed_type(declared: pa.Decimal128Type) -> pa.Decimal128Type:
    """What a parser is asked for."""
    return pa.decimal128(MAX_DIGITS, declared.scale)


def risky_json(scale: int) -> str:
    """A pattern that matches a JSON text with a number that Arrow may misread at this scale.

    Other texts match too: it is a reason to look, never one to reject.
    """
    too_long = rf"[0-9]{{{_digits_before(scale) + 1},}}|\.[0-9]{{{MAX_DIGITS + 1},}}"
    exponent = r'[\s:\[,"][-+]?[0-9.]+[eE][-+]?[0-9]+[\s,}\]"]'
    escaped = r"\\u00[2346]"
    return f"{too_long}|{exponent}|{escaped}"


def safe_text(scale: int) -> str:
    """A pattern that matches the text of a number without an exponent that Arrow reads or refuses rightly."""
    return rf"^[-+]?[0-9]{{0,{_digits_before(scale)}}}(?:\.[0-9]{{0,{MAX_DIGITS}}})?$"


def decimal_of(text: str, declared: pa.Decimal128Type) -> Decimal | None:
    """The number exactly; None if the type does not hold it."""
    if not holds(declared, text):
        return None
    # Arrow does not take hundreds of zeros at the end.
    return Decimal(text).quantize(Decimal((0, (1,), -declared.scale)), context=_CONTEXT)


def holds(declared: pa.Decimal128Type, text: str) -> bool:
    """Whether the type has the digits for a number, zeros at its ends left out."""
    before, behind = _digits(text)
    return bool(before <= declared.precision - declared.scale and behind <= declared.scale)


def out_of_range(values: pa.Array, declared: pa.Decimal128Type) -> pa.BooleanArray:
    """Where a number has more digits before the point than declared."""
    largest = Decimal((0, (9,) * declared.precision, -declared.scale))
    return pc.greater(pc.abs(values), pa.scalar(largest, values.type))


def _digits_before(scale: int) -> int:
    return MAX_DIGITS - scale


def _digits(text: str) -> tuple[int, int]:
    """Digits that a number needs before the point and behind it."""
    mantissa, _, exponent = text.lower().partition("e")
    whole, _, fraction = mantissa.lstrip("+-").partition(".")
    digits = (whole + fraction).rstrip("0")
    if not digits.strip("0"):
        return 0, 0
    if len(exponent.lstrip("+-0")) > _LONGEST_EXPONENT:
        return (0, 10**_LONGEST_EXPONENT) if exponent.startswith("-") else (10**_LONGEST_EXPONENT, 0)
    point = len(whole) + int(exponent or "0")
    leading = len(digits) - len(digits.lstrip("0"))
    return max(0, point - leading), max(0, len(digits) - point)
