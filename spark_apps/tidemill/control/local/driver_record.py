"""The record of a driver process on this machine: run, start time and process identity.

Only the holder of the slot's lock writes it: first the starter, without an identity, before it creates the
process, and then the process itself, with its identity. So the record always describes the newest start, even
after a crash.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from tidemill.control.driver_command import Mode
from tidemill.control.local.process_identity import ProcessIdentity
from tidemill.errors import UnavailableError, UsageError

# Time for which a start without an identity counts as running, from the creation of the process until it has
# written its identity. Python starts in 0.1 seconds, ten times that on a busy machine. Afterwards the process
# has died before it could write.
START_GRACE = timedelta(seconds=30)


class DriverRecord(BaseModel):
    """Content of `<slot>.json`.

    Args:
        identity: The process; None until it has signed.
        not_made: Reason why no process has become the driver.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    v: int = 1
    pipeline: str
    mode: Mode
    run_id: str
    digest: str
    started_at: datetime
    log: str
    identity: ProcessIdentity | None = None
    not_made: str = ""

    @property
    def was_made(self) -> bool:
        """Return True if a process has become the driver, or may be about to."""
        return not self.not_made and (self.identity is not None or self.is_alive())

    def is_alive(self) -> bool:
        """Return True if the process runs, or is being created."""
        if self.identity is not None:
            return self.identity.is_alive()
        return not self.not_made and datetime.now(UTC) - self.started_at < START_GRACE


def read_record(file: Path) -> DriverRecord | None:
    """Return the newest start; None if there was none.

    Raises:
        UsageError: TIDE-CTRL-001, if the record is damaged.
    """
    try:
        return DriverRecord.model_validate_json(file.read_bytes())
    except FileNotFoundError:
        return None
    except ValidationError as error:
        raise UsageError(
            "TIDE-CTRL-001",
            "The record of a driver process cannot be read.",
            facts={"file": file, "cause": error.errors()[0]["msg"]},
            fix="look whether a driver of this pipeline still runs, end it, then delete the file",
            runbook="stream-does-not-start",
        ) from error


def machine_trouble(error: OSError) -> UnavailableError:
    """Return the error for unreadable files of the run or project folder; disk or mount may recover."""
    return UnavailableError(
        "TIDE-CTRL-014",
        "What this machine keeps of pipelines and drivers cannot be read or written now.",
        facts={"cause": f"{type(error).__name__}: {error}"},
        fix="see the disk, or the mount, that holds the project folder",
        runbook="storage-unavailable",
    )


def write_record(file: Path, record: DriverRecord) -> None:
    """Replace the record atomically."""
    replace_file(file, record.model_dump_json(indent=1))


def replace_file(file: Path, text: str) -> None:
    """Write a file atomically, readable for its owner only."""
    new = file.with_name(f".{file.name}.{os.getpid()}.tmp")
    new.touch(mode=0o600)
    with new.open("w", encoding="utf-8") as opened:
        opened.write(text)
        opened.flush()
        # Otherwise the file may be empty after a power loss.
        os.fsync(opened.fileno())
    new.replace(file)
