"""Errors for problems of driver and executors on Kubernetes, classified by Spark 4.2's messages."""

# ruff: noqa: E501  # the texts are long where Spark's are

from __future__ import annotations

import pytest

from tidemill.engine.classify import classify
from tidemill.errors import SpecError, TidemillError, UnavailableError


class Py4JJavaError(Exception):
    """Stands for py4j's: a Java error as text."""


NO_SCHEDULER = "org.apache.spark.SparkException: External scheduler cannot be instantiated\nCaused by: "
KUBERNETES_CLIENT = "io.fabric8.kubernetes.client.KubernetesClientException: "


@pytest.mark.parametrize(
    ("text", "kind", "error_id"),
    [
        (
            f"{NO_SCHEDULER}{KUBERNETES_CLIENT}Operation: [get]  for kind: [Pod]  with name: [tidemill-orders-0]  in namespace: [plant]  failed.\n"
            "Caused by: java.net.ConnectException: Connection refused",
            UnavailableError,
            "TIDE-K8S-020",
        ),
        (
            f"{NO_SCHEDULER}{KUBERNETES_CLIENT}Failure executing: GET at: https://kubernetes.default.svc:443/api/v1/namespaces/plant/pods/tidemill-orders-0. "
            "Message: Forbidden!Configured service account doesn't have access.",
            SpecError,
            "TIDE-K8S-021",
        ),
        (
            "org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 4.0 failed 4 times, most recent failure: Lost task 0.3 in stage 4.0 "
            "(TID 9) (10.96.0.9 executor 5): ExecutorLostFailure (executor 5 exited caused by one of the running tasks) Reason: The executor exited with exit code 137.",
            UnavailableError,
            "TIDE-K8S-023",
        ),
    ],
)
def test_what_executors_lack(text: str, kind: type[TidemillError], error_id: str) -> None:
    found = classify(Py4JJavaError(text))
    assert (type(found), found.error_id, found.runbook) == (kind, error_id, "executors-missing")
