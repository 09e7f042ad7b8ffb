"""An IoT hub of Azure, to which a device has sent within the last hour."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from tests.support.lake import Lake


def test_messages_of_devices_have_their_columns(lake: Lake, iot_hub: dict[str, Any]) -> None:
    began = datetime.now(UTC) - timedelta(hours=1)
    pipeline = lake.pipeline(
        "messages",
        source={"iothub": {**iot_hub, "starting_offsets": began.isoformat(), "headers": True}},
        sinks=[{"delta": {"table": "bronze/messages"}}],
    )

    pipeline.run_incremental()

    telemetry = [row for row in lake.rows("bronze/messages") if row["iothub_message_source"] == "Telemetry"]
    assert telemetry, "no device has sent within the last hour"
    for row in telemetry:
        headers = {header["key"]: header["value"] for header in row["kafka_headers"]}
        assert row["iothub_device_id"], headers
        assert row["iothub_auth_method"], headers
        assert abs(row["iothub_enqueued_time"] - row["kafka_timestamp"]) < timedelta(minutes=5), headers
        # Bytes that were not understood.
        assert not [value for _, value in row["iothub_properties"] if str(value).startswith("0x")], headers
