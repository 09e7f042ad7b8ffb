"""Parts of an operation as Jobs of an API server in memory, and the work of their pods."""

from __future__ import annotations

import threading
from functools import partial
from typing import Any

import pytest

from tests.support.api_server import ApiServerInMemory
from tests.support.cluster_project import Clock, ClusterProject
from tests.support.eventually import eventually
from tidemill.control.game_day.play import play
from tidemill.control.kubernetes.api import JOBS, PODS, Document
from tidemill.control.plane import ControlPlane
from tidemill.control.procedures.run import Asking
from tidemill.control.spark_part import run_part
from tidemill.engine.part_result import PartResult, write_part_result
from tidemill.errors import UnavailableError
from tidemill.spec.project import resolve_pipeline
from tidemill.storage.store import Store

FILES_TO_TABLE = """
description: Orders.
owner: tests
source: {files: {path: "s3a://landing/orders", format: text}}
sinks:
  - delta: {table: bronze/orders}
"""


class Parts:
    """An operation on a cluster, and the work of its pods."""

    def __init__(self, project: ClusterProject, api: ApiServerInMemory, patch: pytest.MonkeyPatch) -> None:
        project.on_a_volume(patch)
        self.api, self.clock = api, Clock()
        self.pipeline = project.pipeline()
        runtime = project.runtime(api, clock=self.clock)
        self.plane = ControlPlane(self.pipeline.environment, Store(self.pipeline.layout.root), runtime)
        self.came_to: list[Any] = []
        self.told: list[str] = []
        patch.setattr("tidemill.control.spark_part.POLL_SECONDS", 0.01)

    def begin(self) -> threading.Thread:
        """Run the operation in a thread, which waits for its part."""
        thread = threading.Thread(target=self._run)
        thread.start()
        return thread

    def play(self) -> threading.Thread:
        """Request a game day in a thread, as a user or a repeated task does."""
        asking = Asking("fork", (), "ann", lambda *words: " ".join(words), request_id="day-1")
        pipeline = resolve_pipeline(self.plane.environment, "orders")
        act = partial(play, self.plane, pipeline, asking, ["kill"], self.told.append)
        thread = threading.Thread(target=lambda: self.came_to.append(act()))
        thread.start()
        return thread

    def _run(self) -> None:
        try:
            self.came_to.append(run_part(self.plane, self.pipeline, "table_restore", ["--restore", "{}"]))
        except UnavailableError as error:
            self.came_to.append(error)

    def pod(self) -> Document:
        """Return the pod of the only Job, once it is let run."""

        def made() -> list[Document]:
            self.api.settle()
            return self.api.list(PODS, {})

        (pod,) = eventually(made, "the part has a pod")
        return pod

    def finish(self, answer: Any) -> None:
        (job,) = self.api.list(JOBS, {})
        run_id = job["metadata"]["annotations"]["tidemill/run-id"]
        result = PartResult(run_id=run_id, answer=answer)
        write_part_result(self.plane.store, self.plane.layout, "orders", result)
        self.api.finish_job(job["metadata"]["name"])
