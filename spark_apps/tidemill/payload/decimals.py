"""Convert texts of numbers to decimals with declared digits.

Arrow (pyarrow 26) silently misreads some numbers. If the digits before the point and those of the scale are
more than 38, the value can overflow 128 bits. A long exponent reads past the end of a table of powers, so
that `2.9e-41` is 0. Such a number is found by a pattern, and Arrow parses it only if the type can store it.
Of the other numbers, Arrow refuses those with too many digits after the point, but accepts some with too many
before it. So a column is parsed with all its digits, and then checked.
"""

from __future__ import annotations

import re
from decimal import Context, Decimal

import pyarrow as pa
import pyarrow.compute as pc

# Maximum number of digits in a decimal of Spark and Arrow.
MAX_DIGITS = 38

_CONTEXT = Context(prec=MAX_DIGITS)

# Texts that Arrow accepts as a decimal.
DECIMAL_TEXT = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")

# Maximum number of digits of an exponent. Above it, no decimal can store the number unless it is zero.
_LONGEST_EXPONENT = 4


def parsed_type(declared: pa.Decimal128Type) -> pa.Decimal128Type:
    """Return the type for the parser."""
    return pa.decimal128(MAX_DIGITS, declared.scale)


def risky_json(scale: int) -> str:
    """Return a pattern for a JSON text with a number that Arrow may misread at this scale.

    Other texts match too, so a match is only a reason to check the text, never to reject it.
    """
    too_long = rf"[0-9]{{{_digits_before(scale) + 1},}}|\.[0-9]{{{MAX_DIGITS + 1},}}"
    exponent = r'[\s:\[,"][-+]?[0-9.]+[eE][-+]?[0-9]+[\s,}\]"]'
    escaped = r"\\u00[2346]"
    return f"{too_long}|{exponent}|{escaped}"


def safe_text(scale: int) -> str:
    """Return a pattern for a number without an exponent that Arrow reads or refuses correctly."""
    return rf"^[-+]?[0-9]{{0,{_digits_before(scale)}}}(?:\.[0-9]{{0,{MAX_DIGITS}}})?$"


def decimal_of(text: str, declared: pa.Decimal128Type) -> Decimal | None:
    """Return the exact number; None if the type cannot store it."""
    if not holds(declared, text):
        return None
    # Arrow does not accept hundreds of trailing zeros.
    return Decimal(text).quantize(Decimal((0, (1,), -declared.scale)), context=_CONTEXT)


def holds(declared: pa.Decimal128Type, text: str) -> bool:
    """Return True if the type has enough digits for a number, without leading and trailing zeros."""
    before, behind = _digits(text)
    return bool(before <= declared.precision - declared.scale and behind <= declared.scale)


def out_of_range(values: pa.Array, declared: pa.Decimal128Type) -> pa.BooleanArray:
    """Return true for numbers with more digits before the point than declared."""
    largest = Decimal((0, (9,) * declared.precision, -declared.scale))
    return pc.greater(pc.abs(values), pa.scalar(largest, values.type))


def _digits_before(scale: int) -> int:
    return MAX_DIGITS - scale


def _digits(text: str) -> tuple[int, int]:
    """Return the number of digits that a number needs before and after the point."""
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
