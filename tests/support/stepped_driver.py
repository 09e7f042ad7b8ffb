"""The real driver, ended by SIGKILL at a step of its backfill: `python -m tests.support.stepped_driver …`.

Its command line is that of `tidemill.engine.driver`, which knows nothing of all this.
"""

from __future__ import annotations

import os
import signal
import sys
from functools import partial

from tidemill.control.driver_command import DriverRun, driver_command
from tidemill.engine import driver
from tidemill.spec.project import Environment

STEP = "TIDEMILL_TEST_KILL_AT_STEP"


def stepped_driver_command(environment: Environment, run: DriverRun) -> list[str]:
    """Return the real command line, with this module for the engine's."""
    program, flag, _, *arguments = driver_command(environment, run)
    return [program, flag, "tests.support.stepped_driver", *arguments]


def kill_at(wanted: str, step: str) -> None:
    """End this process with its JVM and workers, as when a pod is killed."""
    if step == wanted:
        os.killpg(0, signal.SIGKILL)


def main() -> int:
    """Run the driver."""
    driver.run_backfill = partial(driver.run_backfill, step_done=partial(kill_at, os.environ[STEP]))
    return driver.main()


if __name__ == "__main__":
    sys.exit(main())
