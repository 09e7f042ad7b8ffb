"""A real API server takes every object, and its pod security takes every pod, without making one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from subprocess import CompletedProcess

import pytest

from tests.support.chart import BARE, Document, Values, pod_templates, render
from tests.support.cluster import Cluster

# Milliseconds each: no pod starts.
pytestmark = pytest.mark.core

# Known only where the Prometheus operator is.
MONITORING = "monitoring.coreos.com/v1"

MATRIX: list[tuple[tuple[str, ...], Values]] = [
    (("evaluation",), {}),
    (("azure",), {}),
    (("external-airflow",), {}),
    ((), BARE),
]
NAMES = ["evaluation", "azure", "external-airflow", "everything-off"]

NAMESPACE = "tidemill-e2e-chart"
STREAMS = f"{NAMESPACE}-streams"


@pytest.fixture(scope="module", autouse=True)
def restricted_namespaces() -> Iterator[None]:
    """Create the namespaces of Airflow and the streams, which accept only restricted pods and stay empty."""
    places = [Cluster(NAMESPACE), Cluster(STREAMS)]
    for place in places:
        place.create_namespace()
    yield
    for place in places:
        place.delete_namespace()


def dry_run(documents: Sequence[Document], namespace: str) -> CompletedProcess[str]:
    """Have the API server look at them as if they were made; unknown and repeated keys are errors."""
    listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": documents})
    options = ("--dry-run=server", "--validate=strict", "--filename=-")
    return Cluster(namespace).attempt("create", *options, stdin=listed)


@pytest.mark.parametrize(("files", "values"), MATRIX, ids=NAMES)
def test_the_api_server_takes_every_object(files: tuple[str, ...], values: Values) -> None:
    documents = render(*files, values=values, namespace=NAMESPACE)
    # The namespace is there: without it nothing else could be looked at.
    known = [each for each in documents if each["apiVersion"] != MONITORING and each["kind"] != "Namespace"]
    of_streams = [each for each in known if each["metadata"].get("namespace") == STREAMS]
    others = [each for each in known if each not in of_streams]
    assert of_streams
    for part, namespace in ((of_streams, STREAMS), (others, NAMESPACE)):
        done = dry_run(part, namespace)
        assert (done.returncode, done.stderr) == (0, "")
        assert len(done.stdout.splitlines()) == len(part)


@pytest.mark.parametrize(("files", "values"), MATRIX[:3], ids=NAMES[:3])
def test_every_pod_passes_restricted_pod_security(files: tuple[str, ...], values: Values) -> None:
    documents = render(*files, values=values, namespace=NAMESPACE)
    pods = [pod_of(name, template) for name, template in pod_templates(documents)]
    done = dry_run(pods, NAMESPACE)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) == len(pods)


def test_the_namespace_refuses_a_pod_that_is_not_restricted() -> None:
    pod = {"spec": {"containers": [{"name": "root", "image": "example"}]}, "metadata": {}}
    done = dry_run([pod_of("Pod/root", pod)], NAMESPACE)
    assert "violates PodSecurity" in done.stderr


def pod_of(name: str, template: Document) -> Document:
    """Return a pod as its controller would make it, of the namespace's default account."""
    spec = {**template["spec"], "serviceAccountName": "default"}
    # Classes of the same release, which a dry run does not make.
    spec.pop("priorityClassName", None)
    metadata = {**template["metadata"], "name": name.partition("/")[2].lower()}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def test_a_misspelt_key_is_an_error() -> None:
    wrong = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "wrong"}, "dta": {}}
    assert 'unknown field "dta"' in dry_run([wrong], NAMESPACE).stderr
