"""Removal of executors that an earlier process of this driver left behind.

Executors end when their driver ends, and Kubernetes deletes them with its pod. But after a container restart
in the same pod their pods still exist, and an executor that hangs keeps its node's memory.
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

# Folder in which the kubelet puts the token and certificate for the API server.
ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")

# Maximum time by which this may delay a driver's start, in seconds, because it is only housekeeping.
TIMEOUT_SECONDS = 10.0

# Seconds from SIGTERM to SIGKILL. The time is short because no driver waits for the executors' work any more.
# It is not 0, because that would free the name before the kubelet has ended the process.
GRACE_SECONDS = 1

log = structlog.get_logger()


def remove_leftover_executors(pod: DriverPod, server: str = API_SERVER, account: Path = ACCOUNT) -> bool:
    """Delete the executors through the API server; if that fails, log it and return False."""
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
