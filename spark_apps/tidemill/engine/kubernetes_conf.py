"""Spark's configuration for a driver that makes its own executors on Kubernetes. Decided here, without Spark.

The driver runs in its pod in client mode. Executors are pods that Spark makes from our template
(`spec/pod.py`); the driver's pod owns them, so that they vanish with it.
"""

from __future__ import annotations

from datetime import timedelta

from tidemill.engine.driver_pod import API_SERVER, DriverPod
from tidemill.names import kubernetes_name
from tidemill.spec.environment import Executors
from tidemill.spec.kubernetes import KubernetesSettings
from tidemill.spec.pod import (
    BLOCK_MANAGER_PORT,
    DRIVER_PORT,
    EXECUTOR_CONTAINER,
    RPC_SECRET_FILE,
    kubernetes_of,
    memory_overhead,
)
from tidemill.spec.project import Pipeline
from tidemill.spec.units import format_size

# Longest prefix of executors' names that Spark takes, in characters: with `-exec-` and a number it is a
# label.
_PREFIX_CHARACTERS = 47

# How long an executor above `min` may have nothing to do, in seconds. Longer than a new one takes to come
# (10-30); short against the hours until it is needed again.
IDLE_SECONDS = 120

# Spark ends the driver after this many failed executors within the interval below: never. An executor that
# cannot be made (quota full) counts as failed every second, and a driver that ends does not cure that; it
# waits and says so (TIDE-K8S-022). A task that loses its executor four times fails the batch all the same.
MOST_FAILED_EXECUTORS = 2**31 - 1
# Failures that Spark remembers at all; bounds the list that it keeps of them.
FAILURES_REMEMBERED = timedelta(minutes=10)


def uses_executors(pipeline: Pipeline, pod: DriverPod | None) -> bool:
    """Whether the driver makes executors: in a pod, and of a size that has them."""
    return pod is not None and pipeline.size.executors is not None


def executor_slots(executors: Executors) -> int:
    """Tasks that can run at once when all executors are there.

    They come and go, and at the first batch none may be there yet; so plans are made for this number, and
    Spark adds executors as long as tasks wait.
    """
    return executors.max * executors.cores


def kubernetes_conf(pipeline: Pipeline, pod: DriverPod, executors: Executors) -> dict[str, str]:
    """Settings of a driver in `pod` with `executors`."""
    master = f"k8s://{API_SERVER}"
    return {
        "spark.master": master,
        "spark.driver.host": pod.ip,
        "spark.driver.bindAddress": pod.ip,
        "spark.driver.port": str(DRIVER_PORT),
        "spark.blockManager.port": str(BLOCK_MANAGER_PORT),
        "spark.default.parallelism": str(executor_slots(executors)),
        **_pods(pipeline, pod, kubernetes_of(pipeline.environment)),
        **_executor(executors),
        **_allocation(executors),
        **_loss(),
        **_encryption(master),
    }


def _pods(pipeline: Pipeline, pod: DriverPod, settings: KubernetesSettings) -> dict[str, str]:
    prefix = "spark.kubernetes"
    conf = {
        f"{prefix}.namespace": pod.namespace,
        f"{prefix}.container.image": settings.image,
        f"{prefix}.container.image.pullPolicy": settings.image_pull_policy,
        f"{prefix}.authenticate.executor.serviceAccountName": settings.service_accounts.executor,
        f"{prefix}.executor.podTemplateFile": pod.template_file,
        f"{prefix}.executor.podTemplateContainerName": EXECUTOR_CONTAINER,
        # A second process of the driver must not meet the names of the first one's executors.
        f"{prefix}.executor.podNamePrefix": _name_prefix(pipeline, pod),
        # It would hold the files of a SPARK_CONF_DIR; there are none.
        f"{prefix}.executor.disableConfigMap": "true",
        # There are no claims and no Service of Spark's own to look for: a driver may not even ask.
        f"{prefix}.driver.ownPersistentVolumeClaim": "false",
        f"{prefix}.driver.reusePersistentVolumeClaim": "false",
        f"{prefix}.driver.service.deleteOnTermination": "false",
    }
    if settings.image_pull_secrets:
        conf[f"{prefix}.container.image.pullSecrets"] = ",".join(settings.image_pull_secrets)
    return conf


def _name_prefix(pipeline: Pipeline, pod: DriverPod) -> str:
    longest = _PREFIX_CHARACTERS - len(pod.incarnation) - 1
    return f"{kubernetes_name(pipeline.name)[:longest].rstrip('-')}-{pod.incarnation}"


def _executor(executors: Executors) -> dict[str, str]:
    return {
        "spark.executor.cores": str(executors.cores),
        "spark.executor.memory": format_size(executors.memory),
        # Spark's own rule does not know that a client-mode driver is Python and leaves the workers 10%.
        "spark.executor.memoryOverhead": format_size(memory_overhead(executors)),
        "spark.kubernetes.executor.request.cores": executors.cpu_request or str(executors.cores),
    }


def _allocation(executors: Executors) -> dict[str, str]:
    prefix = "spark.dynamicAllocation"
    return {
        f"{prefix}.enabled": "true",
        # There is no shuffle service. An executor that goes hands its shuffle files over (decommissioning);
        # tracked, those of finished batches would keep it until the driver's next full GC.
        f"{prefix}.shuffleTracking.enabled": "false",
        f"{prefix}.executorIdleTimeout": f"{IDLE_SECONDS}s",
        # Delta caches the state of each table's newest snapshot, so some executors always hold a block, and
        # Spark never ends those by default. Blocks are handed over, like shuffle files, or computed again.
        f"{prefix}.cachedExecutorIdleTimeout": f"{IDLE_SECONDS}s",
        f"{prefix}.minExecutors": str(executors.min),
        # As many at first; Spark warns where only one of the two is told.
        "spark.executor.instances": str(executors.min),
        f"{prefix}.maxExecutors": str(executors.max),
        # The query starts while executors do; its tasks wait for them anyway.
        "spark.scheduler.minRegisteredResourcesRatio": "0",
    }


def _loss() -> dict[str, str]:
    return {
        # An executor that is asked to go (idle, or its node is drained) ends its tasks first and hands over
        # what it keeps.
        "spark.decommission.enabled": "true",
        "spark.storage.decommission.enabled": "true",
        "spark.storage.decommission.shuffleBlocks.enabled": "true",
        "spark.storage.decommission.rddBlocks.enabled": "true",
        "spark.executor.maxNumFailures": str(MOST_FAILED_EXECUTORS),
        "spark.executor.failuresValidityInterval": f"{FAILURES_REMEMBERED.seconds}s",
    }


def _encryption(master: str) -> dict[str, str]:
    return {
        "spark.authenticate": "true",
        # A file in each pod. Without it Spark makes up a secret and writes it into each executor's manifest.
        "spark.authenticate.secret.file": RPC_SECRET_FILE,
        # An executor reads that file only on Kubernetes, and is not told in time that it is there.
        "spark.executorEnv.JAVA_TOOL_OPTIONS": f"-Dspark.master={master}",
        "spark.network.crypto.enabled": "true",
        # The default, AES/CTR, does not notice changed bytes.
        "spark.network.crypto.cipher": "AES/GCM/NoPadding",
        "spark.network.crypto.saslFallback": "false",
    }
