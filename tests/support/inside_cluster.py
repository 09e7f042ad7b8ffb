"""A test pod next to the release, which sees the lake and feeds the topic.

It outlives the release. It has a separate network policy, so that it also reaches the broker on clusters that
enforce policies.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.support.cluster import Cluster, Document, is_ready, until
from tidemill.dev.iot_events import IotSettings

PROGRAMS = Path(__file__).resolve().parents[1] / "e2e"

POD = "e2e-observer"
LABELS = {"app.kubernetes.io/name": POD}

# Id of user and group in every image.
USER = 10001

# Seconds for the pod to start next to all pods of a new release; the image is already there.
START_TIMEOUT_SECONDS = 400

# Seconds for the broker to have taken the last events; its clients give up after 60.
FLUSH_TIMEOUT_SECONDS = 180


def observer(image: str, claim: str, path: str) -> Document:
    """Return the pod, which waits for requests and has no Kubernetes account."""
    container = {
        "name": "observer",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sleep", "infinity"],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "volumeMounts": [{"name": "data", "mountPath": path}, {"name": "tmp", "mountPath": "/tmp"}],
    }
    spec = {
        "automountServiceAccountToken": False,
        # `sleep` is process 1 and takes no notice of a polite signal.
        "terminationGracePeriodSeconds": 0,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
        "volumes": [
            {"name": "data", "persistentVolumeClaim": {"claimName": claim}},
            {"name": "tmp", "emptyDir": {}},
        ],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": POD, "labels": LABELS}, "spec": spec}


def inward(namespace: str) -> Document:
    """Let the observer of a namespace into every pod; all else is for the release's own policies to say."""
    observers = {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "podSelector": {"matchLabels": LABELS},
    }
    rules = {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": [{"from": [observers]}]}
    return _policy(f"{POD}-in", rules)


def outward() -> Document:
    """Let the observer out."""
    rules = {"podSelector": {"matchLabels": LABELS}, "policyTypes": ["Egress"], "egress": [{}]}
    return _policy(f"{POD}-out", rules)


def _policy(name: str, spec: Document) -> Document:
    kind = {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy"}
    return {**kind, "metadata": {"name": name}, "spec": spec}


def start_observer(cluster: Cluster, image: str, claim: str, path: str) -> None:
    """Create the pod unless it exists, and wait for it."""
    cluster.apply(observer(image, claim, path), inward(cluster.namespace), outward())
    until(
        lambda: (pod := cluster.get("pod", POD)) is not None and is_ready(pod),
        "the observer is ready",
        START_TIMEOUT_SECONDS,
    )


class Agent:
    """`tests/e2e/agent.py` in the observer: one process that answers many questions.

    Args:
        cluster: The namespace.
        root: Storage root, as pods see it.
    """

    def __init__(self, cluster: Cluster, root: str) -> None:
        self._cluster = cluster
        self._root = root
        self._process: subprocess.Popen[str] | None = None

    def close(self) -> None:
        """End the process; the next question begins another."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def ask(self, verb: str, **arguments: Any) -> Any:
        """Return the result of one of the agent's functions; a cut connection is opened again."""
        question = json.dumps({"verb": verb, "arguments": arguments})
        line = self._exchange(question) or self._exchange(question)
        assert line, "the agent does not answer"
        answer = json.loads(line)
        assert "error" not in answer, f"{verb} {arguments}: {answer['error']}"
        return answer["answer"]

    def _exchange(self, question: str) -> str:
        if self._process is None:
            self._process = self._begin()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(question + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            self.close()
        return line

    def _begin(self) -> subprocess.Popen[str]:
        inside = ["exec", "--stdin", POD, "--", "python", "-c", program("agent.py"), self._root]
        return subprocess.Popen(
            ["kubectl", "--namespace", self._cluster.namespace, *inside],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )


class Feeder:
    """`tests/e2e/feeder.py` in the observer, which continues without a connection.

    Args:
        cluster: The namespace.
        folder: Folder in the observer for its progress.
    """

    def __init__(self, cluster: Cluster, folder: str) -> None:
        self._cluster = cluster
        self._folder = folder

    def begin(self, order: Document) -> None:
        """Start it and return at once."""
        script = 'mkdir "$2"; python -c "$0" "$1" "$2" </dev/null >"$2/log" 2>&1 &'
        self._inside("sh", "-c", script, program("feeder.py"), json.dumps(order), self._folder)

    def ask_to_stop(self) -> None:
        self._inside("touch", f"{self._folder}/stop")

    def stop(self) -> int:
        """Stop the feeder, and return the number of events that the broker has accepted."""
        self.ask_to_stop()
        return self.end()

    def end(self) -> int:
        """Wait until all events are sent, and return the number that the broker has accepted."""
        try:
            return int(until(self._sent, "all events are sent", FLUSH_TIMEOUT_SECONDS))
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self._inside('cat', f'{self._folder}/log')}") from error

    def _sent(self) -> str:
        return self._cluster.attempt("exec", POD, "--", "cat", f"{self._folder}/sent").stdout

    def _inside(self, *command: str) -> str:
        return self._cluster("exec", POD, "--", *command)


@contextmanager
def feeding(cluster: Cluster, order: Document, settings: IotSettings) -> Iterator[Feeder]:
    """Send events of these settings; the order has topic, servers, rate and number."""
    changed = {
        name: value for name, value in vars(settings).items() if value != getattr(IotSettings, name, None)
    }
    changed |= {"start": settings.start.isoformat(), "interval": settings.interval.total_seconds()}
    feeder = Feeder(cluster, f"/tmp/feeder-{time.monotonic_ns()}")
    feeder.begin({**order, "settings": changed})
    try:
        yield feeder
    finally:
        feeder.ask_to_stop()


def program(name: str) -> str:
    """Return one of the programs that run in the observer."""
    return (PROGRAMS / name).read_text()


def rows_as_windows(rows: list[list[Any]]) -> dict[tuple[str, datetime], int]:
    """Return events by window, as the table says."""
    counts = {(device, datetime.fromisoformat(start)): events for device, start, events in rows}
    assert len(counts) == len(rows), "a window stands twice in the table"
    return counts
