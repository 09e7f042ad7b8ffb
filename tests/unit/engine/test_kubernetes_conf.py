"""Spark's settings of a driver that has executors. Each was read in Spark's code or seen on a cluster."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.declared import declared
from tidemill.engine.driver_pod import DriverPod, some_pod, this_pod
from tidemill.engine.kubernetes_conf import uses_executors
from tidemill.engine.session_conf import session_conf
from tidemill.spec.project import Pipeline

POD = DriverPod("tidemill-orders-0", "4d5e6f70", "10.96.0.7", "plant", "0a1b2c3d")
POD_VARIABLES = ("TIDEMILL_POD_NAME", "TIDEMILL_POD_UID", "TIDEMILL_POD_IP", "TIDEMILL_NAMESPACE")
EXECUTORS = {"min": 1, "max": 3, "cores": 2, "memory": "2g"}
KUBERNETES = {
    "namespace": "plant",
    "image": "docker.io/tidemill/spark:0.1.0",
    "volumes": [{"claim": "tidemill-data", "path": "/data"}],
}


def on_kubernetes(folder: Path, name: str = "orders", **kubernetes: Any) -> Pipeline:
    """Return a pipeline of a size with executors."""
    environment = {
        "runtime": "kubernetes",
        "root": "/data/lake",
        "kubernetes": {**KUBERNETES, **kubernetes},
        "sizes": {"small": {"driver": {"memory": "1g"}, "executors": EXECUTORS}, "alone": {"driver": {}}},
    }
    return declared(folder, name, environment)


@pytest.fixture
def conf(tmp_path: Path) -> dict[str, str]:
    return session_conf(on_kubernetes(tmp_path), POD)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("spark.master", "k8s://https://kubernetes.default.svc:443"),
        # Executors find the driver by its pod's address, at ports that network policies name.
        ("spark.driver.host", "10.96.0.7"),
        ("spark.driver.bindAddress", "10.96.0.7"),
        ("spark.driver.port", "7078"),
        ("spark.blockManager.port", "7079"),
        ("spark.kubernetes.namespace", "plant"),
        ("spark.kubernetes.container.image", "docker.io/tidemill/spark:0.1.0"),
        ("spark.kubernetes.container.image.pullPolicy", "IfNotPresent"),
        ("spark.kubernetes.authenticate.executor.serviceAccountName", "tidemill-executor"),
        # Other processes cannot join, read or change their connections.
        ("spark.authenticate", "true"),
        ("spark.authenticate.secret.file", "/run/secrets/tidemill-rpc/secret"),
        ("spark.network.crypto.enabled", "true"),
        ("spark.network.crypto.cipher", "AES/GCM/NoPadding"),
        ("spark.network.crypto.saslFallback", "false"),
        # Without this, an executor does not read the secret's file.
        (
            "spark.executorEnv.JAVA_TOOL_OPTIONS",
            "-Dspark.master=k8s://https://kubernetes.default.svc:443",
        ),
        # Executors follow the work, and end what they began before they go.
        ("spark.dynamicAllocation.enabled", "true"),
        ("spark.dynamicAllocation.minExecutors", "1"),
        ("spark.dynamicAllocation.maxExecutors", "3"),
        ("spark.dynamicAllocation.shuffleTracking.enabled", "false"),
        # The second timeout is for executors that hold a block of a table's snapshot. By default they stay.
        ("spark.dynamicAllocation.executorIdleTimeout", "120s"),
        ("spark.dynamicAllocation.cachedExecutorIdleTimeout", "120s"),
        ("spark.decommission.enabled", "true"),
        ("spark.storage.decommission.shuffleBlocks.enabled", "true"),
        # A quota that is full does not end the driver.
        ("spark.executor.maxNumFailures", "2147483647"),
        ("spark.executor.cores", "2"),
        ("spark.executor.memory", "2g"),
        # Plans are for all executors, not for those that happen to be there.
        ("spark.default.parallelism", "6"),
        ("spark.ui.enabled", "false"),
    ],
)
def test_settings_of_a_driver_with_executors(conf: dict[str, str], name: str, value: str) -> None:
    assert conf[name] == value


def test_python_workers_have_memory_beside_the_heap(conf: dict[str, str]) -> None:
    megabytes = int(conf["spark.executor.memoryOverhead"].removesuffix("m").removesuffix("b"))
    assert megabytes >= 512


def test_what_streams_depend_on_is_the_same_everywhere(conf: dict[str, str], tmp_path: Path) -> None:
    local = session_conf(declared(tmp_path))
    places = ("spark.master", "spark.driver.host", "spark.driver.bindAddress", "spark.app.name")
    same = {name: value for name, value in local.items() if name not in places}
    assert same.items() <= conf.items()


def test_a_size_without_executors_works_alone_in_its_pod(tmp_path: Path) -> None:
    pipeline = on_kubernetes(tmp_path)
    spec = pipeline.spec.model_copy(update={"run": pipeline.spec.run.model_copy(update={"size": "alone"})})
    alone = Pipeline(pipeline.name, spec, pipeline.environment)
    assert not uses_executors(alone, POD)
    assert session_conf(alone, POD)["spark.master"] == "local[1]"


def test_outside_of_a_pod_a_driver_works_alone(tmp_path: Path) -> None:
    assert session_conf(on_kubernetes(tmp_path))["spark.master"] == "local[1]"


@pytest.mark.parametrize("name", ["a", "orders_of_the_day", "a" * 40, "a_" * 19 + "ab"])
def test_executors_names_fit_and_differ_by_driver_process(tmp_path: Path, name: str) -> None:
    key = "spark.kubernetes.executor.podNamePrefix"
    pipeline = on_kubernetes(tmp_path, name)
    first = session_conf(pipeline, POD)[key]
    second = session_conf(pipeline, replace(POD, incarnation="99999999"))[key]
    assert first != second
    # Spark's own rule for the prefix.
    assert re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", first) is not None
    assert len(first) <= 47


def test_pull_secrets_are_named_only_where_there_are_some(conf: dict[str, str], tmp_path: Path) -> None:
    key = "spark.kubernetes.container.image.pullSecrets"
    assert key not in conf
    private = on_kubernetes(tmp_path, image_pull_secrets=["one", "two"])
    assert session_conf(private, POD)[key] == "one,two"


def test_the_reserved_processor_time_may_be_less_than_the_cores(tmp_path: Path) -> None:
    key = "spark.kubernetes.executor.request.cores"
    pipeline = on_kubernetes(tmp_path)
    assert session_conf(pipeline, POD)[key] == "2"
    size = pipeline.size
    assert size.executors is not None
    less = size.model_copy(update={"executors": size.executors.model_copy(update={"cpu_request": "300m"})})
    pipeline.environment.spec.sizes["small"] = less
    assert session_conf(pipeline, POD)[key] == "300m"


def test_no_setting_holds_a_secret(conf: dict[str, str]) -> None:
    named = {name for name in conf if re.search(r"(?i)secret|password|token|key", name)}
    assert named == {"spark.authenticate.secret.file"}


def test_a_pod_is_known_by_its_variables() -> None:
    variables = {
        "TIDEMILL_POD_NAME": POD.name,
        "TIDEMILL_POD_UID": POD.uid,
        "TIDEMILL_POD_IP": POD.ip,
        "TIDEMILL_NAMESPACE": POD.namespace,
    }
    pod = this_pod(variables)
    assert pod is not None
    assert replace(pod, incarnation=POD.incarnation) == POD
    again = this_pod(variables)
    assert again is not None
    assert again.incarnation != pod.incarnation


@pytest.mark.parametrize("missing", POD_VARIABLES)
def test_without_all_of_them_there_is_no_pod(missing: str) -> None:
    variables = dict.fromkeys(POD_VARIABLES, "x")
    assert this_pod(variables) is not None
    assert this_pod({**variables, missing: ""}) is None


def test_a_long_pod_name_still_labels_its_executors() -> None:
    name = "tidemill-" + "a" * 40 + ".backfill-0123abcd-x7k2p"
    (value,) = replace(POD, name=name).executor_labels.values()
    assert re.fullmatch(r"[a-z0-9]([-.a-z0-9]*[a-z0-9])?", value) is not None
    assert len(value) <= 63


def test_a_plan_shows_the_settings_without_a_pod(tmp_path: Path) -> None:
    pipeline = on_kubernetes(tmp_path)
    assert session_conf(pipeline, some_pod(pipeline))["spark.executor.cores"] == "2"
    assert some_pod(declared(tmp_path)) is None
