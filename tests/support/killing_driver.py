"""The real driver, ended by a SIGKILL at one step of a batch: `python -m tests.support.killing_driver …`.

The steps are those that the writers report (`files_written`, `quarantined`, `late_set_aside`, `committed`,
`sent`), each with its number in the batch, such as `committed 2`. Two further steps are inside a commit:
`asked` (none of it is written) and `landed` (all of it is written, but not confirmed). They are named `arrow
asked` for delta-rs and `spark asked` for Delta.
"""

from __future__ import annotations

import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from tests.support import altered_driver
from tidemill.control.driver_command import DriverRun, driver_command
from tidemill.engine import driver
from tidemill.engine.batch_writer import BatchWriter
from tidemill.sinks.table_log import TableLog
from tidemill.spec.project import Environment

_STEP, _BATCH, _ARMED = "TIDEMILL_TEST_STEP", "TIDEMILL_TEST_BATCH", "TIDEMILL_TEST_ARMED"

# Text of the last line that the driver prints.
KILLED = "KILLED AT"


def killing_driver_command(environment: Environment, run: DriverRun) -> list[str]:
    """Return the real command line, with this module for the engine's."""
    program, flag, _, *arguments = driver_command(environment, run)
    return [program, flag, "tests.support.killing_driver", *arguments]


def killing(step: str, batch_id: int, classes: Path) -> Mapping[str, str]:
    """Environment variables of a driver that is killed at a step of the first batch from a number on.

    Args:
        step: One of the steps above.
        batch_id: The number.
        classes: Folder of the compiled KillingLogStore.
    """
    armed = classes / f"armed-{step.replace(' ', '-')}-{batch_id}"
    place, _, moment = step.partition(" ")
    settings = {}
    variables = {_STEP: step, _BATCH: str(batch_id), _ARMED: str(armed)}
    if place == "spark":
        settings["spark.delta.logStore.file.impl"] = "KillingLogStore"
        variables["TIDEMILL_TEST_KILL_COMMIT"] = moment
    return altered_driver.altered(classes, settings, **variables)


class _Kill:
    """Waits for its batch and step."""

    def __init__(self, step: str, batch_id: int, armed: Path) -> None:
        self._step = step
        self._batch_id = batch_id
        self._file = armed
        self._armed = False
        self._seen: Counter[str] = Counter()

    def begin(self, batch_id: int | None) -> None:
        if batch_id is not None and batch_id >= self._batch_id:
            self._armed = True
            self._file.touch()
            sys.stderr.write(f"{KILLED} {self._step} IN BATCH {batch_id}\n")
            sys.stderr.flush()

    def done(self, step: str) -> None:
        if self._armed:
            self._seen[step] += 1
            self.at(f"{step} {self._seen[step]}")

    def at(self, step: str) -> None:
        if self._armed and step == self._step:
            # Python, its JVM and workers: the tests start Python as the leader of a group.
            os.killpg(os.getpid(), signal.SIGKILL)


def main() -> int:
    kill = _Kill(os.environ[_STEP], int(os.environ[_BATCH]), Path(os.environ[_ARMED]))
    write, append = BatchWriter.write, TableLog._append

    def watched_write(self: BatchWriter, frame: Any, entry: Any) -> Any:
        kill.begin(entry.batch_id)
        return write(self, frame, entry)

    def watched_append(self: TableLog, *arguments: Any) -> None:
        is_table = "/tables/" in self.path
        around: Callable[[str], None] = kill.at if is_table else lambda _: None
        around("arrow asked")
        append(self, *arguments)
        around("arrow landed")

    BatchWriter.write = watched_write  # type: ignore[method-assign]
    TableLog._append = watched_append  # type: ignore[method-assign]
    driver.run_query = partial(driver.run_query, step_done=kill.done)  # type: ignore[assignment]
    return altered_driver.main()


if __name__ == "__main__":
    sys.exit(main())
