"""A project folder whose environment is a cluster, and its runtime over any API server."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.support.small_project import INCREMENTAL, STREAM
from tidemill.control.driver_command import DriverRun
from tidemill.control.kubernetes.api import CONFIG_MAPS, KubernetesApi
from tidemill.control.kubernetes.driver_pod import ENGINE, DriverProgram, Start, owner_reference
from tidemill.control.kubernetes.kubernetes_runtime import KubernetesRuntime
from tidemill.control.kubernetes.slot_record import SlotRecord
from tidemill.spec.project import Environment, Pipeline, load_environment, resolve_pipeline
from tidemill.spec.project_folder import Project

ENVIRONMENT = """
runtime: kubernetes
kubernetes:
  namespace: %(namespace)s
  image: %(image)s
  secrets: [plant]
root: s3://lake
"""

ON_A_VOLUME = """
runtime: kubernetes
kubernetes:
  namespace: %(namespace)s
  image: %(image)s
  volumes: [{claim: lake, path: VOLUME}]
root: VOLUME/lake
"""

OWNER = "tidemill-streams"


@dataclass
class Clock:
    """A time that a test moves."""

    now: datetime = field(default_factory=lambda: datetime.now(UTC))

    def __call__(self) -> datetime:
        return self.now

    def pass_by(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


@dataclass(frozen=True)
class ClusterProject:
    """Pipelines `orders` (a stream) and `daily` (incremental)."""

    folder: Path
    namespace: str = "plant"
    image: str = "docker.io/tidemill/spark:0.1.0"

    def __post_init__(self) -> None:
        for part in ("conf/pipelines", "conf/environments"):
            (self.folder / part).mkdir(parents=True)
        self.environ(ENVIRONMENT)
        self.declare("orders", STREAM)
        self.declare("daily", INCREMENTAL)

    def declare(self, name: str, text: str = STREAM) -> None:
        (self.folder / "conf/pipelines" / f"{name}.yaml").write_text(text % {"name": name})

    def on_a_volume(self, patch: pytest.MonkeyPatch) -> None:
        """Keep its storage on a volume, which is a folder of this machine."""
        patch.setattr("tidemill.spec.kubernetes.TAKEN_FOLDERS", ())
        self.environ(ON_A_VOLUME.replace("VOLUME", str(self.folder / "volume")))

    def environ(self, text: str) -> None:
        file = self.folder / "conf/environments/plant.yaml"
        file.write_text(text % {"namespace": self.namespace, "image": self.image})

    @property
    def environment(self) -> Environment:
        return load_environment(Project(self.folder), "plant", {})

    def pipeline(self, name: str = "orders") -> Pipeline:
        return resolve_pipeline(self.environment, name)

    def runtime(self, api: KubernetesApi, **parts: Any) -> KubernetesRuntime:
        return KubernetesRuntime(self.environment, api, **parts)

    def start(self, run: DriverRun, program: DriverProgram = ENGINE) -> Start:
        """Return the start from which a run's objects are made."""
        record = SlotRecord(run.run_id, run.mode, "d1", datetime(2026, 1, 31, 12, tzinfo=UTC))
        owner = owner_reference({"metadata": {"name": OWNER, "uid": "uid-owner"}})
        return Start(self.pipeline(run.pipeline), run, record, owner, "plane-1", program)


def make_owner(api: KubernetesApi) -> None:
    """Create the owner ConfigMap, as the chart does."""
    document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": OWNER}}
    api.create(CONFIG_MAPS, document)
