"""Headers of archived events are those that the hub's Kafka endpoint gives of the same events."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.support.amqp_headers import amqp
from tests.support.capture_files import CaptureFolder, Event
from tests.support.declared import declared
from tidemill.capture.archive import Slice
from tidemill.sources.archived_events import archived_rows

CAME = datetime(2026, 11, 5, tzinfo=UTC)
VALUES = {"whole": 5_000_000_000, "half": 0.5, "text": "ä", "bytes": b"\xfe", "unset": None}
# Headers of a Kafka producer are stored as bytes, those of other producers in AMQP's encoding.
HEADERS = [
    (name, value if value is None or name == "bytes" else amqp(value)) for name, value in VALUES.items()
]


def headers(folder: Path, kind: str, **system: Any) -> list[tuple[str, bytes | None]]:
    source = {
        "namespace": "plant",
        "hub": "readings",
        "auth": {"connection_string": "hub-connection"},
        "capture": {"path": "captured"},
    }
    pipeline = declared(folder, source={kind: source})
    archive = CaptureFolder(Path(pipeline.layout.folder("captured")), "plant", "readings")
    file = archive.write(0, CAME, [Event(0, CAME, b"{}", properties=VALUES, system=system)])
    wanted = Slice(path=str(file.relative_to(archive.folder)), partition=0, first=0, end=1)
    (row,) = archived_rows(pipeline)(wanted)
    return [(header["key"], header["value"]) for header in row["kafka_headers"]]


def test_properties_come_as_from_the_hub_and_null_has_no_value(tmp_path: Path) -> None:
    assert headers(tmp_path, "eventhubs") == HEADERS


@pytest.mark.parametrize("value", [None, "d1"])
def test_properties_of_an_iot_hub_come_with_those_of_its_system(tmp_path: Path, value: str | None) -> None:
    device = "iothub-connection-device-id"
    expected = (device, None if value is None else amqp(value))
    assert headers(tmp_path, "iothub", **{device: value}) == [*HEADERS, expected]
