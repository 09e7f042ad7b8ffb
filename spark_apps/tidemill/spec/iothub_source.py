"""An IoT hub as a source, and the columns that it adds to those of the payload."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from tidemill.spec.eventhubs_source import EventHubsSource
from tidemill.spec.text import HUB_PATTERN, NAMESPACE_PATTERN

# Limits of the retention of an IoT hub's built-in endpoint.
LONGEST_BUILT_IN, SHORTEST_BUILT_IN = timedelta(days=7), timedelta(days=1)
# Prefix of Azure's names for the namespaces of built-in endpoints.
BUILT_IN_NAMESPACE = "iothub-ns-"


@dataclass(frozen=True)
class DeviceColumn:
    """A column that one property of IoT Hub fills.

    Args:
        property: Name of the property as a header and in Capture's maps.
        type: `string` or `timestamp`.
        what: Description of the column.
    """

    property: str
    type: str
    what: str


DEVICE_COLUMNS: Mapping[str, DeviceColumn] = {
    "iothub_device_id": DeviceColumn(
        "iothub-connection-device-id", "string", "device that sent the message, from its login"
    ),
    "iothub_module_id": DeviceColumn("iothub-connection-module-id", "string", "module of that device"),
    "iothub_enqueued_time": DeviceColumn(
        "iothub-enqueuedtime", "timestamp", "time at which the IoT hub received the message"
    ),
    "iothub_auth_method": DeviceColumn(
        "iothub-connection-auth-method", "string", "authentication method of the device"
    ),
    "iothub_generation_id": DeviceColumn(
        "iothub-connection-auth-generation-id",
        "string",
        "distinguishes devices that were recreated with the same id",
    ),
    "iothub_message_source": DeviceColumn(
        "iothub-message-source", "string", "`Telemetry`, `twinChangeEvents`, `deviceLifecycleEvents` …"
    ),
    "iothub_message_id": DeviceColumn("message-id", "string", "as the device set it"),
    "iothub_correlation_id": DeviceColumn("correlation-id", "string", "as the device set it"),
    "iothub_content_type": DeviceColumn("content-type", "string", "as the device set it"),
    "iothub_content_encoding": DeviceColumn("content-encoding", "string", "as the device set it"),
}

# All other properties: application properties, and system properties without a column.
OTHER_PROPERTIES = "iothub_properties"

DEVICE_COLUMN_TYPES: Mapping[str, str] = {
    **{name: column.type for name, column in DEVICE_COLUMNS.items()},
    OTHER_PROPERTIES: "map<string, string>",
}

_REFERENCE = f"""## Columns of an IoT hub's messages

A source `iothub` adds these columns to those of the payload and the `kafka_…` columns, in every mode. A
column is null if the message does not have its property.

| column | type | property | content |
|---|---|---|---|
{{rows}}
| `{OTHER_PROPERTIES}` | map of text | all others except `x-opt-…` | application properties, enrichments, \
and system properties without a column; never null |

Event Hubs passes properties to Kafka clients as headers. AMQP's standard properties (`message-id`,
`content-type` …) are text, and all others have AMQP's encoding. Tidemill decodes both. If a name occurs
twice, the last value counts. In the map, numbers, booleans, UUIDs and times (ISO 8601, UTC) are text. **A
value that cannot be decoded is null in its column, and `{OTHER_PROPERTIES}` has its bytes in hexadecimal
(`0x…`) under its name.** The record is not rejected. `headers: true` keeps the bytes of all headers.

The built-in endpoint has no Capture. `capture` is for an event hub to which a route of the IoT hub writes.
Use that event hub as the source. A backfill then reads the same columns from the maps `SystemProperties` and
`Properties` of its Capture files.

These formats are documented by Microsoft and reported by users. They were never compared with a real IoT hub.
Microsoft documents AMQP at the built-in endpoint. That Kafka works there as well is only reported by users.
"""


class IoTHubSource(EventHubsSource):
    """An IoT hub, read through the Kafka side of its Event Hubs-compatible endpoint.

    It can also be an event hub to which a route of the IoT hub writes. Rows get
    [columns of the device and its message](#columns-of-an-iot-hubs-messages).
    """

    device_columns: ClassVar[bool] = True

    namespace: str = Field(
        description="First part of the Event Hubs-compatible endpoint, e.g. `iothub-ns-plant-123-0a1b2c`.",
        pattern=NAMESPACE_PATTERN,
    )
    hub: str = Field(description="The Event Hubs-compatible name.", pattern=HUB_PATTERN)

    tier: Literal["basic", "standard", "premium", "dedicated"] | None = Field(
        None,
        description="Tier of the namespace, for an event hub to which a route writes. The built-in endpoint "
        "has no tier and keeps messages for 1 to 7 days.",
    )

    @model_validator(mode="after")
    def _built_in_endpoint_has_no_tier(self) -> Self:
        if self.tier is not None and self.namespace.startswith(BUILT_IN_NAMESPACE):
            raise ValueError(
                "`tier` is of an event hub that a route writes to; the built-in endpoint of an IoT hub, "
                f"`{BUILT_IN_NAMESPACE}…`, has none"
            )
        return self

    @property
    def kept(self) -> timedelta | None:
        """Return the declared retention, or the maximum of the endpoint."""
        return super().kept or self.longest_kept

    @property
    def longest_kept(self) -> timedelta:
        """Return the maximum of the tier, or of the built-in endpoint if there is no tier."""
        return LONGEST_BUILT_IN if self.tier is None else super().longest_kept

    @property
    def shortest_kept(self) -> timedelta:
        """Return the minimum of an event hub, or of the built-in endpoint if there is no tier."""
        return SHORTEST_BUILT_IN if self.tier is None else super().shortest_kept

    @property
    def _longest_kept_reason(self) -> str:
        if self.tier is None:
            return "the built-in endpoint of an IoT hub keeps at most 7 days"
        return super()._longest_kept_reason


def device_columns_reference() -> str:
    """Return the columns as a Markdown section of the conf reference."""
    rows = (
        f"| `{name}` | {column.type} | `{column.property}` | {column.what} |"
        for name, column in DEVICE_COLUMNS.items()
    )
    return _REFERENCE.format(rows="\n".join(rows))
