"""The broker of the kafka tier."""

from __future__ import annotations

from tests.kafka.conftest import kafka

__all__ = ["kafka"]
