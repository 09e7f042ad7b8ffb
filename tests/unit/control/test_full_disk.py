"""A real driver on a disk that takes no more: it can leave no receipt, and is no crash all the same."""

from __future__ import annotations

from dataclasses import replace

from tests.support.small_project import SmallProject
from tests.support.stream_requests import AT_ONCE, until_ended
from tidemill.control.decide.all_streams import reconcile_streams
from tidemill.control.driver_command import DriverRun, driver_command
from tidemill.control.local.local_runtime import LocalRuntime
from tidemill.spec.project import Environment

# Bytes that a file may have: the heartbeat has fewer, every document more.
NOTHING_FITS = 60


# Files of bytecode would stay torn for everybody.
SMALL_FILES = f"""
import resource, runpy, signal, sys
sys.dont_write_bytecode = True
# Python does the same at its start: writing a file that is too large raises an error.
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, ({NOTHING_FITS}, {NOTHING_FITS}))
del sys.argv[0]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""


def on_a_full_disk(environment: Environment, run: DriverRun) -> list[str]:
    """Return the real driver, whose files the kernel keeps small."""
    program, _, *words = driver_command(environment, run)
    return [program, "-c", SMALL_FILES, *words]


def test_a_disk_that_is_full_for_days_holds_no_stream(project: SmallProject) -> None:
    name = project.declare("orders")
    runtime = LocalRuntime(project.environment, on_a_full_disk, project.variables)
    plane = replace(project.plane(), runtime=runtime)
    for _ in range(5):
        (outcome,) = reconcile_streams(plane, AT_ONCE)
        assert outcome.decision.action == "start"
        until_ended(plane, name)
        ending = plane.last_ending(name)
        assert ending is not None
        assert (ending.result, ending.exit_code) == ("failed", 69)
        assert ending.cause == "exit 69, TIDE-STOR-003"
