"""Configuration of an embedded broker, and the resulting `server.properties`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tidemill.dev.ports import LOOPBACK

PLAINTEXT = "PLAINTEXT"
SASL_PLAINTEXT = "SASL_PLAINTEXT"
SASL_SSL = "SASL_SSL"
CONTROLLER = "CONTROLLER"

# Bytes of one log segment. Small, so that tests of retention can expire one; above the largest record that
# tests send (10 MB).
SEGMENT_BYTES = 64 * 1024 * 1024

SINGLE_NODE_PROPERTIES: Mapping[str, object] = {
    "process.roles": "broker,controller",
    "node.id": 1,
    "inter.broker.listener.name": PLAINTEXT,
    "controller.listener.names": CONTROLLER,
    # A missing topic must be an error that a pipeline reports, as on Event Hubs.
    "auto.create.topics.enable": "false",
    "num.partitions": 4,
    "offsets.topic.replication.factor": 1,
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.num.partitions": 1,
    "transaction.state.log.min.isr": 1,
    # Milliseconds after which the controller forgets a killed broker; until then its next start waits. With
    # Kafka's default of 9,000 that start took 15 s, with 3,000 it takes 5. Must stay above a few heartbeats
    # and any pause of a small heap.
    "broker.session.timeout.ms": 3000,
    "broker.heartbeat.interval.ms": 500,
    # No second consumer is worth waiting for.
    "group.initial.rebalance.delay.ms": 0,
    "num.network.threads": 2,
    "num.io.threads": 2,
    # The cleaner alone would take 128 MB of the heap; only compacted topics need it.
    "log.cleaner.enable": "false",
    "log.segment.bytes": SEGMENT_BYTES,
}


@dataclass(frozen=True)
class PlainLogin:
    """User and password of the SASL/PLAIN listeners; Event Hubs' user is `$ConnectionString`."""

    username: str
    password: str = field(repr=False)


@dataclass(frozen=True)
class KeyStore:
    """PKCS12 file with the broker's key and certificate chain."""

    path: Path
    password: str = field(repr=False)


@dataclass(frozen=True)
class BrokerConfig:
    """A single-node broker on the loopback interface.

    Args:
        data_dir: Folder of its records, log and process record. A second start there finds the records again.
        port: Port of the PLAINTEXT listener; 0 takes the last one, or any free one.
        login: Adds a SASL_PLAINTEXT listener, and with `key_store` a SASL_SSL one.
        key_store: The broker's certificate.
        properties: More lines of `server.properties`, which override the defaults.
    """

    data_dir: Path
    port: int = 0
    login: PlainLogin | None = None
    key_store: KeyStore | None = None
    properties: Mapping[str, object] = field(default_factory=dict)

    @property
    def listeners(self) -> tuple[str, ...]:
        """Return the names of all listeners, the internal one last; each is also its security protocol."""
        secured = (SASL_PLAINTEXT,) if self.login else ()
        encrypted = (SASL_SSL,) if self.login and self.key_store else ()
        return (PLAINTEXT, *secured, *encrypted, CONTROLLER)


def server_properties(config: BrokerConfig, ports: Mapping[str, int]) -> str:
    """Return the text of `server.properties`; it contains a password, so write it for the owner only.

    Args:
        config: The broker.
        ports: A port for every listener of `config.listeners`.
    """
    properties = {
        **SINGLE_NODE_PROPERTIES,
        "log.dirs": config.data_dir.absolute() / "records",
        **_listener_properties(config, ports),
        **_security_properties(config),
        **config.properties,
    }
    return "".join(f"{name}={_escape(str(value))}\n" for name, value in properties.items())


def _listener_properties(config: BrokerConfig, ports: Mapping[str, int]) -> dict[str, object]:
    addresses = {name: f"{name}://{LOOPBACK}:{ports[name]}" for name in config.listeners}
    protocols = {name: PLAINTEXT if name == CONTROLLER else name for name in config.listeners}
    return {
        "controller.quorum.voters": f"1@{LOOPBACK}:{ports[CONTROLLER]}",
        "listeners": ",".join(addresses.values()),
        "advertised.listeners": ",".join(text for name, text in addresses.items() if name != CONTROLLER),
        "listener.security.protocol.map": ",".join(f"{name}:{kind}" for name, kind in protocols.items()),
    }


def _security_properties(config: BrokerConfig) -> dict[str, object]:
    if config.login is None:
        return {}
    properties: dict[str, object] = {"sasl.enabled.mechanisms": "PLAIN"}
    for name in (SASL_PLAINTEXT, SASL_SSL):
        properties[f"listener.name.{name.lower()}.plain.sasl.jaas.config"] = _plain_server(config.login)
    if config.key_store is not None:
        properties["ssl.keystore.type"] = "PKCS12"
        properties["ssl.keystore.location"] = config.key_store.path.absolute()
        properties["ssl.keystore.password"] = config.key_store.password
    return properties


def _plain_server(login: PlainLogin) -> str:
    # JAAS reads a double-quoted value with `\` as its escape.
    password = login.password.replace("\\", "\\\\").replace('"', '\\"')
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    return f'{module} required user_{login.username}="{password}";'


def _escape(value: str) -> str:
    # java.util.Properties: `\` escapes, a line ends the value, the file is read as Latin-1.
    text = value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    units = text.encode("utf-16-be")
    return "".join(
        chr(unit) if unit < 0x7F else f"\\u{unit:04x}"
        for unit in (int.from_bytes(units[at : at + 2]) for at in range(0, len(units), 2))
    )
