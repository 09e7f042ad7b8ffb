"""The broker of the kafka tier, and the IoT pipelines on it."""

from __future__ import annotations

from tests.kafka.conftest import kafka
from tests.support.iot_fixtures import drivers, iot, topic

__all__ = ["drivers", "iot", "kafka", "topic"]
