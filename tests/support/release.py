"""The chart, installed in a namespace as a user installs it."""

from __future__ import annotations

import json
import subprocess
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.support.cluster import Cluster, Document, is_ready, uid_of, until
from tidemill import __version__

REPOSITORY = Path(__file__).resolve().parents[2]
CHART = REPOSITORY / "helm" / "tidemill"
VALUES = (CHART / "values-evaluation.yaml", REPOSITORY / "tests" / "e2e" / "values.yaml")

# Usual name of the release; every object of the chart begins with it.
NAME = "tidemill"

# Seconds for helm itself, hooks included.
HELM_TIMEOUT_SECONDS = 600

# Seconds until every pod of the chart is ready: a database is made, and Airflow's parts start on two cores.
READY_TIMEOUT_SECONDS = 600

# Seconds for the pods to go after an uninstall: streams drain, at most 120.
GONE_TIMEOUT_SECONDS = 300

# Secret of one pipeline alone, as tests/e2e/values.yaml names it.
RPC_OF_BRONZE = "tidemill-e2e-bronze-rpc"

# Volumes that the chart has made for streams; they outlive their claims.
VOLUMES = "tidemill/volume-of"

# Names of the cluster-wide policies with which the chart limits drivers.
POLICIES = ("executors", "removals")

# Labels of all pods of the chart and of pipelines; tests have separate pods.
PLATFORM = "app.kubernetes.io/name=tidemill"


@dataclass
class Release:
    """The release in a namespace, and its streams in another.

    Args:
        cluster: The namespace of Airflow.
        values: Values that differ from the values files, for `--set-string`.
    """

    cluster: Cluster
    values: dict[str, str] = field(default_factory=dict)
    _values_before: dict[str, str] = field(default_factory=dict)

    @property
    def streams(self) -> Cluster:
        """Return the namespace that the chart makes for streams."""
        return Cluster(f"{self.cluster.namespace}-streams")

    def forget(self) -> None:
        """Delete everything of the release, including data, without a drain."""
        for place in (self.streams, self.cluster):
            place.delete_namespace()
        label = f"{VOLUMES}={self.cluster.namespace}.{NAME}"
        self.cluster("delete", "persistentvolumes", f"--selector={label}", "--wait=false")
        for policy in POLICIES:
            for kind in ("policy", "policybinding"):
                self.cluster.delete(f"validatingadmission{kind}", f"{self.cluster.namespace}-{NAME}-{policy}")

    def install(self) -> None:
        """Install the release, and return when helm does."""
        self._helm("install", NAME, str(CHART), *self._options())
        # The chart makes the namespace, and the installing user makes the Secret.
        metadata, data = {"name": RPC_OF_BRONZE}, {"secret": uuid.uuid4().hex}
        self.streams.apply({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": data})

    def upgrade(self, **values: str) -> None:
        """Upgrade with some other values; `image__tag` means `image.tag`."""
        self._values_before = dict(self.values)
        self.values |= {name.replace("__", "."): value for name, value in values.items()}
        self._helm("upgrade", NAME, str(CHART), *self._options())

    def rollback(self) -> None:
        """Roll back to the previous revision."""
        self._helm("rollback", NAME)
        self.values = self._values_before

    def uninstall(self) -> None:
        """Uninstall, and wait until no pod of it runs."""
        self._helm("uninstall", NAME)
        until(lambda: not self._pods(), "no pod of the release is left", GONE_TIMEOUT_SECONDS)

    def is_installed(self) -> bool:
        """Return True if helm has a release of this name."""
        return NAME in self._helm("list", "--short").split()

    def manifest(self) -> list[Document]:
        """Return every object, as installed."""
        return [each for each in yaml.safe_load_all(self._helm("get", "manifest", NAME)) if each]

    def used_values(self) -> dict[str, Any]:
        """Return all values from which the installed objects were made."""
        found: dict[str, Any] = json.loads(self._helm("get", "values", NAME, "--all", "--output=json"))
        return found

    def image(self, name: str) -> str:
        """Return name and tag of an image."""
        values = self.used_values()["images"][name]
        return f"{values['repository']}:{values['tag'] or __version__}"

    def wait_until_ready(self) -> None:
        """Wait until every pod of the chart is ready, and those of an older revision are gone."""
        until(lambda: not self._unready(), "all pods of the chart are ready", READY_TIMEOUT_SECONDS)

    def _pods(self) -> list[Document]:
        return [*self.cluster.pods(PLATFORM), *self.streams.pods(PLATFORM)]

    def _unready(self) -> list[str]:
        """Return the workloads that are not ready; all while none exist."""
        workloads = [
            f"{kind}/{item['metadata']['name']}"
            for kind in ("deployments", "statefulsets")
            for item in self._parts(kind)
            if not _is_rolled_out(item)
        ]
        jobs = [
            item["metadata"]["name"] for item in self._parts("jobs") if not item["status"].get("succeeded")
        ]
        return [*workloads, *jobs] if self._parts("deployments") else ["everything"]

    def _parts(self, kind: str) -> list[Document]:
        """Return the chart's objects; streams and runs belong to the control plane."""
        items = self.cluster.list(kind, f"app.kubernetes.io/instance={NAME}")
        return [item for item in items if "tidemill/pipeline" not in item["metadata"].get("labels", {})]

    def _options(self) -> list[str]:
        files = [f"--values={path}" for path in VALUES]
        return [*files, *(f"--set-string={name}={value}" for name, value in self.values.items())]

    def _helm(self, *arguments: str) -> str:
        done = subprocess.run(
            ["helm", "--namespace", self.cluster.namespace, *arguments],
            capture_output=True,
            text=True,
            timeout=HELM_TIMEOUT_SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"helm {' '.join(arguments)}: {done.stderr}"
        return done.stdout


def _is_rolled_out(workload: Document) -> bool:
    wanted, status = workload["spec"]["replicas"], workload["status"]
    counts = [status.get(name, 0) for name in ("replicas", "readyReplicas", "updatedReplicas")]
    seen = status.get("observedGeneration", 0) >= workload["metadata"]["generation"]
    return seen and counts == [wanted] * 3


def driver_of(cluster: Cluster, name: str) -> Document | None:
    """Return the pod of a stream's driver."""
    return cluster.get("pod", f"{name}-0")


def is_running(pod: Document | None) -> bool:
    """Return True if a driver's pod is ready and is not being deleted."""
    return pod is not None and is_ready(pod) and "deletionTimestamp" not in pod["metadata"]


__all__ = ["Release", "driver_of", "is_running", "uid_of"]
