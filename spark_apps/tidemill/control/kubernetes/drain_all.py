"""Drain before an uninstall: delete the owner of all streams, and wait until their pods are gone.

    python -m tidemill.control.kubernetes.drain_all NAMESPACE OWNER SECONDS

Kubernetes then removes the owned objects. Drivers get SIGTERM, finish their batch and leave a clean receipt,
while brokers, roles and volumes still exist. They are not started again, because without an owner the control
plane starts nothing. The chart runs this program.
"""

from __future__ import annotations

import sys
import time
from urllib.parse import quote

from tidemill.control.kubernetes.in_pod import POLL_SECONDS, call

# Drivers and executors of all pipelines.
PODS = "app.kubernetes.io/managed-by=tidemill,app.kubernetes.io/component in (driver,executor)"


def pods_left(namespace: str) -> list[str]:
    """Return the names of the remaining pods."""
    answer = call("GET", f"/api/v1/namespaces/{namespace}/pods?labelSelector={quote(PODS)}") or {}
    return sorted(pod["metadata"]["name"] for pod in answer.get("items", []))


def drain(namespace: str, owner: str, seconds: float) -> None:
    """Delete the owner and wait. On timeout the uninstall continues, and the kubelet kills the rest."""
    deadline = time.monotonic() + seconds
    call("DELETE", f"/api/v1/namespaces/{namespace}/configmaps/{owner}?propagationPolicy=Background")
    left = pods_left(namespace)
    sys.stdout.write(f"draining: {', '.join(left) or 'nothing runs'}\n")
    while left and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
        try:
            left = pods_left(namespace)
        except OSError as error:
            sys.stderr.write(f"the API server does not answer: {error}\n")
    sys.stdout.write(f"still there after {seconds:.0f} s: {', '.join(left)}\n" if left else "all drained\n")


if __name__ == "__main__":
    drain(sys.argv[1], sys.argv[2], float(sys.argv[3]))
