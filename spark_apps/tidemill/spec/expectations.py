"""Expectations of a table: conditions on each row, and the handling of rows that violate them."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import Field, field_validator

from tidemill.spec.strict import Strict
from tidemill.spec.text import Expression

OnViolation = Literal["warn", "drop", "quarantine", "fail"]

# A single word, because it is part of quarantine reasons, ledger entries and log lines.
ExpectationName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,63}$")]

# Each expectation is computed for each row. More belong into a rule in the transform.
MAX_EXPECTATIONS = 50

# Patterns that are certain before Spark analyses a condition. Quoted names and strings are removed first.
_QUOTED = re.compile(r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`")
_CLOCKS = r"current_(?:timestamp|date|time)|curdate|localtimestamp|now"
_RANDOM = r"rand|randn|random|randstr|uniform|uuid|shuffle|monotonically_increasing_id|spark_partition_id"
_AGGREGATES = (
    r"count|count_if|sum|avg|mean|min|max|first|last|any_value|median|mode|stddev\w*|variance|var_\w+|"
    r"collect_(?:list|set)|array_agg|(?:min|max)_by|bool_(?:and|or)|approx_\w+|percentile\w*"
)
_REASONS = (
    (rf"\b(?:{_CLOCKS})\s*\(|\bcurrent_(?:timestamp|date|time)\b", "the time of a repeated batch is another"),
    (rf"\b(?:{_RANDOM})\s*\(", "a repeated batch would decide otherwise"),
    (rf"\b(?:{_AGGREGATES})\s*\(", "an expectation is of one row; aggregate in the transform"),
    (r"\bover\s*\(", "an expectation is of one row, not of a window of rows"),
    (r"\bselect\b", "an expectation is of one row; join what it compares with in the transform"),
)


class Expectation(Strict):
    """A condition on each row of a table. A row violates it if the condition is false or null."""

    expect: Expression = Field(
        description="SQL condition on the columns that are written. It depends on one row only, so it has no "
        "aggregate, no subquery, no current time and no random number."
    )
    on_violation: OnViolation = Field(
        "warn",
        description="warn: the row is written and counted. drop: the row is left out and counted. "
        "quarantine: the row goes to the pipeline's quarantine as JSON, with the expectation as the reason. "
        "fail: the driver ends with TIDE-EXP-001, and nothing of the batch is written.",
    )

    @field_validator("expect")
    @classmethod
    def _is_of_one_row(cls, condition: str) -> str:
        reason = why_not_of_one_row(condition)
        if reason:
            raise ValueError(reason)
        return condition


def why_not_of_one_row(condition: str) -> str:
    """Return why a condition certainly depends on more than one row.

    An empty result means that it may depend on one row only. Spark's analysis decides then.
    """
    plain = _QUOTED.sub("''", condition)
    for pattern, reason in _REASONS:
        if found := re.search(pattern, plain, re.IGNORECASE):
            return f"`{found[0].rstrip('( ')}` cannot be used in an expectation: {reason}"
    return ""
