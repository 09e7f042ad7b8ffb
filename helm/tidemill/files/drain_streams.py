"""Before an uninstall: delete the owner of all streams, and wait until their pods are gone.

Kubernetes then removes what the owner owns: drivers get SIGTERM, finish their batch and leave a clean
receipt, while brokers, roles and volumes are still there. Nothing starts them again: without an owner the
control plane starts nothing.

Usage: drain_streams.py NAMESPACE OWNER SECONDS. Standard library only, so that any image with Python runs it.
"""

from __future__ import annotations

import json
import ssl
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import quote

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
API = "https://kubernetes.default.svc"
# Drivers and executors, whichever pipeline they are of.
PODS = "app.kubernetes.io/managed-by=tidemill,app.kubernetes.io/component in (driver,executor)"

POLL_SECONDS = 1.0
# Seconds for one answer of the API server.
ANSWER_SECONDS = 10


def call(method: str, path: str) -> dict[str, Any]:
    """One call; an object that is gone is an empty answer."""
    request = urllib.request.Request(  # noqa: S310  # the cluster's own https address
        f"{API}{path}",
        headers={"Authorization": f"Bearer {(ACCOUNT / 'token').read_text()}"},
        method=method,
    )
    context = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt"))
    try:
        with urllib.request.urlopen(request, timeout=ANSWER_SECONDS, context=context) as answer:  # noqa: S310
            document: dict[str, Any] = json.load(answer)
    except urllib.error.HTTPError as error:
        if error.code == 404:
            return {}
        raise
    return document


def pods_left(namespace: str) -> list[str]:
    """Names of the pods that are still there."""
    answer = call("GET", f"/api/v1/namespaces/{namespace}/pods?labelSelector={quote(PODS)}")
    return sorted(pod["metadata"]["name"] for pod in answer.get("items", []))


def drain(namespace: str, owner: str, seconds: float) -> None:
    """Delete the owner and wait. When time is up the uninstall goes on, and the kubelet ends the rest."""
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
