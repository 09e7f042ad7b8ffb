"""A way from this machine to a port in a pod, as an operator opens it: `kubectl port-forward`."""

from __future__ import annotations

import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from tests.support.cluster import Cluster, until
from tidemill.dev.ports import LOOPBACK, free_ports, is_free

# Seconds for kubectl to listen; it looks for a pod that is ready first.
FORWARD_TIMEOUT_SECONDS = 40

# Seconds for one answer through it.
ANSWER_SECONDS = 60


class PortForward:
    """One forwarded port.

    Args:
        cluster: The namespace.
        target: `pod/<name>` or `service/<name>`.
        port: Port of the target.
    """

    def __init__(self, cluster: Cluster, target: str, port: int) -> None:
        (here,) = free_ports(1)
        command = ["kubectl", "--namespace", cluster.namespace, "port-forward", f"--address={LOOPBACK}"]
        self._process = subprocess.Popen(
            # It logs every connection, and the output is not read.
            [*command, target, f"{here}:{port}"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.url = f"http://{LOOPBACK}:{here}"
        try:
            until(lambda: not is_free(here), "the port is forwarded", FORWARD_TIMEOUT_SECONDS)
        except AssertionError:
            self.close()
            raise

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


@contextmanager
def port_forward(cluster: Cluster, target: str, port: int) -> Iterator[str]:
    """Yield the address here of a port there, during a `with` block."""
    forward = PortForward(cluster, target, port)
    try:
        yield forward.url
    finally:
        forward.close()


def fetched(url: str, headers: Mapping[str, str] | None = None, method: str = "GET") -> tuple[int, str]:
    """Return code and text of an answer; code 0 without an answer."""
    request = urllib.request.Request(url, headers=dict(headers or {}), method=method)
    try:
        with urllib.request.urlopen(request, timeout=ANSWER_SECONDS) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return 0, ""
