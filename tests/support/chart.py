"""The chart, rendered by helm, as documents."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml

CHART = Path(__file__).parents[2] / "helm" / "tidemill"

# Kubernetes version for rendering. Without a cluster, helm assumes an old version.
KUBERNETES_VERSION = "1.34"

# Default namespaces of `render`.
AIRFLOW, STREAMS = "tidemill", "tidemill-streams"

Document = dict[str, Any]
Values = Mapping[str, Any]

# Values with everything off that can be off, and without names of existing objects.
BARE: Values = {
    "airflow": {"enabled": False},
    "controlPlane": {"drainOnUninstall": False},
    "environment": {"name": "bare", "file": {"root": "s3://bucket/lake"}},
    "networkPolicy": {"enabled": False},
    "secrets": {"rpc": "given-rpc"},
    "streams": {"admissionPolicy": False},
}


class ChartError(AssertionError):
    """An error of Helm, with its message."""


def render(
    *files: str,
    values: Values | None = None,
    release: str = "tidemill",
    namespace: str = AIRFLOW,
    kubernetes_version: str = KUBERNETES_VERSION,
) -> list[Document]:
    """Documents of the chart with these values files (`evaluation` is values-evaluation.yaml), then `values`.

    Raises:
        ChartError: If helm refuses the values.
    """
    text = _template(files, json.dumps(values or {}), release, namespace, kubernetes_version)
    return [document for document in yaml.load_all(text, yaml.CSafeLoader) if document]


# Many tests look at the same releases; helm takes a tenth of a second each time.
@cache
def _template(
    files: tuple[str, ...], values: str, release: str, namespace: str, kubernetes_version: str
) -> str:
    with tempfile.NamedTemporaryFile("w", suffix=".json") as own:
        own.write(values)
        own.flush()
        names = [str(CHART / f"values-{file}.yaml") for file in files] + [own.name]
        command = ["helm", "template", release, str(CHART), "--namespace", namespace]
        command += ["--kube-version", kubernetes_version, *(f"--values={name}" for name in names)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    if done.returncode != 0:
        raise ChartError(done.stderr)
    return done.stdout


def of_kind(documents: Sequence[Document], kind: str, namespace: str | None = None) -> dict[str, Document]:
    """Return the documents of one kind, by name, and of one namespace if it is given."""
    found = [each for each in documents if each["kind"] == kind and namespace in (None, namespace_of(each))]
    by_name = {each["metadata"]["name"]: each for each in found}
    assert len(by_name) == len(found), f"the same {kind} in two namespaces: name one of them"
    return by_name


def namespace_of(document: Document) -> str:
    """Return an object's namespace. One without a namespace is in the release's, or is cluster-wide."""
    return str(document["metadata"].get("namespace", AIRFLOW))


def pod_templates(documents: Sequence[Document]) -> Iterator[tuple[str, Document]]:
    """Yield every pod that the documents lead to, with the kind and name of what makes it."""
    for document in documents:
        template = document.get("spec", {}).get("template")
        if isinstance(template, dict):
            yield f"{document['kind']}/{document['metadata']['name']}", template


def containers(template: Document) -> list[Document]:
    """Return all containers of a pod, including init containers."""
    return [*template["spec"].get("initContainers", []), *template["spec"]["containers"]]


def environment_file(documents: Sequence[Document], release: str = "tidemill") -> Document:
    """Return the environment file that Airflow's pods find."""
    (text,) = of_kind(documents, "ConfigMap")[f"{release}-environment"]["data"].values()
    document: Document = yaml.safe_load(text)
    return document
