"""Texts of numbers as decimals, whose digits are declared.

Arrow's parsers (pyarrow 26) refuse a number with too many digits behind the point, but let some pass with too
many before it. So a column is parsed with all the digits that there are, and then looked at.
"""

from __future__ import annotations

import re
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

# Digits of a decimal that Spark and Arrow hold.
MAX_DIGITS = 38

# What Arrow takes for a decimal.
DECIMAL_TEXT = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")

# Digits of an exponent above which no decimal holds the number, unless it is zero.
_LONGEST_EXPONENT = 4


def parsed_type(declared: pa.Decimal128Type) -> pa.Decimal128Type:
    """What a parser is asked for."""
    return pa.decimal128(MAX_DIGITS, declared.scale)


def decimal_of(text: str, declared: pa.Decimal128Type) -> Decimal | None:
    """The number exactly; None if the type does not hold it."""
    before, behind = _digits(text)
    if before > declared.precision - declared.scale or behind > declared.scale:
        return None
    return Decimal(text)


def loses_digits(text: str, declared: pa.Decimal128Type) -> bool:
    """Whether a number has more digits behind the point than declared, zeros at its end left out."""
    return _digits(text)[1] > int(declared.scale)


def out_of_range(values: pa.Array, declared: pa.Decimal128Type) -> pa.BooleanArray:
    """Where a number has more digits before the point than declared."""
    largest = Decimal((0, (9,) * declared.precision, -declared.scale))
    return pc.greater(pc.abs(values), pa.scalar(largest, values.type))


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
