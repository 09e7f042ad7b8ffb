"""One real broker for the run, with a plain listener and the two that Event Hubs' clients need."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.certificates import Certificates, make_certificates
from tests.support.iot_fixtures import drivers, iot, topic
from tests.support.kafka import CONNECTION_STRING, EVENT_HUBS_USER, Kafka
from tests.support.token_endpoint import SigningKey, broker_that_takes_tokens
from tidemill.dev.broker import start_broker, stop_broker
from tidemill.dev.broker_config import BrokerConfig, PlainLogin
from tidemill.dev.broker_process import find_broker
from tidemill.testing.broker import Broker

__all__ = ["drivers", "iot", "topic"]


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="session")
def signing_key() -> SigningKey:
    """Return the signing key of the tokens that the broker's encrypted listener accepts."""
    return SigningKey()


@pytest.fixture(scope="session")
def tidemill_broker_config(
    tmp_path_factory: pytest.TempPathFactory, certificates: Certificates, signing_key: SigningKey
) -> BrokerConfig:
    folder = tmp_path_factory.mktemp("kafka")
    return BrokerConfig(
        folder,
        login=PlainLogin(EVENT_HUBS_USER, CONNECTION_STRING),
        key_store=certificates.key_store,
        properties=broker_that_takes_tokens(signing_key, folder / "jwks.json"),
    )


@pytest.fixture(scope="session")
def kafka(tidemill_broker: Broker, certificates: Certificates) -> Kafka:
    return Kafka(tidemill_broker.broker, certificates.authority)


@pytest.fixture(scope="module")
def _restartable_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("restartable")
    yield folder
    if (broker := find_broker(folder)) is not None:
        stop_broker(broker)


@pytest.fixture
def restartable(_restartable_folder: Path) -> BrokerConfig:
    """Return another broker, which a test may stop and kill. It runs when the test begins."""
    config = BrokerConfig(_restartable_folder)
    if find_broker(config.data_dir) is None:
        start_broker(config)
    return config
