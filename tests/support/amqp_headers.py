"""Headers of IoT Hub's messages as Event Hubs gives them to a Kafka client, encoded by Qpid Proton."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from proton import Data, timestamp

ENQUEUED = 1_767_225_600_123
"""2026-01-01 00:00:00.123 UTC."""


def amqp(value: Any) -> bytes:
    """Return one value in AMQP's encoding; it supports the types of Python and Proton."""
    data = Data()
    data.put_object(value)
    return bytes(data.encode())


def message_headers(
    device: str, properties: Mapping[str, Any] | None = None, **own: str
) -> list[tuple[str, bytes]]:
    """Return the headers of a device's message, as a Kafka client receives them.

    Args:
        device: Id of the device.
        properties: Application properties.
        own: AMQP's own properties, such as `message_id`, as text.
    """
    annotations = {
        "iothub-connection-device-id": device,
        "iothub-connection-auth-method": '{"scope":"device","type":"sas","issuer":"iothub"}',
        "iothub-connection-auth-generation-id": "637388855582764406",
        "iothub-enqueuedtime": timestamp(ENQUEUED),
        "iothub-message-source": "Telemetry",
        "x-opt-sequence-number": 7,
    }
    return [
        *((name.replace("_", "-"), value.encode()) for name, value in own.items()),
        *((name, amqp(value)) for name, value in {**annotations, **(properties or {})}.items()),
    ]
