"""The note that a driver was asked to stop: so that it is asked once, and that everybody knows since when.

Asking and starting may meet. The asker writes the note and then looks for the process; the process signs its
record and then looks for the note. Whoever comes second sees the other, so no request is lost.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

from tidemill.control.local.driver_record import DriverRecord, replace_file


def drain_note(record_file: Path) -> Path:
    """The note beside a record."""
    return record_file.with_suffix(".drain")


def write_drain_note(record_file: Path, record: DriverRecord) -> None:
    """Note that this start of a driver was asked to stop."""
    note = {**_start_of(record), "at": datetime.now(UTC).isoformat()}
    replace_file(drain_note(record_file), json.dumps(note))


def drain_requested_at(record_file: Path, record: DriverRecord) -> datetime | None:
    """When this start of a driver was asked to stop; None if it was not, or if the note is damaged."""
    try:
        note = json.loads(drain_note(record_file).read_text(encoding="utf-8"))
        is_of_this_start = _start_of(record).items() <= note.items()
        return datetime.fromisoformat(note["at"]) if is_of_this_start else None
    except (FileNotFoundError, ValueError, TypeError, AttributeError, KeyError):
        return None


def _start_of(record: DriverRecord) -> dict[str, str]:
    return {"run_id": record.run_id, "started_at": record.started_at.isoformat()}
