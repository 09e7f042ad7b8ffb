"""Health of Airflow's components, from `/api/v2/monitor/health`, which needs no login."""

from __future__ import annotations

import json
import urllib.request
from dataclasses import dataclass
from datetime import datetime
from http.client import HTTPException
from typing import Any

# Seconds to wait for the answer, because the API server queries its database; the next refresh asks again.
TIMEOUT_SECONDS = 10.0

# Maximum bytes of an answer; a real one has half a thousand.
LONGEST_ANSWER = 100_000

# Components that every answer should name, with the field of their heartbeat. Others may be missing because
# they are not installed.
_HEARTBEATS = {
    "scheduler": "latest_scheduler_heartbeat",
    "triggerer": "latest_triggerer_heartbeat",
    "dag_processor": "latest_dag_processor_heartbeat",
    "metadatabase": "",
}


@dataclass(frozen=True)
class ComponentHealth:
    """One component; `heartbeat` is None if it has none."""

    name: str
    healthy: bool
    heartbeat: datetime | None = None


def ask_airflow(url: str) -> tuple[ComponentHealth, ...]:
    """Return the health from the API server at `url`; a missing answer means that it is unhealthy."""
    try:
        # The operator's own address, which the command line has checked.
        with urllib.request.urlopen(  # noqa: S310
            f"{url.rstrip('/')}/api/v2/monitor/health", timeout=TIMEOUT_SECONDS
        ) as answer:
            document = json.loads(answer.read(LONGEST_ANSWER))
        return (ComponentHealth("api_server", True), *components_of(document))
    except (OSError, HTTPException, ValueError, TypeError, AttributeError):
        return (ComponentHealth("api_server", False),)


def components_of(document: dict[str, Any]) -> list[ComponentHealth]:
    """Return the components that an answer names; without a triggerer, its value is null."""
    found = []
    for name, heartbeat in _HEARTBEATS.items():
        said = document.get(name) or {}
        if said.get("status") is not None:
            at = said.get(heartbeat)
            moment = None if at is None else datetime.fromisoformat(at)
            found.append(ComponentHealth(name, said["status"] == "healthy", moment))
    return found
