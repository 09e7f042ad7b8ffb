"""The broker of the test run: a kit's broker, with the listeners and the login of Event Hubs."""

from __future__ import annotations

from pathlib import Path

from tidemill.dev.broker_config import SASL_PLAINTEXT, SASL_SSL
from tidemill.dev.broker_process import BrokerProcess
from tidemill.testing.broker import TIMEOUT_SECONDS, Broker, Record, read, send

__all__ = ["CONNECTION_STRING", "EVENT_HUBS_USER", "TIMEOUT_SECONDS", "Kafka", "Record", "read", "send"]

# Event Hubs' Kafka endpoint wants exactly this user; the password is its connection string.
EVENT_HUBS_USER = "$ConnectionString"

# Shaped like Event Hubs' own, with every character that a JAAS line or a properties file could trip over.
CONNECTION_STRING = (
    'Endpoint=sb://example.servicebus.windows.net/;SharedAccessKeyName=test;SharedAccessKey=b\\s"q=+/#!:ä€'
)


class Kafka(Broker):
    """The broker with secured listeners.

    `client_options(protocol)` are librdkafka's; Spark's need the same facts in Java's words:
    `bootstrap_servers`, `listeners`, `authority` (PEM), `EVENT_HUBS_USER` and `CONNECTION_STRING`.
    """

    def __init__(self, broker: BrokerProcess, authority: Path) -> None:
        super().__init__(broker)
        self.authority = authority

    def client_options(
        self, protocol: str, password: str = CONNECTION_STRING
    ) -> dict[str, str | int | float | bool]:
        """librdkafka's options for one of the secured listeners."""
        assert protocol in (SASL_PLAINTEXT, SASL_SSL)
        return {
            "bootstrap.servers": self.broker.listeners[protocol],
            "security.protocol": protocol,
            "sasl.mechanism": "PLAIN",
            "sasl.username": EVENT_HUBS_USER,
            "sasl.password": password,
            "ssl.ca.location": str(self.authority),
        }
