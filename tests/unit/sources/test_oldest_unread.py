"""The age of the oldest unread event: of a stream that runs, and falls behind."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.support.declared import declared
from tests.support.paper_broker import PaperBroker
from tidemill.checkpoint.doctor.hub import HubFacts, HubPartition, ReadSoFar
from tidemill.control import hubs
from tidemill.control.hubs import look_at_hubs
from tidemill.sources.oldest_unread import HALVINGS, all_read_before
from tidemill.spec.project import Pipeline

NOW = datetime(2026, 3, 8, tzinfo=UTC)
KEPT = timedelta(days=7)
HOUR = timedelta(hours=1)
STEP = KEPT / 2**HALVINGS


@pytest.fixture
def reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pipeline:
    """A hub that took an event each hour of the last seven days into partition 0, and has an empty one."""
    monkeypatch.setenv("TIDEMILL_SECRET_S", "Endpoint=sb://x/;SharedAccessKey=y")
    times = [NOW - KEPT + hour * HOUR for hour in range(7 * 24)]
    PaperBroker({"readings": {0: (0, len(times)), 1: (0, 0)}}, times={"readings": {0: times}}).stand_in(
        monkeypatch
    )
    source = {"namespace": "n", "hub": "readings", "auth": {"connection_string": "s"}, "tier": "standard"}
    return declared(tmp_path, environment={"root": str(tmp_path / "data")}, source={"eventhubs": source})


@pytest.mark.parametrize("behind", [1, 24, 100, 168])
def test_it_is_found_to_a_part_of_what_the_hub_keeps(reading: Pipeline, behind: int) -> None:
    moment = all_read_before(reading, {"readings": {"0": 7 * 24 - behind}}, KEPT, NOW)
    assert moment is not None
    oldest = NOW - behind * HOUR
    assert oldest - STEP <= moment <= oldest


def test_where_all_is_read_there_is_none(reading: Pipeline) -> None:
    assert all_read_before(reading, {"readings": {"0": 7 * 24}}, KEPT, NOW) is None


def test_a_stream_that_committed_just_now_and_is_six_days_behind_is_in_danger(
    reading: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = datetime.now(UTC)
    recent = [now - KEPT + hour * HOUR for hour in range(7 * 24)]
    PaperBroker({"readings": {0: (0, 168), 1: (0, 0)}}, times={"readings": {0: recent}}).stand_in(monkeypatch)
    monkeypatch.setattr(hubs, "read_so_far", lambda *_: ReadSoFar({"readings": {"0": 24}}, now))
    told = HubFacts(now - 30 * KEPT, {"0": HubPartition(0, 168, now)})
    (view,) = look_at_hubs(reading, lambda _: told)
    assert view.clock is not None
    assert view.clock.level == "urgent"
    assert view.clock.left is not None
    assert timedelta(hours=18) < view.clock.left <= timedelta(days=1)
