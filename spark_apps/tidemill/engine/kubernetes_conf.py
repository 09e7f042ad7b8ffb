"""Spark's configuration for a driver that creates executors on Kubernetes. Pure; it needs no Spark.

The driver runs in its pod in client mode. Spark creates the executor pods from our template (`spec/pod.py`).
The driver's pod owns them, so Kubernetes deletes them together.
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

# Maximum length of the prefix of executor names, in characters. Spark uses the prefix with `-exec-` and a
# number as a label.
_PREFIX_CHARACTERS = 47

# Idle timeout of executors above `min`, in seconds. It is longer than the start of a new executor (10 to 30
# s), and short compared to the hours until the next load peak.
IDLE_SECONDS = 120

# Spark ends the driver after this many failed executors within the interval below, so effectively never. An
# executor that cannot be created (quota full) counts as failed every second, and ending the driver would not
# help; the driver waits and reports it (TIDE-K8S-022). A task that loses its executor four times still fails
# the batch.
MOST_FAILED_EXECUTORS = 2**31 - 1
# Interval for which Spark remembers failures; it limits the length of Spark's list.
FAILURES_REMEMBERED = timedelta(minutes=10)


def uses_executors(pipeline: Pipeline, pod: DriverPod | None) -> bool:
    """Return True if the driver creates executors: in a pod, with a size that has executors."""
    return pod is not None and pipeline.size.executors is not None


def executor_slots(executors: Executors) -> int:
    """Return the number of tasks that can run at once when all executors exist.

    Executors are added and removed, and at the first batch there may be none. So plans are made for this
    number, and Spark adds executors while tasks wait.
    """
    return executors.max * executors.cores


def kubernetes_conf(pipeline: Pipeline, pod: DriverPod, executors: Executors) -> dict[str, str]:
    """Return the settings of a driver in `pod` with `executors`."""
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
        # A restarted driver process must not reuse the names of its predecessor's executors.
        f"{prefix}.executor.podNamePrefix": _name_prefix(pipeline, pod),
        # The ConfigMap would hold the files of SPARK_CONF_DIR, which we do not use.
        f"{prefix}.executor.disableConfigMap": "true",
        # Spark creates no claims and no Service here, and the driver has no permission to look for them.
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
        # Spark's default does not recognize a client-mode driver as Python, and leaves only 10 % for the
        # workers.
        "spark.executor.memoryOverhead": format_size(memory_overhead(executors)),
        "spark.kubernetes.executor.request.cores": executors.cpu_request or str(executors.cores),
    }


def _allocation(executors: Executors) -> dict[str, str]:
    prefix = "spark.dynamicAllocation"
    return {
        f"{prefix}.enabled": "true",
        # There is no shuffle service. A decommissioned executor hands over its shuffle files. With shuffle
        # tracking, the files of finished batches would keep it alive until the driver's next full GC.
        f"{prefix}.shuffleTracking.enabled": "false",
        f"{prefix}.executorIdleTimeout": f"{IDLE_SECONDS}s",
        # Delta caches the state of each table's newest snapshot, so some executors always hold a block, and
        # by default Spark never ends such executors. Blocks are handed over, like shuffle files, or computed
        # again.
        f"{prefix}.cachedExecutorIdleTimeout": f"{IDLE_SECONDS}s",
        f"{prefix}.minExecutors": str(executors.min),
        # The same number as `minExecutors`, because Spark warns if only one of the two is set.
        "spark.executor.instances": str(executors.min),
        f"{prefix}.maxExecutors": str(executors.max),
        # The query starts while executors start, because its tasks wait for them anyway.
        "spark.scheduler.minRegisteredResourcesRatio": "0",
    }


def _loss() -> dict[str, str]:
    return {
        # An executor that is decommissioned (idle, or on a drained node) first finishes its tasks and hands
        # over its blocks.
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
        # A file in each pod. Without it Spark generates a secret and writes it into each executor's manifest.
        "spark.authenticate.secret.file": RPC_SECRET_FILE,
        # Executors read the file only if the master is Kubernetes, which they otherwise learn too late.
        "spark.executorEnv.JAVA_TOOL_OPTIONS": f"-Dspark.master={master}",
        "spark.network.crypto.enabled": "true",
        # The default, AES/CTR, does not detect modified bytes.
        "spark.network.crypto.cipher": "AES/GCM/NoPadding",
        "spark.network.crypto.saslFallback": "false",
    }
