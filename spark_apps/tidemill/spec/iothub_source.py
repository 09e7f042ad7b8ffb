"""One IoT hub as a source, and the columns that it gives beside the payload's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from tidemill.spec.eventhubs_source import EventHubsSource
from tidemill.spec.text import HUB_PATTERN, NAMESPACE_PATTERN

# What the built-in endpoint of an IoT hub can be set to.
LONGEST_BUILT_IN, SHORTEST_BUILT_IN = timedelta(days=7), timedelta(days=1)
# Azure's names for the namespaces of built-in endpoints begin so.
BUILT_IN_NAMESPACE = "iothub-ns-"


@dataclass(frozen=True)
class DeviceColumn:
    """A column that one property of IoT Hub fills.

    Args:
        property: Its name as a header, and in Capture's maps.
        type: `string` or `timestamp`.
        what: What it says.
    """

    property: str
    type: str
    what: str


DEVICE_COLUMNS: Mapping[str, DeviceColumn] = {
    "iothub_device_id": DeviceColumn(
        "iothub-connection-device-id", "string", "device that sent it, by its login"
    ),
    "iothub_module_id": DeviceColumn("iothub-connection-module-id", "string", "module of that device"),
    "iothub_enqueued_time": DeviceColumn("iothub-enqueuedtime", "timestamp", "when the IoT hub took it"),
    "iothub_auth_method": DeviceColumn("iothub-connection-auth-method", "string", "how the device logged in"),
    "iothub_generation_id": DeviceColumn(
        "iothub-connection-auth-generation-id",
        "string",
        "tells devices apart that were made anew under the same id",
    ),
    "iothub_message_source": DeviceColumn(
        "iothub-message-source", "string", "`Telemetry`, `twinChangeEvents`, `deviceLifecycleEvents` …"
    ),
    "iothub_message_id": DeviceColumn("message-id", "string", "as the device set it"),
    "iothub_correlation_id": DeviceColumn("correlation-id", "string", "as the device set it"),
    "iothub_content_type": DeviceColumn("content-type", "string", "as the device set it"),
    "iothub_content_encoding": DeviceColumn("content-encoding", "string", "as the device set it"),
}

# All other properties: those of the application, and those of the system that have no column.
OTHER_PROPERTIES = "iothub_properties"

DEVICE_COLUMN_TYPES: Mapping[str, str] = {
    **{name: column.type for name, column in DEVICE_COLUMNS.items()},
    OTHER_PROPERTIES: "map<string, string>",
}

_REFERENCE = f"""## Columns of an IoT hub's messages

A source `iothub` gives these beside the payload's columns and the `kafka_…` columns, in every mode. One
without its property is null.

| column | type | property | what |
|---|---|---|---|
{{rows}}
| `{OTHER_PROPERTIES}` | map of texts | all others but `x-opt-…` | application properties, enrichments, \
and system properties without a column; never null |

Event Hubs hands properties to Kafka clients as headers: AMQP's own properties (`message-id`, `content-type`
…) as text, all others as AMQP encodes their values. Both are decoded. Of a name that comes twice the last one
counts. In the map, numbers, booleans, UUIDs and times (ISO 8601, UTC) are texts. **A value that cannot be
decoded is null in its column, and stands in `{OTHER_PROPERTIES}` under its name as its bytes in hexadecimal
(`0x…`)**: the record is not rejected. `headers: true` keeps the bytes of all.

The built-in endpoint has no Capture. `capture` is for an event hub that a route of the IoT hub writes to:
read that one as the source, and a backfill takes the same columns from the maps `SystemProperties` and
`Properties` of its files.

These forms are those that Microsoft documents and users report; they were never compared with a real IoT hub.
Its documents promise AMQP at the built-in endpoint; that Kafka answers there, too, is what users report.
"""


class IoTHubSource(EventHubsSource):
    """One IoT hub, read through the Kafka side of its Event Hubs-compatible endpoint.

    Or an event hub that a route of it writes to. Rows get
    [columns of the device and its message](#columns-of-an-iot-hubs-messages).
    """

    # Whether rows get the columns above.
    device_columns: ClassVar[bool] = True

    namespace: str = Field(
        description="First part of the Event Hubs-compatible endpoint, e.g. `iothub-ns-plant-123-0a1b2c`.",
        pattern=NAMESPACE_PATTERN,
    )
    hub: str = Field(description="The Event Hubs-compatible name.", pattern=HUB_PATTERN)

    tier: Literal["basic", "standard", "premium", "dedicated"] | None = Field(
        None,
        description="Tier of the namespace of an event hub that a route writes to. The built-in endpoint has "
        "none, and keeps 1 to 7 days.",
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
        """As declared; else the most that the endpoint keeps."""
        return super().kept or self.longest_kept

    @property
    def longest_kept(self) -> timedelta:
        """That of the tier; without one, of the built-in endpoint."""
        return LONGEST_BUILT_IN if self.tier is None else super().longest_kept

    @property
    def shortest_kept(self) -> timedelta:
        """That of an event hub; without a tier, of the built-in endpoint."""
        return SHORTEST_BUILT_IN if self.tier is None else super().shortest_kept

    @property
    def _longest_kept_reason(self) -> str:
        if self.tier is None:
            return "the built-in endpoint of an IoT hub keeps at most 7 days"
        return super()._longest_kept_reason


def device_columns_reference() -> str:
    """The columns, for the conf reference."""
    rows = (
        f"| `{name}` | {column.type} | `{column.property}` | {column.what} |"
        for name, column in DEVICE_COLUMNS.items()
    )
    return _REFERENCE.format(rows="\n".join(rows))
