"""Skip the bytes of writer types that have no column.

A record can contain itself. fastavro skips it by recursion in C, so a record of about 100 kB could crash the
process. Therefore each level gets a separate type, and a level below the last one cannot be read.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from tidemill.payload.avro_types import AvroType

# Maximum number of nested records in a skipped field. C's stack has room for about ten thousand, but each
# decoded record costs time for each level of each recursive type.
MAX_LEVELS = 200

# Longer than any record, so fastavro reports that the record ends too soon.
_ENDLESS = {"type": "fixed", "name": "endless", "size": 2**40}


class SkippedTypes:
    """Makes types that consume the bytes of other types."""

    def __init__(self) -> None:
        self._names: dict[tuple[AvroType, int], str] = {}
        self._pending: deque[tuple[AvroType, int]] = deque()
        self._fixed: dict[int, dict[str, Any]] = {}

    def of(self, declared: AvroType, level: int = 0) -> Any:
        """Return a type for fastavro, which refers to `definitions`."""
        if declared.kind == "union":
            return [self.of(branch, level) for branch in declared.branches]
        if declared.inner is not None:
            key = "items" if declared.kind == "array" else "values"
            return {"type": declared.kind, key: self.of(declared.inner, level)}
        if declared.kind == "fixed":
            fixed = {"type": "fixed", "name": f"skipped_fixed{declared.size}", "size": declared.size}
            return self._fixed.setdefault(declared.size, fixed)["name"]
        if declared.kind == "record":
            return _ENDLESS["name"] if level == MAX_LEVELS else self._record(declared, level)
        # A symbol is encoded as a number.
        return "int" if declared.kind == "enum" else declared.kind

    def definitions(self) -> list[dict[str, Any]]:
        """Return the records and fixed types that the types refer to, each before its use."""
        records = []
        while self._pending:
            declared, level = self._pending.popleft()
            fields = [
                {"name": f"f{place}", "type": self.of(field.type, level + 1)}
                for place, field in enumerate(declared.fields)
            ]
            records.append({"type": "record", "name": self._names[declared, level], "fields": fields})
        # Levels increase from record to record, and each record uses only the next level.
        return [_ENDLESS, *self._fixed.values(), *reversed(records)]

    def _record(self, declared: AvroType, level: int) -> str:
        name = self._names.get((declared, level))
        if name is None:
            name = self._names[declared, level] = f"skipped{len(self._names)}"
            self._pending.append((declared, level))
        return name
