"""One environment file: storage root, brokers, runtime, sizes and the names of secrets."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from tidemill.spec.hub_login import HubLogin
from tidemill.spec.hygiene import Hygiene
from tidemill.spec.kubernetes import KubernetesSettings, check_root_outlives_pods
from tidemill.spec.lineage import CatalogName, Lineage
from tidemill.spec.location import Root
from tidemill.spec.notify import Channels
from tidemill.spec.registry import Registry
from tidemill.spec.restarts import RestartPolicy
from tidemill.spec.storage import StorageAccess, check_access_fits
from tidemill.spec.strict import Strict
from tidemill.spec.text import Expression, Line, SecretName, Servers, SizeName
from tidemill.spec.units import Count, Duration, Patience, Size
from tidemill.spec.upgrades import UpgradePolicy

# Kubernetes CPU quantity: `500m` or `0.5` is half a core.
CpuQuantity = Annotated[str, Field(pattern=r"^(?:[1-9][0-9]{0,5}m|[0-9]{1,3}(?:\.[0-9]{1,3})?)$")]

# Time that a driver needs after its last batch. Stopping Spark's queries may take 15 s
# (engine/session_conf.py); then the driver writes its receipt. The batch has the rest of the grace period.
WAY_OUT = timedelta(seconds=30)
SHORTEST_GRACE, LONGEST_GRACE = timedelta(minutes=1), timedelta(hours=1)


class KafkaSecurity(Strict):
    """Authentication of clients at the brokers. It names secrets and never contains their values."""

    protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = Field(
        "PLAINTEXT", description="Kafka's security protocol."
    )
    mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None = Field(
        None, description="SASL mechanism. Required for SASL protocols without `event_hubs`."
    )
    username: Line | None = Field(None, description="SASL user name; not a secret.")
    password: SecretName | None = Field(None, description="Name of the secret that holds the SASL password.")
    event_hubs: HubLogin | None = Field(
        None,
        description="Login to an Event Hubs namespace, instead of mechanism, username and password.",
    )
    ca_file: Expression | None = Field(
        None, description="PEM file with the certificate authority, if Java does not trust it by default."
    )

    @model_validator(mode="after")
    def _parts_fit_the_protocol(self) -> Self:
        given = {name: getattr(self, name) is not None for name in ("mechanism", "username", "password")}
        if self.event_hubs is not None:
            if self.protocol != "SASL_SSL" or any(given.values()):
                raise ValueError("`event_hubs` needs SASL_SSL, and no mechanism, username or password")
        elif self.protocol.startswith("SASL"):
            missing = [name for name, is_given in given.items() if not is_given]
            if missing:
                raise ValueError(f"{self.protocol} needs {', '.join(missing)}")
        elif any(given.values()):
            raise ValueError(f"{self.protocol} has no mechanism, username or password; use SASL_SSL")
        if self.ca_file is not None and not self.protocol.endswith("SSL"):
            raise ValueError(f"{self.protocol} is not encrypted, so `ca_file` would have no effect")
        return self


class KafkaConnection(Strict):
    """The Kafka brokers of this environment."""

    bootstrap_servers: Servers = Field(description="host:port[,host:port…]")
    security: KafkaSecurity = Field(KafkaSecurity(), description="Authentication of clients.")


class Resources(Strict):
    """Cores and memory of one process."""

    cores: Count = Field(1, le=256, description="Number of tasks that run at the same time.")
    # Spark does not start with less than 450 MB (1.5 times its reserved 300 MB).
    memory: Size = Field(2**30, ge=450 * 2**20, validate_default=True, description="Heap size of the JVM.")
    memory_overhead: Size | None = Field(
        None,
        description="On Kubernetes, the pod's memory outside the heap, for Python workers, RocksDB and the "
        "JVM itself. Default: 40% of `memory`, at least 512 MB.",
    )
    cpu_request: CpuQuantity | None = Field(
        None, description="On Kubernetes, the CPU request, such as `500m`. Default: `cores`."
    )


class Executors(Resources):
    """Executor pods of one driver. Dynamic allocation sets their number."""

    min: Count = Field(1, le=1000, description="Minimum number of executors.")
    max: Count = Field(1, le=1000, description="Maximum number of executors.")

    @model_validator(mode="after")
    def _min_is_not_above_max(self) -> Self:
        if self.min > self.max:
            raise ValueError("`min` is larger than `max`")
        return self


class DriverSize(Strict):
    """Resources of one driver."""

    driver: Resources = Field(Resources(), description="The driver process.")
    executors: Executors | None = Field(
        None, description="On Kubernetes, the driver's executors. Without them, the driver runs all tasks."
    )


class Secrets(Strict):
    """Location of secret values for drivers, and of the `storage` secret for the command line and Airflow."""

    folder: Expression | None = Field(
        None,
        description="Folder with one file per secret. The default on Kubernetes is /run/secrets/tidemill. "
        "A secret without a file is read from the environment variable TIDEMILL_SECRET_<NAME>.",
    )


class EnvironmentSpec(Strict):
    """The environment in which pipelines run."""

    runtime: Literal["local", "kubernetes"] = Field(
        "local", description="local: drivers are processes on this machine. kubernetes: drivers are pods."
    )
    on_change: Literal["leave", "restart"] = Field(
        "leave",
        description="Handling of a running stream whose definition or image has changed. leave: it runs on "
        "unchanged. restart: it is checked by the gate, drained and started again.",
    )
    upgrade: UpgradePolicy = Field(
        UpgradePolicy(), description="Limits of how many streams `on_change: restart` replaces at once."
    )
    grace_period: Duration = Field(
        timedelta(seconds=120),
        validate_default=True,
        description="Time between the stop request and the kill of a driver that has not ended; 1 minute to "
        "1 hour. The running batch has all of this time except the last 30 seconds. After that it is "
        "interrupted, and the next start repeats it.",
    )
    progress_within: Patience = Field(
        timedelta(minutes=10),
        validate_default=True,
        description="Maximum time that a stream may go without committing a batch or finding its source "
        "empty. After that, the DAG `tidemill_streams` fails. At least 1 minute, and longer than a start.",
    )
    restarts: RestartPolicy = Field(RestartPolicy(), description="Limits for restarting drivers that failed.")
    kubernetes: KubernetesSettings | None = Field(None, description="Settings for `runtime: kubernetes`.")
    root: Root = Field(
        description="Storage root: an absolute folder, a folder relative to the project, or a URI."
    )
    kafka: KafkaConnection | None = Field(None, description="The Kafka brokers.")
    schema_registry: Registry | None = Field(
        None, description="Schema registry of the brokers' topics, with Confluent's REST API."
    )
    model_registry: Registry | None = Field(
        None, description="MLflow tracking server with the registered models."
    )
    storage: StorageAccess | None = Field(
        None,
        description="Credentials for a root on an object store. Default: the machine's role or identity.",
    )
    catalog: CatalogName | None = Field(
        None,
        description="Name of the tables' catalog. With `lake`, the table `silver/orders` is shown, queried "
        "and named in lineage events as `lake.silver.orders`. This is only a name: tables are not moved, and "
        "no metastore is involved.",
    )
    lineage: Lineage | None = Field(
        None, description="Receiver of OpenLineage events of runs. Without this key, no events are sent."
    )
    protected: bool = Field(False, description="If true, destructive commands and backfills need approval.")
    hygiene: Hygiene = Field(Hygiene(), description="Policy of the daily DAGs.")
    notify: Channels = Field(
        [],
        description="Channels that Airflow notifies, once each, when a stream needs an operator, when it has "
        "recovered, and when a run is late. If a channel cannot be reached, the others are still notified, "
        "and it is notified later.",
    )
    spark_ui: bool = Field(
        False,
        description="If true, drivers serve Spark's UI, without kill links, on the loopback interface of "
        "their machine or pod only. `tidemill queries show` prints how to reach it. `run.spark_ui` of a "
        "pipeline overrides this key.",
    )
    secrets: Secrets = Field(Secrets(), description="Location of secret values.")
    sizes: dict[SizeName, DriverSize] = Field({"small": DriverSize()}, description="Driver sizes by name.")

    @property
    def drain_time(self) -> timedelta:
        """Return the maximum time that a stopping driver lets its batch run."""
        return self.grace_period - WAY_OUT

    @field_validator("grace_period")
    @classmethod
    def _long_enough_to_drain(cls, period: timedelta) -> timedelta:
        if not SHORTEST_GRACE <= period <= LONGEST_GRACE:
            raise ValueError("expected at least 1 minute, so that a batch can end, and at most 1 hour")
        return period

    @model_validator(mode="after")
    def _access_fits_the_root(self) -> Self:
        check_access_fits(self.root, self.storage)
        return self

    @model_validator(mode="after")
    def _settings_fit_the_runtime(self) -> Self:
        if self.runtime == "local":
            if self.kubernetes is not None:
                raise ValueError("`kubernetes` needs `runtime: kubernetes`; else it has no effect")
            if any(size.executors is not None for size in self.sizes.values()):
                raise ValueError("`executors` need `runtime: kubernetes`; a local driver works alone")
        elif self.kubernetes is None:
            raise ValueError("`runtime: kubernetes` needs `kubernetes` with namespace and image")
        else:
            check_root_outlives_pods(self.root, self.kubernetes)
        return self
