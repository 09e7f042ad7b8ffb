"""Follow the log of the driver that a task waits for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidemill.control.plane import ControlPlane
    from tidemill.control.runtime import StartedDriver


class FollowedLog:
    """Log reader that resumes at its last position, across drivers, triggers and tasks.

    Args:
        goal: A `tidemill.control.ask.goal.Goal` as plain data, which identifies the driver.
        position: Position after the last read, as plain data.
    """

    def __init__(self, goal: Mapping[str, Any], position: Mapping[str, Any] | None = None) -> None:
        self._goal = goal
        self.position = None if position is None else dict(position)
        self._complaint = ""

    def read(self, plane: ControlPlane) -> list[str]:
        """Return new lines; never raise. A read error is reported once until a read succeeds."""
        from tidemill.control.driver_log import shown_lines

        try:
            lines = self._read(plane)
            self._complaint = ""
        except Exception as error:  # noqa: BLE001  # some lines are missing; the driver continues
            (complaint,) = shown_lines([f"its log cannot be read now: {error}".partition("\n")[0]])
            lines = [] if complaint == self._complaint else [complaint]
            self._complaint = complaint
        return lines

    def _read(self, plane: ControlPlane) -> list[str]:
        from tidemill.control.ask.goal import Goal, driver_of
        from tidemill.control.driver_log import LogPosition

        goal = Goal.model_validate(self._goal)
        driver = driver_of(plane, goal)
        if driver is None:
            return []
        before = None if self.position is None else LogPosition.model_validate(self.position)
        news = plane.runtime.read_log(driver, before)
        self.position = news.position.model_dump(mode="json")
        is_new = before is None or not before.is_of(driver)
        if is_new and goal.kind == "stopped" and driver.alive:
            # A stream may have run for weeks, so only the end of its log is of interest.
            return [_title(driver)]
        return [_title(driver), *news.lines] if is_new else news.lines


def _title(driver: StartedDriver) -> str:
    return f"log of driver {driver.run_id}, {driver.process}: {driver.log}"
