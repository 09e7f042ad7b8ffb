"""The note of a drain request, so that it is sent once and its time is known to all processes.

A request and a start may happen at the same time. The requester writes the note and then looks for the
process; the process signs its record and then looks for the note. The later one sees the other, so no request
is lost.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

from tidemill.control.local.driver_record import DriverRecord, replace_file


def drain_note(record_file: Path) -> Path:
    """Return the path of the note, next to the record."""
    return record_file.with_suffix(".drain")


def write_drain_note(record_file: Path, record: DriverRecord) -> None:
    """Write that this start of a driver was asked to stop."""
    note = {**_start_of(record), "at": datetime.now(UTC).isoformat()}
    replace_file(drain_note(record_file), json.dumps(note))


def drain_requested_at(record_file: Path, record: DriverRecord) -> datetime | None:
    """Return the time of this start's drain request; None without one, or if the note is damaged."""
    try:
        note = json.loads(drain_note(record_file).read_text(encoding="utf-8"))
        is_of_this_start = _start_of(record).items() <= note.items()
        return datetime.fromisoformat(note["at"]) if is_of_this_start else None
    except (FileNotFoundError, ValueError, TypeError, AttributeError, KeyError):
        return None


def _start_of(record: DriverRecord) -> dict[str, str]:
    return {"run_id": record.run_id, "started_at": record.started_at.isoformat()}
