"""One namespace of a real cluster, through `kubectl`: any cluster that KUBECONFIG names."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from tests.support.eventually import eventually

T = TypeVar("T")

Document = dict[str, Any]

# Seconds between two looks at the cluster: each costs a tenth of a second of a core that the drivers want.
LOOK_SECONDS = 0.7

# Seconds for one call of kubectl, unless more is given. The API server answers in milliseconds, also on two
# busy cores; a delete that waits for its pod is not made with this.
CALL_TIMEOUT_SECONDS = 120

# Seconds for a namespace to go with all that is in it.
NAMESPACE_TIMEOUT_SECONDS = 300

# Every pod of the tests has to pass the strictest of Kubernetes' own standards.
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}


def until(condition: Callable[[], T], expectation: str, timeout_seconds: float) -> T:
    """Return the first true value of a check of the cluster; fail with the expectation after the timeout."""
    return eventually(condition, expectation, timeout_seconds, LOOK_SECONDS)


class RefusedError(AssertionError):
    """An error of the API server or kubectl, with its message."""


@dataclass(frozen=True)
class Cluster:
    """Test operations in a namespace.

    Args:
        namespace: Name of the namespace.
    """

    namespace: str

    def __call__(
        self, *arguments: str, stdin: str | None = None, timeout_seconds: float = CALL_TIMEOUT_SECONDS
    ) -> str:
        """Run kubectl, and return its output.

        Raises:
            RefusedError: If it failed.
        """
        done = self.attempt(*arguments, stdin=stdin, timeout_seconds=timeout_seconds)
        if done.returncode:
            raise RefusedError(f"kubectl {' '.join(arguments)}: {done.stderr or done.stdout}")
        return done.stdout

    def attempt(
        self, *arguments: str, stdin: str | None = None, timeout_seconds: float = CALL_TIMEOUT_SECONDS
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl, however it ends."""
        return subprocess.run(
            ["kubectl", "--namespace", self.namespace, *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_seconds,
            check=False,
        )

    def get(self, kind: str, name: str) -> Document | None:
        """Return one object; None if it does not exist."""
        text = self("get", kind, name, "--ignore-not-found", "--output=json")
        found: Document | None = json.loads(text) if text else None
        return found

    def list(self, kind: str, selector: str = "") -> list[Document]:
        """Return all objects of a kind."""
        found: list[Document] = json.loads(self("get", kind, f"--selector={selector}", "--output=json"))[
            "items"
        ]
        return found

    def pods(self, selector: str = "") -> list[Document]:
        return self.list("pods", selector)

    def apply(self, *documents: Document) -> None:
        self(
            "apply",
            "--filename=-",
            stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": documents}),
        )

    def delete(self, kind: str, name: str, *options: str) -> None:
        """Ask for a deletion and return at once."""
        self("delete", kind, name, "--wait=false", "--ignore-not-found", *options)

    def logs(self, pod: str, *options: str) -> str:
        """Return the logs of a pod's containers that exist."""
        return self.attempt("logs", pod, "--all-containers", *options).stdout

    def secret(self, name: str) -> dict[str, str]:
        """Return values of a Kubernetes Secret."""
        found = self.get("secret", name)
        assert found is not None, f"there is no Secret {name}"
        return {key: base64.b64decode(value).decode() for key, value in (found.get("data") or {}).items()}

    def config(self, name: str) -> dict[str, str]:
        """Return values of a ConfigMap."""
        found = self.get("configmap", name)
        assert found is not None, f"there is no ConfigMap {name}"
        return dict(found.get("data") or {})

    def create_namespace(self) -> None:
        """Recreate the namespace with pod security `restricted`."""
        self.delete_namespace()
        namespace = {"name": self.namespace, "labels": RESTRICTED}
        self.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": namespace})

    def delete_namespace(self) -> None:
        """Delete everything in the namespace, and wait until it is gone."""
        self.delete("namespace", self.namespace)
        # A driver would drain, without a broker or a role by now.
        self.attempt("delete", "pods", "--all", "--wait=false", "--grace-period=1")
        until(
            lambda: self.get("namespace", self.namespace) is None,
            f"the namespace {self.namespace} is gone",
            NAMESPACE_TIMEOUT_SECONDS,
        )


def uid_of(document: Document | None) -> str | None:
    """Identity of an object: another one of the same name has another."""
    return None if document is None else str(document["metadata"]["uid"])


def is_ready(pod: Document) -> bool:
    """Return True if a pod is ready, or if a Job's pod has succeeded."""
    status = pod["status"]
    conditions = {item["type"]: item["status"] for item in status.get("conditions", [])}
    return conditions.get("Ready") == "True" or status.get("phase") == "Succeeded"


def containers_of(pod: Document) -> Sequence[Document]:
    """Return the containers of a pod, the ones that run before the others too."""
    spec = pod["spec"]
    return [*spec.get("initContainers", []), *spec["containers"]]
