"""The broker of the kafka tier, and the IoT pipelines on it."""

from __future__ import annotations

from tests.kafka.conftest import certificates, kafka, signing_key, tidemill_broker_config
from tests.support.iot_fixtures import drivers, iot, topic

__all__ = ["certificates", "drivers", "iot", "kafka", "signing_key", "tidemill_broker_config", "topic"]
