"""JSON schema of a date and time in a trigger form."""

from __future__ import annotations

from typing import Any

# `format` makes the form show a calendar. Airflow's server does not check the format, so the pattern does.
MOMENT: dict[str, Any] = {
    "type": ["null", "string"],
    "format": "date-time",
    "pattern": r"^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])T([01]\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d{1,6})?)?"
    r"(Z|[+-]\d{2}:\d{2})$",
}
