"""What Airflow says of its own components: `/api/v2/monitor/health`, which asks for no login."""

from __future__ import annotations

import json
import urllib.request
from dataclasses import dataclass
from datetime import datetime
from http.client import HTTPException
from typing import Any

# Seconds to wait for the answer: the API server asks its database; the next refresh asks again.
TIMEOUT_SECONDS = 10.0

# Longest answer that is read, in bytes; a real one has half a thousand.
LONGEST_ANSWER = 100_000

# What every answer should name, and the field of its heartbeat. Others, such as a server that is not
# installed, may be missing.
_HEARTBEATS = {
    "scheduler": "latest_scheduler_heartbeat",
    "triggerer": "latest_triggerer_heartbeat",
    "dag_processor": "latest_dag_processor_heartbeat",
    "metadatabase": "",
}


@dataclass(frozen=True)
class ComponentHealth:
    """One component; `heartbeat` is None where it has none."""

    name: str
    healthy: bool
    heartbeat: datetime | None = None


def ask_airflow(url: str) -> tuple[ComponentHealth, ...]:
    """Ask the API server at `url`; that it does not answer is its health."""
    try:
        # The address is the operator's own, checked by the command line.
        with urllib.request.urlopen(  # noqa: S310
            f"{url.rstrip('/')}/api/v2/monitor/health", timeout=TIMEOUT_SECONDS
        ) as answer:
            document = json.loads(answer.read(LONGEST_ANSWER))
        return (ComponentHealth("api_server", True), *components_of(document))
    except (OSError, HTTPException, ValueError, TypeError, AttributeError):
        return (ComponentHealth("api_server", False),)


def components_of(document: dict[str, Any]) -> list[ComponentHealth]:
    """The components that an answer names. A deployment without triggerer says null of it."""
    found = []
    for name, heartbeat in _HEARTBEATS.items():
        said = document.get(name) or {}
        if said.get("status") is not None:
            at = said.get(heartbeat)
            moment = None if at is None else datetime.fromisoformat(at)
            found.append(ComponentHealth(name, said["status"] == "healthy", moment))
    return found
