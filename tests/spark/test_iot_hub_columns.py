"""Columns of an IoT hub's messages on every way from a record to a row."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.amqp_headers import message_headers
from tests.support.lake import Lake
from tidemill import testing
from tidemill.testing.broker import Record

SOURCE = {"namespace": "iothub-ns-plant-1", "hub": "plant", "auth": {"connection_string": "hub-connection"}}
TRANSFORM = """
def transform(messages):
    return messages.select("kafka_offset", "iothub_device_id", "iothub_properties", "kafka_headers")
"""


def message(value: bytes | None, device: str) -> Record:
    return Record(value, headers=tuple(message_headers(device, {"site": "north"})))


def landed(lake: Lake, **keys: Any) -> list[dict[str, Any]]:
    """Return the rows of a message, a tombstone, a record without headers, and a possibly broken one."""
    declaration = {"source": {"iothub": SOURCE}, "sinks": [{"delta": {"table": "bronze/messages"}}], **keys}
    lake.pipeline("messages", **declaration)
    run = testing.pipeline(lake.folder / "conf/pipelines/messages.yaml", lake.folder / "test", lake.spark)
    run.add_payloads([message(b"first", "d0"), message(None, "d1"), b"bare", message(b"\xff", "d3")])
    run.advance()
    return sorted(run.table("bronze/messages"), key=lambda row: row["kafka_offset"])


def told(rows: list[dict[str, Any]]) -> list[tuple[int, str | None, dict[str, str]]]:
    return [(row["kafka_offset"], row["iothub_device_id"], dict(row["iothub_properties"])) for row in rows]


NORTH = {"site": "north"}


@pytest.mark.parametrize("writer", ["arrow", pytest.param("spark", marks=pytest.mark.soak)])
def test_undecoded_messages_have_them(lake: Lake, writer: str) -> None:
    rows = landed(lake, sinks=[{"delta": {"table": "bronze/messages", "writer": writer}}])
    assert told(rows) == [(0, "d0", NORTH), (1, "d1", NORTH), (2, None, {}), (3, "d3", NORTH)]
    assert [row["kafka_value"] for row in rows] == [b"first", None, b"bare", b"\xff"]
    assert "kafka_headers" not in rows[0]


def test_tombstones_and_transforms_have_them_and_headers_can_be_kept(lake: Lake) -> None:
    rows = landed(
        lake,
        source={"iothub": {**SOURCE, "headers": True}},
        payload={"text": {"tombstones": "keep"}},
        event_time={"column": "iothub_enqueued_time", "watermark": "1 minute", "max_ahead": "1 day"},
        transform=lake.transform("messages", TRANSFORM),
    )
    # The one that is no UTF-8 is in the quarantine.
    assert told(rows) == [(0, "d0", NORTH), (1, "d1", NORTH), (2, None, {})]
    assert [(each["key"], each["value"]) for each in rows[0]["kafka_headers"]] == message_headers("d0", NORTH)
