"""`python -m tidemill.control.local.become_driver RECORD PROGRAM ARGUMENT…`: sign the record, run the driver.

Run by the local runtime only. The process writes its own identity into its record and then replaces itself
with the driver (`exec`). Pid and start time stay the same, and so does the inherited descriptor that holds
the slot's lock. The starter may be killed at any moment, and the record is still correct.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tidemill.control.local.drain_note import drain_requested_at
from tidemill.control.local.driver_record import read_record, write_record
from tidemill.control.local.process_identity import ProcessIdentity


def main(arguments: list[str]) -> None:
    """Sign the record and run the driver; end at once if the run was already asked to stop."""
    file, (program, *rest) = Path(arguments[0]), arguments[1:]
    record = read_record(file)
    if record is None:
        raise FileNotFoundError(file)
    identity = ProcessIdentity.of(os.getpid())
    write_record(file, record.model_copy(update={"identity": identity}))
    if drain_requested_at(file, record) is not None:
        return
    try:
        os.execv(program, [program, *rest])  # noqa: S606  # a list of arguments, without a shell
    except OSError as error:
        unmade = {"identity": identity, "not_made": f"{program}: {error}"}
        write_record(file, record.model_copy(update=unmade))
        raise


if __name__ == "__main__":
    main(sys.argv[1:])
