"""The age of the oldest unread event: of a stream that runs, and falls behind."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.support.checkpoints import write_checkpoint, write_planned
from tests.support.declared import declared
from tests.support.paper_broker import PaperBroker
from tidemill.checkpoint.current import read_or_create_current
from tidemill.checkpoint.doctor.hub import HubFacts, HubPartition, LossClock, ReadSoFar
from tidemill.control import hubs
from tidemill.control.hubs import look_at_hubs
from tidemill.errors import UnavailableError
from tidemill.sources import oldest_unread
from tidemill.sources.oldest_unread import HALVINGS, all_read_before
from tidemill.spec.project import Pipeline
from tidemill.storage.store import Store

NOW = datetime(2026, 3, 8, tzinfo=UTC)
KEPT = timedelta(days=7)
HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
MINUTES = 7 * 24 * 60
STEP = KEPT / 2**HALVINGS


@pytest.fixture
def reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pipeline:
    """Return a hub with an event per hour of the last seven days in partition 0, and an empty partition."""
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


@pytest.fixture
def minutely(reading: Pipeline, monkeypatch: pytest.MonkeyPatch) -> datetime:
    """Fill a hub with an event per minute of the last seven days, and return the current time."""
    now = datetime.now(UTC)
    times = [now - KEPT + minute * MINUTE for minute in range(MINUTES)]
    PaperBroker({"readings": {0: (0, MINUTES), 1: (0, 0)}}, times={"readings": {0: times}}).stand_in(
        monkeypatch
    )
    return now


def ran(reading: Pipeline, now: datetime, *batches: tuple[float, int]) -> LossClock:
    """Return the loss clock of a stream whose batches have this age in hours and this last event."""
    store, checkpoint = Store(reading.layout.root), Path(reading.layout.checkpoint("orders", "g0001"))
    read_or_create_current(store, reading.layout, "orders")
    for number, (hours, end) in enumerate(batches):
        write_checkpoint(checkpoint, [], [number])
        at_ms = int((now - hours * HOUR).timestamp() * 1000)
        write_planned(checkpoint, number, {"readings": {"0": end, "1": 0}}, at_ms=at_ms)
    told = HubFacts(now - 30 * KEPT, {"0": HubPartition(0, MINUTES, now), "1": HubPartition(0, 0, None)})
    (view,) = look_at_hubs(reading, lambda _: told)
    assert view.clock is not None
    return view.clock


@pytest.mark.parametrize(("hourly", "days_left"), [(0, 3.5), (30, 7.0), (90, None)])
def test_the_speed_is_that_since_an_earlier_batch(
    reading: Pipeline, minutely: datetime, hourly: int, days_left: float | None
) -> None:
    """60 events came each hour, and so many of them were read; three and a half days of them are unread."""
    batches = ((hours, MINUTES // 2 - int(hourly * hours)) for hours in (8, 4, 3, 0))
    left = ran(reading, minutely, *batches).left
    if days_left is None:
        assert left is None
    else:
        assert left is not None
        assert left.total_seconds() == pytest.approx(days_left * 24 * 3600, rel=0.02)


@pytest.mark.parametrize(
    "batches",
    [[(90, 0), (84.1, 1000), (84, MINUTES // 2)], [(0.01, 0), (0, MINUTES // 2)], [(0, MINUTES // 2)]],
    ids=["dead after it caught up", "only just started", "its first batch"],
)
def test_where_no_speed_can_be_told_or_there_is_none_it_is_a_countdown(
    reading: Pipeline, minutely: datetime, batches: list[tuple[float, int]]
) -> None:
    left = ran(reading, minutely, *batches).left
    assert left is not None
    assert left.total_seconds() == pytest.approx(3.5 * 24 * 3600, rel=0.02)


def test_batches_that_take_long_are_no_standstill(reading: Pipeline, minutely: datetime) -> None:
    """Two hours each, in which six hours of events are read; one has been at work for longer than usual."""
    batches = ((hours, MINUTES // 2 - int(180 * hours)) for hours in (6.2, 4.2, 2.2))
    assert ran(reading, minutely, *batches).left is None


def test_a_broker_that_is_gone_before_the_speed_is_known_hides_no_danger(
    reading: Pipeline, minutely: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter([all_read_before])

    def once(*asked: Any) -> datetime | None:
        answer = next(answers, None)
        if answer is None:
            raise UnavailableError("TIDE-SRC-001", "It is gone.", fix="")
        return answer(*asked)

    monkeypatch.setattr(oldest_unread, "all_read_before", once)
    clock = ran(reading, minutely, (8, 0), (4, 0), (0, MINUTES // 8))
    assert (clock.level, next(answers, None)) == ("urgent", None)
