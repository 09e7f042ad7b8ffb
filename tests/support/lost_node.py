"""A runtime whose driver does not end: its node is lost, so no kubelet ends the process."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from tidemill.control.runtime import MainSlot, Runtime, StartedDriver


@dataclass
class PlaceOfALostNode:
    """A runtime whose driver was asked to stop long ago, and cannot be removed."""

    runtime: Runtime
    driver: StartedDriver
    looks: int = 0
    drains: list[StartedDriver] = field(default_factory=list)
    kills: list[StartedDriver] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.runtime, name)

    def last_start(self, _pipeline: str, _slot: str = "main") -> StartedDriver:
        self.looks += 1
        return self.driver

    def main_slots(self) -> dict[str, MainSlot]:
        return {"orders": MainSlot(self.driver)}

    def drain(self, driver: StartedDriver) -> bool:
        self.drains.append(driver)
        return True

    def kill(self, driver: StartedDriver) -> bool:
        self.kills.append(driver)
        return True


def asked_to_stop(ago: timedelta, **changes: Any) -> StartedDriver:
    """Return a driver that was asked to stop this long ago."""
    now = datetime.now(UTC)
    facts: dict[str, Any] = {
        "pipeline": "orders",
        "mode": "stream",
        "run_id": "run-1",
        "digest": "d1",
        "claimed_at": now - timedelta(hours=1),
        "started_at": now - timedelta(hours=1),
        "log": "/log",
        "process": "pod tidemill-orders-0, Terminating",
        "alive": True,
        "drain_requested_at": now - ago,
    }
    return StartedDriver(**{**facts, **changes})
