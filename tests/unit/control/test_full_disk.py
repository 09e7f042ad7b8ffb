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


def on_a_full_disk(environment: Environment, run: DriverRun) -> list[str]:
    """The real driver, whose files the kernel keeps small; Python's own would stay torn for everybody."""
    limits = ["/usr/bin/prlimit", f"--fsize={NOTHING_FITS}", "/usr/bin/env", "PYTHONDONTWRITEBYTECODE=1"]
    return [*limits, *driver_command(environment, run)]


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
