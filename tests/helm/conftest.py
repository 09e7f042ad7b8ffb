"""A namespace of the cluster that takes restricted pods only; nothing is ever made in it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

NAMESPACE = "tidemill-chart-test"


@pytest.fixture(scope="session")
def restricted_namespace() -> Iterator[str]:
    """Made for the run and removed after it; needs KUBECONFIG."""
    kubectl = ["kubectl", "--request-timeout=30s"]
    label = "pod-security.kubernetes.io/enforce=restricted"
    subprocess.run([*kubectl, "create", "namespace", NAMESPACE], check=True, capture_output=True)
    try:
        subprocess.run([*kubectl, "label", "namespace", NAMESPACE, label], check=True, capture_output=True)
        yield NAMESPACE
    finally:
        subprocess.run(
            [*kubectl, "delete", "namespace", NAMESPACE, "--wait=false"], check=True, capture_output=True
        )
