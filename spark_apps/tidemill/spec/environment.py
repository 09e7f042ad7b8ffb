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

# Kubernetes' quantity of processor time, as people write it: `500m` or `0.5` is half a core.
CpuQuantity = Annotated[str, Field(pattern=r"^(?:[1-9][0-9]{0,5}m|[0-9]{1,3}(?:\.[0-9]{1,3})?)$")]

# What a driver needs after its last batch: stopping Spark's queries may take 15 s (engine/session_conf.py),
# then it writes its receipt. The rest of the grace period is the batch's.
WAY_OUT = timedelta(seconds=30)
SHORTEST_GRACE, LONGEST_GRACE = timedelta(minutes=1), timedelta(hours=1)


class KafkaSecurity(Strict):
    """How clients prove who they are to the brokers. Values of secrets are never written here."""

    protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = Field(
        "PLAINTEXT", description="Kafka's security protocol."
    )
    mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None = Field(
        None, description="SASL mechanism; required with SASL protocols."
    )
    username: Line | None = Field(None, description="SASL user name; not a secret.")
    password: SecretName | None = Field(None, description="Name of the secret that holds the SASL password.")
    event_hubs: HubLogin | None = Field(
        None,
        description="Login to an Event Hubs namespace, instead of mechanism, username and password.",
    )
    ca_file: Expression | None = Field(
        None, description="PEM file with the certificate authority, if not one that Java trusts."
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
    """The brokers of this environment."""

    bootstrap_servers: Servers = Field(description="host:port[,host:port…]")
    security: KafkaSecurity = Field(KafkaSecurity(), description="How clients prove who they are.")


class Resources(Strict):
    """Cores and memory of one process."""

    cores: Count = Field(1, le=256, description="Tasks that run at the same time.")
    # Spark asks for 450 MB at least (1.5 times its reserved 300 MB) and does not start below.
    memory: Size = Field(2**30, ge=450 * 2**20, validate_default=True, description="Heap of the JVM.")
    memory_overhead: Size | None = Field(
        None,
        description="On Kubernetes, memory of the pod beside the heap: Python workers, RocksDB, the JVM "
        "itself. Else 40% of `memory`, 512 MB at least.",
    )
    cpu_request: CpuQuantity | None = Field(
        None, description="On Kubernetes, what is reserved on the node, such as `500m`; else `cores`."
    )


class Executors(Resources):
    """Executor pods of one driver; their number follows the work."""

    min: Count = Field(1, le=1000, description="Executors that are always there.")
    max: Count = Field(1, le=1000, description="Executors at most.")

    @model_validator(mode="after")
    def _min_is_not_above_max(self) -> Self:
        if self.min > self.max:
            raise ValueError("`min` is larger than `max`")
        return self


class DriverSize(Strict):
    """What one driver may use."""

    driver: Resources = Field(Resources(), description="The driver process.")
    executors: Executors | None = Field(
        None, description="On Kubernetes, its executors; without them the driver works alone in its pod."
    )


class Secrets(Strict):
    """Where drivers find the values of secrets; the command line and Airflow, too, that of `storage`."""

    folder: Expression | None = Field(
        None,
        description="Folder with one file per secret, on Kubernetes /run/secrets/tidemill if nothing else is "
        "said; else the variable TIDEMILL_SECRET_<NAME>.",
    )


class EnvironmentSpec(Strict):
    """Where and with what pipelines run."""

    runtime: Literal["local", "kubernetes"] = Field(
        "local", description="Where drivers run: processes on this machine, or pods."
    )
    on_change: Literal["leave", "restart"] = Field(
        "leave",
        description="A running stream whose definition, or image, changed is left as it is, or gated, "
        "drained and started anew.",
    )
    upgrade: UpgradePolicy = Field(
        UpgradePolicy(), description="How many running streams `on_change: restart` replaces at once."
    )
    grace_period: Duration = Field(
        timedelta(seconds=120),
        validate_default=True,
        description="From the request to stop until a driver that has not ended is killed; 1 minute to 1 "
        "hour. The running batch may take all but the last 30 seconds of it; then it is cut off, and the "
        "next start repeats it.",
    )
    progress_within: Patience = Field(
        timedelta(minutes=10),
        validate_default=True,
        description="A stream that should run must commit a batch, or find its source empty, at least this "
        "often; else `tidemill_streams` is red. At least 1 minute, and above the time of a start.",
    )
    restarts: RestartPolicy = Field(
        RestartPolicy(), description="The bounds within which drivers that ended badly are started again."
    )
    kubernetes: KubernetesSettings | None = Field(None, description="For `runtime: kubernetes`.")
    root: Root = Field(description="Storage root: a folder, relative to the project or absolute, or a URI.")
    kafka: KafkaConnection | None = Field(None, description="The Kafka brokers.")
    schema_registry: Registry | None = Field(
        None, description="The schema registry of the brokers' topics, with Confluent's REST API."
    )
    model_registry: Registry | None = Field(
        None, description="MLflow's tracking server, which knows registered models by name."
    )
    storage: StorageAccess | None = Field(
        None,
        description="Access to a root on an object store; else the machine's own role or identity.",
    )
    catalog: CatalogName | None = Field(
        None,
        description="Name of the catalog that the tables belong to, e.g. lake: `silver/orders` is then "
        "shown, queried and named in lineage as `lake.silver.orders`. A name only: tables stay where they "
        "are, and no metastore is asked or told.",
    )
    lineage: Lineage | None = Field(
        None, description="Where OpenLineage events of runs are sent; without, none are."
    )
    protected: bool = Field(False, description="Destructive verbs and backfills need approval.")
    hygiene: Hygiene = Field(Hygiene(), description="What the daily DAGs do by themselves.")
    notify: Channels = Field(
        [],
        description="Whom Airflow tells, once, that a stream needs a person or is well again, and that a run "
        "is late. One that cannot be reached keeps nobody else from being told, and is told later.",
    )
    spark_ui: bool = Field(
        False,
        description="Whether drivers serve Spark's own UI: on the loopback interface of their machine or pod "
        "only, without kill. `tidemill queries show` says how it is reached. `run.spark_ui` of a pipeline "
        "may say otherwise.",
    )
    secrets: Secrets = Field(Secrets(), description="Where drivers find the values of secrets.")
    sizes: dict[SizeName, DriverSize] = Field({"small": DriverSize()}, description="Driver sizes by name.")

    @property
    def drain_time(self) -> timedelta:
        """How long a driver that is asked to stop lets its batch run."""
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
