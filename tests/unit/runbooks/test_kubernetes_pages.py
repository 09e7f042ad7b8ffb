"""Pages about objects on Kubernetes: each error is brought about over an API server in memory, and mended.

The pages' commands run on the patient's own place, a local one: what they do is the same in every runtime.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from tests.support.api_server import ApiServerInMemory, away, crash_looping
from tests.support.cluster_project import OWNER, ClusterProject, make_owner
from tests.support.patient import Patient
from tests.support.runbook_pages import runbook_pages
from tests.support.runbook_story import Story, Told, each_story
from tidemill.control.driver_command import DriverRun, Mode
from tidemill.control.kubernetes.api import CONFIG_MAPS, STATEFUL_SETS, Kind
from tidemill.errors import TidemillError, UnavailableError


class Namespace:
    """A namespace where something is wrong with the pipeline `orders`, until it is mended.

    Args:
        spoil: Makes it wrong.
        mend: What the page says to do.
        mode: How the next driver is to run.
    """

    def __init__(
        self,
        spoil: Callable[[ApiServerInMemory], object],
        mend: Callable[[ApiServerInMemory], object],
        mode: Mode = "stream",
    ) -> None:
        self._spoil, self._mend, self._mode = spoil, mend, mode
        self._api = ApiServerInMemory()
        self._project: ClusterProject | None = None

    def fall_ill(self, patient: Patient) -> None:
        patient.ran(2)
        self._project = ClusterProject(Path(patient.drivers.folder) / "cluster")
        make_owner(self._api)
        self._spoil(self._api)

    def errors(self, _patient: Patient) -> list[str]:
        """Return the error of a start."""
        assert self._project is not None
        try:
            self._project.runtime(self._api).start(DriverRun("orders", self._mode, "run-9"), "d1")
        except TidemillError as error:
            return [error.error_id]
        return []

    def mend(self, _patient: Patient) -> None:
        self._mend(self._api)


def answers_again(api: ApiServerInMemory) -> None:
    api.before = ApiServerInMemory().before


def rejects(api: ApiServerInMemory) -> None:
    """Let a webhook reject every StatefulSet."""

    def before(verb: str, kind: Kind) -> None:
        if (verb, kind) == ("create", STATEFUL_SETS):
            raise UnavailableError("TIDE-K8S-011", "An admission rule rejects an object.")

    api.before = before


def goes_away(api: ApiServerInMemory) -> None:
    api.before = away


def somebody_elses(api: ApiServerInMemory) -> None:
    api.put(STATEFUL_SETS, {"metadata": {"name": "tidemill-orders", "labels": {}}, "spec": {"replicas": 0}})


def damaged(api: ApiServerInMemory) -> None:
    notes = {"tidemill/run-id": "run-1", "tidemill/mode": "perhaps"}
    labels = {"app.kubernetes.io/managed-by": "tidemill", "tidemill/pipeline": "orders"}
    metadata = {"name": "tidemill-orders", "annotations": notes, "labels": labels}
    api.put(CONFIG_MAPS, {"metadata": metadata})


def a_stream_that_crashed(api: ApiServerInMemory) -> None:
    labels = {
        "app.kubernetes.io/managed-by": "tidemill",
        "app.kubernetes.io/component": "driver",
        "tidemill/pipeline": "orders",
        "tidemill/slot": "main",
    }
    metadata = {"labels": labels, "annotations": {}}
    template = {"metadata": metadata, "spec": {}}
    spec = {"replicas": 1, "template": template}
    api.put(STATEFUL_SETS, {"metadata": {"name": "tidemill-orders", **metadata}, "spec": spec})
    api.settle()
    api.change_pod("tidemill-orders-0", crash_looping(datetime.now(UTC)))


def story(page: str, title: str, error: str, namespace: Namespace, *steps: str) -> Story:
    return Story(
        page,
        title,
        namespace.fall_ill,
        (error,),
        [namespace.mend, *steps],
        seen=namespace.errors,
    )


STORIES = [
    story(
        "kubernetes-unavailable",
        "the API server is away",
        "TIDE-K8S-001",
        Namespace(goes_away, answers_again),
    ),
    story(
        "kubernetes-object-refused",
        "a StatefulSet of the name is somebody else's",
        "TIDE-K8S-005",
        Namespace(somebody_elses, lambda api: api.delete(STATEFUL_SETS, "tidemill-orders", {})),
    ),
    story(
        "kubernetes-object-refused",
        "the chart's ConfigMap is gone",
        "TIDE-K8S-006",
        Namespace(lambda api: api.delete(CONFIG_MAPS, OWNER, {}), make_owner),
    ),
    story(
        "kubernetes-object-refused",
        "a webhook rejects what is made",
        "TIDE-K8S-011",
        Namespace(rejects, answers_again),
    ),
    story(
        "kubernetes-object-refused",
        "annotations were edited",
        "TIDE-K8S-008",
        Namespace(damaged, lambda api: api.delete(CONFIG_MAPS, "tidemill-orders", {})),
    ),
    story(
        "kubernetes-object-refused",
        "a stream that crashes became incremental",
        "TIDE-K8S-009",
        Namespace(a_stream_that_crashed, lambda api: api.settle(), "incremental"),
    ),
]


@each_story(STORIES)
def test_the_pages_commands_end_what_the_page_is_about(story: Story, patient: Patient) -> None:
    Told(story, runbook_pages()[story.page], patient).tell()
