"""Stops the API server of a real cluster for a while.

A pod on the control plane's machine stops the server's process and lets it continue. This works for kind,
kubeadm and the like. A managed control plane cannot be stopped by its users.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.cluster import Cluster, Document, until

# Where pods may see their machine's processes.
SYSTEM = Cluster("kube-system")
POD = "e2e-stops-the-api-server"

# Stops the process, waits and lets it continue. This pod cannot be ended earlier, because that needs the API
# server.
PROGRAM = """
import os, pathlib, signal, sys, time

names = {path.parent: path.read_text().strip() for path in pathlib.Path("/proc").glob("[0-9]*/comm")}
servers = [int(folder.name) for folder, name in names.items() if name == "kube-apiserver"]
assert servers, "no kube-apiserver runs on this machine"
try:
    for server in servers:
        os.kill(server, signal.SIGSTOP)
    time.sleep(float(sys.argv[1]))
finally:
    for server in servers:
        os.kill(server, signal.SIGCONT)
"""

# Seconds until the server pauses, and until it answers again after the outage.
CHANGE_TIMEOUT_SECONDS = 120

# Maximum response time of a running server.
ANSWER = "--request-timeout=3s"


@contextmanager
def api_server_away(seconds: float, image: str) -> Iterator[None]:
    """Take it away; the block begins when it is gone, and ends after it has come back.

    Args:
        seconds: Duration of the outage.
        image: One that has Python and is on the machine.
    """
    SYSTEM.delete("pod", POD)
    until(lambda: SYSTEM.get("pod", POD) is None, "no such pod is left", CHANGE_TIMEOUT_SECONDS)
    SYSTEM.apply(_pod(seconds, image))
    until(lambda: not _answers(), "the API server is away", CHANGE_TIMEOUT_SECONDS)
    begun = time.monotonic()
    yield
    until(_answers, "the API server is back", seconds + CHANGE_TIMEOUT_SECONDS)
    SYSTEM.delete("pod", POD)
    # A few seconds went by before we saw it.
    assert time.monotonic() - begun > seconds * 0.8


def _answers() -> bool:
    return SYSTEM.attempt("get", "--raw=/readyz", ANSWER).returncode == 0


def _pod(seconds: float, image: str) -> Document:
    container = {
        "name": "stop",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python", "-c", PROGRAM, str(seconds)],
        "securityContext": {"runAsUser": 0, "privileged": True},
    }
    spec = {
        "hostPID": True,
        "restartPolicy": "Never",
        "tolerations": [{"operator": "Exists"}],
        "containers": [container],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": POD}, "spec": spec}
