"""Kafka client settings from an environment or an event hub, for Spark's source and sink, and for offsets.

The values hold passwords. They are passed directly to reader options or a client, and are never logged.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from tidemill.sources.token_login import TokenLogin, jaas_line, token_login
from tidemill.spec.hub_login import HubLogin, namespace_host
from tidemill.spec.project import Environment, Pipeline
from tidemill.spec.secret_value import read_secret
from tidemill.spec.sources import EventHubsSource

_PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"

# Both libraries' name for a login by token.
_BY_BEARER = "OAUTHBEARER"

# With this literal user name, Event Hubs treats the password as a whole connection string.
_CONNECTION_STRING_USER = "$ConnectionString"

# Event Hubs closes idle connections after 240 s. Kafka's defaults (540 s, 300 s) would notice only by failed
# requests. The other two values are those that its documentation recommends.
_EVENT_HUBS_CLIENT = {
    "connections.max.idle.ms": "180000",
    "metadata.max.age.ms": "180000",
    "request.timeout.ms": "60000",
    "session.timeout.ms": "30000",
}


@dataclass(frozen=True)
class KafkaClient:
    """The connection settings for brokers.

    Args:
        bootstrap_servers: `host:port[,host:port…]`.
        protocol: Kafka's security protocol.
        mechanism: SASL mechanism, with SASL protocols.
        username: SASL user.
        password: Value of the secret; never shown.
        ca_file: PEM file with the certificate authority.
        client_options: Further settings of every client.
        isolation: Isolation level of a consumer; None for a client that only writes.
        login: Source of tokens, instead of mechanism, user and password.
    """

    bootstrap_servers: str
    protocol: str = "PLAINTEXT"
    mechanism: str | None = None
    username: str = ""
    password: str = ""
    ca_file: str | None = None
    client_options: tuple[tuple[str, str], ...] = ()
    isolation: str | None = None
    login: TokenLogin | None = None

    def __repr__(self) -> str:
        return f"KafkaClient({self.bootstrap_servers!r}, {self.protocol})"

    def spark_options(self) -> dict[str, str]:
        """Return options of Spark's Kafka source and sink, with the prefix `kafka.`."""
        options = {"bootstrap.servers": self.bootstrap_servers, **dict(self.client_options)}
        if self.isolation is not None:
            options["isolation.level"] = self.isolation
        if self.protocol != "PLAINTEXT":
            options["security.protocol"] = self.protocol
        if self.login is not None:
            options |= {"sasl.mechanism": _BY_BEARER, **self.login.java_options()}
        elif self.mechanism is not None:
            options["sasl.mechanism"] = self.mechanism
            options["sasl.jaas.config"] = self._jaas()
        if self.ca_file is not None:
            options |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": self.ca_file}
        return {f"kafka.{name}": value for name, value in options.items()}

    def librdkafka_config(self) -> dict[str, Any]:
        """Return settings of confluent-kafka's clients, for reading offsets and topic metadata.

        Raises:
            SpecError, UnavailableError: TIDE-HUB-030 to 035, if no token is available. The token is requested
            here, because the client would only report that no broker answers.
        """
        config: dict[str, Any] = {
            "bootstrap.servers": self.bootstrap_servers,
            "security.protocol": self.protocol,
        }
        if self.login is not None:
            self.login.token()
            config |= {"sasl.mechanisms": _BY_BEARER, "oauth_cb": _token_callback(self.login)}
        elif self.mechanism is not None:
            config |= {
                "sasl.mechanisms": self.mechanism,
                "sasl.username": self.username,
                "sasl.password": self.password,
            }
        if self.ca_file is not None:
            config["ssl.ca.location"] = self.ca_file
        return config

    def _jaas(self) -> str:
        module = _PLAIN_MODULE if self.mechanism == "PLAIN" else _SCRAM_MODULE
        return jaas_line(module, {"username": self.username, "password": self.password})


def _token_callback(login: TokenLogin) -> Callable[[str], tuple[str, float]]:
    """Return librdkafka's callback for the first token and for each later one."""

    def token(_: str) -> tuple[str, float]:
        found = login.token()
        return found.value, found.expires_at

    return token


def kafka_client(pipeline: Pipeline) -> KafkaClient:
    """Return the client for the pipeline's own source, or for the environment's brokers.

    Raises:
        SpecError: If the environment names no brokers, or a secret has no value here.
    """
    source = pipeline.spec.source
    if source.event_hub is not None:
        client = _event_hubs_client(source.event_hub, pipeline.environment)
    else:
        client = environment_client(pipeline.environment)
    return replace(client, isolation=source.chosen.isolation) if source.is_kafka else client


def environment_client(environment: Environment) -> KafkaClient:
    """Return the client of the environment's brokers."""
    security = environment.kafka.security
    servers = environment.kafka.bootstrap_servers
    if security.event_hubs is not None:
        client = _namespace_client(servers, security.event_hubs, environment, namespace_host(servers))
        return replace(client, ca_file=security.ca_file)
    return KafkaClient(
        servers,
        security.protocol,
        security.mechanism,
        security.username or "",
        read_secret(environment, security.password) if security.password else "",
        security.ca_file,
    )


def _event_hubs_client(hub: EventHubsSource, environment: Environment) -> KafkaClient:
    client = _namespace_client(hub.server, hub.auth, environment, hub.host)
    return replace(client, ca_file=hub.ca_file, client_options=tuple(_EVENT_HUBS_CLIENT.items()))


def _namespace_client(server: str, auth: HubLogin, environment: Environment, host: str) -> KafkaClient:
    client = KafkaClient(server, "SASL_SSL", login=token_login(auth, environment, host))
    if auth.connection_string is None:
        return client
    password = read_secret(environment, auth.connection_string)
    return replace(client, mechanism="PLAIN", username=_CONNECTION_STRING_USER, password=password)
