"""One environment file: storage root, brokers, runtime, sizes and the names of secrets."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from tidemill.spec.location import Root
from tidemill.spec.storage import StorageAccess, check_access_fits
from tidemill.spec.strict import Strict
from tidemill.spec.text import Expression, Line, SecretName, Servers, SizeName
from tidemill.spec.units import Count, Size


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
    ca_file: Expression | None = Field(
        None, description="PEM file with the certificate authority, if not one that Java trusts."
    )

    @model_validator(mode="after")
    def _parts_fit_the_protocol(self) -> Self:
        given = {name: getattr(self, name) is not None for name in ("mechanism", "username", "password")}
        if self.protocol.startswith("SASL"):
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


class DriverSize(Strict):
    """What one driver may use."""

    driver: Resources = Field(Resources(), description="The driver process.")


class Secrets(Strict):
    """Where drivers find the values of secrets; the command line and Airflow, too, that of `storage`."""

    folder: Expression | None = Field(
        None, description="Folder with one file per secret; else the variable TIDEMILL_SECRET_<NAME>."
    )


class EnvironmentSpec(Strict):
    """Where and with what pipelines run."""

    runtime: Literal["local"] = Field("local", description="Where drivers run: processes on this machine.")
    root: Root = Field(description="Storage root: a folder, relative to the project or absolute, or a URI.")
    kafka: KafkaConnection | None = Field(None, description="The Kafka brokers.")
    storage: StorageAccess | None = Field(
        None,
        description="Access to a root on an object store; else the machine's own role or identity.",
    )
    protected: bool = Field(False, description="Destructive verbs need approval.")
    secrets: Secrets = Field(Secrets(), description="Where drivers find the values of secrets.")
    sizes: dict[SizeName, DriverSize] = Field({"small": DriverSize()}, description="Driver sizes by name.")

    @model_validator(mode="after")
    def _access_fits_the_root(self) -> Self:
        check_access_fits(self.root, self.storage)
        return self
