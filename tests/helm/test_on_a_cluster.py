"""A real API server takes every object, and its pod security takes every pod, without making one."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence

import pytest

from tests.support.chart import BARE, Document, Values, pod_templates, render

# Known only where the Prometheus operator is.
MONITORING = "monitoring.coreos.com/v1"

MATRIX: list[tuple[tuple[str, ...], Values]] = [
    (("evaluation",), {}),
    (("azure",), {}),
    (("external-airflow",), {}),
    ((), BARE),
]
NAMES = ["evaluation", "azure", "external-airflow", "everything-off"]


def dry_run(documents: Sequence[Document], namespace: str) -> subprocess.CompletedProcess[str]:
    """Have the API server look at them as if they were made; unknown and repeated keys are errors."""
    command = ["kubectl", "--namespace", namespace, "--request-timeout=60s", "create"]
    return subprocess.run(
        [*command, "--dry-run=server", "--validate=strict", "--filename=-"],
        input=json.dumps({"apiVersion": "v1", "kind": "List", "items": documents}),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.mark.parametrize(("files", "values"), MATRIX, ids=NAMES)
def test_the_api_server_takes_every_object(
    restricted_namespace: str, files: tuple[str, ...], values: Values
) -> None:
    documents = render(*files, values=values, namespace=restricted_namespace)
    known = [each for each in documents if each["apiVersion"] != MONITORING]
    done = dry_run(known, restricted_namespace)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) == len(known)


@pytest.mark.parametrize(("files", "values"), MATRIX[:3], ids=NAMES[:3])
def test_every_pod_passes_restricted_pod_security(
    restricted_namespace: str, files: tuple[str, ...], values: Values
) -> None:
    documents = render(*files, values=values, namespace=restricted_namespace)
    pods = [pod_of(name, template) for name, template in pod_templates(documents)]
    done = dry_run(pods, restricted_namespace)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) == len(pods)


def test_the_namespace_refuses_a_pod_that_is_not_restricted(restricted_namespace: str) -> None:
    pod = {"spec": {"containers": [{"name": "root", "image": "example"}]}, "metadata": {}}
    done = dry_run([pod_of("Pod/root", pod)], restricted_namespace)
    assert "violates PodSecurity" in done.stderr


def pod_of(name: str, template: Document) -> Document:
    """A pod as its controller would make it, of the namespace's default account."""
    spec = {**template["spec"], "serviceAccountName": "default"}
    # Classes of the same release, which a dry run does not make.
    spec.pop("priorityClassName", None)
    metadata = {**template["metadata"], "name": name.partition("/")[2].lower()}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def test_a_misspelt_key_is_an_error(restricted_namespace: str) -> None:
    wrong = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "wrong"}, "dta": {}}
    assert 'unknown field "dta"' in dry_run([wrong], restricted_namespace).stderr
