"""Readings of phones and watches in the shape of the notebook's activity data, one file per batch."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from tests.support.eventually import eventually

if TYPE_CHECKING:
    from examples.proofs.stage import Stage

FILES = 3
ROWS_PER_FILE = 4
# Milliseconds and, as in the data, nanoseconds since 1970.
ARRIVAL_MS = 1_424_686_735_000
TIMEOUT_SECONDS = 60.0


def reading(number: int) -> dict[str, Any]:
    """One reading."""
    return {
        "Arrival_Time": ARRIVAL_MS + 40 * number,
        "Creation_Time": (ARRIVAL_MS + 40 * number) * 1_000_000 + 7,
        "Device": "nexus4_1",
        "Index": number,
        "Model": "nexus4",
        "User": "abc"[number % 5 % 3],
        "gt": "stand",
        "x": number / 4,
        "y": -number / 8,
        "z": 9.75,
    }


READINGS = [reading(number) for number in range(FILES * ROWS_PER_FILE)]


def land_activity(stage: Stage) -> list[dict[str, Any]]:
    """Put the files there, once; all readings."""
    if not (stage.lake.root / "landing/activity_data").exists():
        for number in range(FILES):
            rows = READINGS[number * ROWS_PER_FILE : (number + 1) * ROWS_PER_FILE]
            stage.land(f"landing/activity_data/{number}.json", rows)
    return READINGS


def per_user() -> list[tuple[Any, ...]]:
    """Readings of each user, the busiest first."""
    counts = Counter(str(row["User"]) for row in READINGS)
    return sorted(counts.items(), key=lambda one: (-one[1], one[0]))


def begin_stream_1p(stage: Stage) -> None:
    """Start a separate driver while others run; a cold start takes a while."""
    land_activity(stage)
    stage.begin_driver("stream_1p")


def stream_1p(stage: Stage) -> dict[str, Any]:
    """Return the output of `tidemill queries show` for that driver, once each landed file was a batch."""
    begin_stream_1p(stage)
    stage.driver("stream_1p")
    return eventually(lambda: _with_all_files(stage), "a batch for each file", TIMEOUT_SECONDS)


def _with_all_files(stage: Stage) -> dict[str, Any]:
    code, said = stage.tidemill("queries", "show", "stream_1p", "--json")
    assert code == 0, said
    told: dict[str, Any] = json.loads(said)
    batches = [] if told["query"] is None else told["query"]["recent_progress"]
    return told if FILES - 1 in [batch["batchId"] for batch in batches] else {}
