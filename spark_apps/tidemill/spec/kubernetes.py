"""Kubernetes settings of an environment file: namespace, image, accounts, volumes."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, field_validator, model_validator

from tidemill.names import PIPELINE_PATTERN
from tidemill.spec.location import root_of_clients
from tidemill.spec.strict import Strict

# Kubernetes' naming rules: a namespace is an RFC 1123 label, most other names are RFC 1123 subdomains.
NAMESPACE_PATTERN = r"^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$"
OBJECT_PATTERN = r"^[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?$"
# [prefix/]name of a label or annotation, and the value of a label.
KEY_PATTERN = r"^(?:[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$"
LABEL_VALUE_PATTERN = r"^(?:[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?$"
# registry/repository:tag or @digest, without characters that are special in a shell or a log line.
IMAGE_PATTERN = r"^[a-z0-9][A-Za-z0-9._:/@-]{0,254}$"
# Name of an Airflow connection, without slashes and quotes.
CONNECTION_PATTERN = r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}$"
MOUNT_PATTERN = r"^(?:/[A-Za-z0-9][A-Za-z0-9._-]{0,99}){1,10}$"

# Prefixes of labels and annotations that Tidemill sets.
RESERVED_PREFIXES = ("tidemill/", "app.kubernetes.io/")

# Folders of a driver pod that are in use: scratch space, folders of the image, and mounts.
TAKEN_FOLDERS = ("/tmp", "/home", "/opt", "/etc", "/run", "/usr", "/var", "/proc", "/sys", "/dev")  # noqa: S108

Namespace = Annotated[str, Field(pattern=NAMESPACE_PATTERN)]
ObjectName = Annotated[str, Field(pattern=OBJECT_PATTERN)]
Image = Annotated[str, Field(pattern=IMAGE_PATTERN)]
PipelineName = Annotated[str, Field(pattern=f"^{PIPELINE_PATTERN}$")]
LabelKey = Annotated[str, Field(pattern=KEY_PATTERN)]
LabelValue = Annotated[str, Field(pattern=LABEL_VALUE_PATTERN)]
ConnectionName = Annotated[str, Field(pattern=CONNECTION_PATTERN)]


def _not_taken(path: str) -> str:
    if any(PurePosixPath(path).is_relative_to(taken) for taken in TAKEN_FOLDERS):
        raise ValueError(f"drivers use {', '.join(TAKEN_FOLDERS)} themselves; mount it elsewhere, e.g. /data")
    return path


MountPath = Annotated[str, Field(pattern=MOUNT_PATTERN), AfterValidator(_not_taken)]


class ServiceAccounts(Strict):
    """Identities of drivers and executors at the API server and, with workload identity, in the cloud."""

    driver: ObjectName = Field(
        "tidemill-driver", description="Account of drivers, which may manage the pods of their executors."
    )
    executor: ObjectName = Field(
        "tidemill-executor",
        description="Account of executors. It has no permissions, and its pods get no token.",
    )


class ClaimedVolume(Strict):
    """A volume that driver and executor pods share."""

    claim: ObjectName = Field(description="Name of a PersistentVolumeClaim in the namespace.")
    path: MountPath = Field(description="Mount path, the same in every pod.")


class Toleration(Strict):
    """A node taint that driver and executor pods tolerate."""

    key: LabelKey | None = Field(None, description="Key of the taint. Without it, all taints match.")
    operator: Literal["Exists", "Equal"] = Field("Equal", description="Comparison of `value`.")
    value: LabelValue | None = Field(None, description="Value of the taint.")
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = Field(
        None, description="Effect of the taint. Without it, all effects match."
    )

    @model_validator(mode="after")
    def _parts_belong_together(self) -> Self:
        if self.operator == "Exists" and self.value is not None:
            raise ValueError("`Exists` compares no value; leave `value` out")
        if self.operator == "Equal" and self.key is None:
            raise ValueError("`Equal` needs a `key`; `operator: Exists` tolerates all taints")
        return self


class PodSettings(Strict):
    """Additional settings of driver and executor pods."""

    labels: dict[LabelKey, LabelValue] = Field({}, description="Additional labels.")
    annotations: dict[LabelKey, str] = Field({}, description="Additional annotations.")
    node_selector: dict[LabelKey, LabelValue] = Field({}, description="Labels of the nodes to run on.")
    tolerations: list[Toleration] = Field([], description="Node taints to tolerate.")
    priority_class: ObjectName | None = Field(None, description="PriorityClass of the pods.")
    evictable: bool = Field(
        False,
        description="If true, a node drain or an autoscaler may evict a running stream, which then drains "
        "and starts on another node. If false, its PodDisruptionBudget blocks evictions until an operator "
        "stops the stream.",
    )

    @field_validator("labels", "annotations")
    @classmethod
    def _not_the_platforms_own(cls, given: dict[str, str]) -> dict[str, str]:
        if any(key.startswith(RESERVED_PREFIXES) for key in given):
            raise ValueError(f"keys below {' and '.join(RESERVED_PREFIXES)} are set by Tidemill itself")
        return given


class PipelineSecrets(Strict):
    """Secrets of one pipeline. They replace the Secrets that all pipelines have."""

    rpc_secret: ObjectName | None = Field(
        None, description="Kubernetes Secret whose key `secret` the driver and its executors share."
    )
    secrets: list[ObjectName] | None = Field(
        None, description="Kubernetes Secrets. Each key is a file in the secrets folder."
    )


class KubernetesSettings(Strict):
    """The namespace, image and identities of drivers on a cluster."""

    namespace: Namespace = Field(description="Namespace of all objects.")
    connection: ConnectionName | None = Field(
        None,
        description="Airflow connection of type `kubernetes` with which Airflow reaches the cluster "
        "(`kubernetes_conn_id` of operators). Without it, Airflow uses the account of its pod, or else "
        "KUBECONFIG. The command line always does the same.",
    )
    image: Image = Field(description="Image of drivers and executors, with registry and tag.")
    image_pull_policy: Literal["IfNotPresent", "Always", "Never"] = Field(
        "IfNotPresent", description="Pull policy of the image."
    )
    image_pull_secrets: list[ObjectName] = Field([], description="Kubernetes Secrets for the registry.")
    service_accounts: ServiceAccounts = Field(ServiceAccounts(), description="Service accounts of the pods.")
    owner: ObjectName = Field(
        "tidemill-streams",
        description="ConfigMap that owns all objects of pipelines. Deleting it drains and removes them.",
    )
    rpc_secret: ObjectName = Field(
        "tidemill-rpc", description="Kubernetes Secret whose key `secret` driver and executors share."
    )
    secrets: list[ObjectName] = Field(
        [], description="Kubernetes Secrets. Each key is a file in the secrets folder."
    )
    pipelines: dict[PipelineName, PipelineSecrets] = Field(
        {}, description="Pipelines with separate Secrets, by name."
    )
    volumes: list[ClaimedVolume] = Field([], description="Volumes of driver and executor pods.")
    pods: PodSettings = Field(PodSettings(), description="Labels, annotations and placement of the pods.")

    def rpc_secret_of(self, pipeline: str) -> str:
        """Return the Secret that a pipeline's driver and executors share."""
        own = self.pipelines.get(pipeline)
        return self.rpc_secret if own is None or own.rpc_secret is None else own.rpc_secret

    def secrets_of(self, pipeline: str) -> list[str]:
        """Return the Secrets whose keys are files in a pipeline's pods."""
        own = self.pipelines.get(pipeline)
        return self.secrets if own is None or own.secrets is None else own.secrets

    @field_validator("volumes")
    @classmethod
    def _one_volume_at_a_place(cls, volumes: list[ClaimedVolume]) -> list[ClaimedVolume]:
        paths = [PurePosixPath(volume.path) for volume in volumes]
        for place, path in enumerate(paths):
            others = paths[:place] + paths[place + 1 :]
            if any(path.is_relative_to(other) for other in others):
                raise ValueError("one volume is mounted inside another; give each a folder of its own")
        return volumes


def check_root_outlives_pods(root: str, settings: KubernetesSettings) -> None:
    """Check that the storage root is not inside a pod, where it would be lost with the pod.

    Raises:
        ValueError: If it is relative, or not on one of the volumes.
    """
    folder = root_of_clients(root)
    if "://" in folder:
        return
    if not any(PurePosixPath(folder).is_relative_to(volume.path) for volume in settings.volumes):
        raise ValueError(
            "on Kubernetes `root` is a URI of an object store, or an absolute folder on one of "
            "`kubernetes.volumes`: a pod's own folders vanish with it"
        )
