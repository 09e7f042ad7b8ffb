"""Removing executors that an earlier process of this driver left behind.

They end by themselves when their driver goes, and Kubernetes removes them with its pod. But a container that
is started again in the same pod leaves their pods standing, and one that hangs keeps its node's memory.
"""

from __future__ import annotations

import json
import ssl
from pathlib import Path
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import structlog

from tidemill.engine.driver_pod import API_SERVER, DriverPod

# Where the kubelet puts what a pod needs to speak to the API server.
ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")

# Longest this may keep a driver from starting, in seconds: it is housekeeping.
TIMEOUT_SECONDS = 10.0

# From SIGTERM to SIGKILL, in seconds. Nobody waits for their work any more; not 0, which would free the name
# before the kubelet has ended the process.
GRACE_SECONDS = 1

log = structlog.get_logger()


def remove_leftover_executors(pod: DriverPod, server: str = API_SERVER, account: Path = ACCOUNT) -> bool:
    """Ask the API server to delete them; False, and a line in the log, if it cannot be asked."""
    chosen = ",".join(f"{label}={value}" for label, value in pod.executor_labels.items())
    query = urlencode({"labelSelector": chosen})
    try:
        request = Request(  # noqa: S310  # the cluster's own API server
            f"{server}/api/v1/namespaces/{pod.namespace}/pods?{query}",
            data=json.dumps({"gracePeriodSeconds": GRACE_SECONDS}).encode(),
            headers={
                "Authorization": f"Bearer {(account / 'token').read_text().strip()}",
                "Content-Type": "application/json",
            },
            method="DELETE",
        )
        context = ssl.create_default_context(cafile=str(account / "ca.crt")) if _encrypted(server) else None
        with urlopen(request, timeout=TIMEOUT_SECONDS, context=context):  # noqa: S310
            return True
    except (OSError, URLError) as error:
        log.warning("executors_not_looked_for", pod=pod.name, reason=f"{type(error).__name__}: {error}")
        return False


def _encrypted(server: str) -> bool:
    return server.startswith("https:")
