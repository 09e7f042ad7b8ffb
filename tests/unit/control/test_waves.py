"""New versions reach streams in waves: decided by how drivers ended and what the newest says of itself."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tidemill.checkpoint.status import DriverState, Status
from tidemill.control.decide.endings import Ending
from tidemill.control.decide.waves import Stage, Standing, is_in_question, stage_of, wave_of
from tidemill.control.runtime import StartedDriver
from tidemill.errors import SpecError
from tidemill.spec.strict import Strict
from tidemill.spec.upgrades import UpgradePolicy

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)
PATIENCE = timedelta(minutes=10)


def ago(minutes: float) -> datetime:
    return NOW - timedelta(minutes=minutes)


def driver(digest: str, minutes: float, *, drains: bool = False) -> StartedDriver:
    at = ago(minutes)
    asked = ago(0.5) if drains else None
    return StartedDriver("orders", "stream", f"run-{digest}", digest, at, at, "", "", True, asked)


def ending(digest: str, minutes: float, *, progressed: bool) -> Ending:
    return Ending(
        run_id=f"run-{digest}",
        digest=digest,
        started_at=ago(minutes + 5),
        ended_at=ago(minutes),
        result="clean",
        progressed=progressed,
    )


def status(digest: str, state: DriverState, committed: datetime | None = None) -> Status:
    return Status(
        pipeline="orders",
        mode="stream",
        state=state,
        run_id=f"run-{digest}",
        started_at=ago(9),
        updated_at=NOW,
        batch_committed_at=committed,
    )


OLD = ending("old", 8, progressed=True)
CASES = {
    "it runs the one version it ever had": (Standing(driver("old", 60), ()), "settled"),
    "its old driver drains": (Standing(driver("old", 60, drains=True), ()), "on its way"),
    "its old driver is gone": (Standing(None, (OLD,), "new"), "on its way"),
    "it is down for long, for another reason": (
        Standing(None, (ending("old", 300, progressed=True),), "new"),
        "settled",
    ),
    "it is down and was not to be replaced": (Standing(None, (OLD,), "old"), "settled"),
    "the new driver starts": (Standing(driver("new", 7), (OLD,)), "on its way"),
    "the new driver works and has committed nothing": (
        Standing(driver("new", 7), (OLD,), status=status("new", "running")),
        "on its way",
    ),
    "the old driver's batch proves nothing": (
        Standing(driver("new", 7), (OLD,), status=status("old", "running", ago(9))),
        "on its way",
    ),
    "the new driver has committed": (
        Standing(driver("new", 7), (OLD,), status=status("new", "running", ago(1))),
        "settled",
    ),
    "the source is empty": (Standing(driver("new", 7), (OLD,), status=status("new", "waiting")), "settled"),
    "a new driver had committed before this one": (
        Standing(driver("new", 1), (OLD, ending("new", 2, progressed=True))),
        "settled",
    ),
    "the new driver takes too long": (Standing(driver("new", 11), (OLD,)), "failed"),
    "new drivers crash again and again": (
        Standing(driver("new", 1), (OLD, ending("new", 6, progressed=False))),
        "failed",
    ),
    "it is held after new drivers crashed": (
        Standing(None, (OLD, ending("new", 6, progressed=False)), "new"),
        "failed",
    ),
    "an operator has gone back": (
        Standing(driver("old", 1), (OLD, ending("new", 6, progressed=False))),
        "on its way",
    ),
}


@pytest.mark.parametrize(("standing", "stage"), CASES.values(), ids=CASES)
def test_a_stream_is_on_its_way_until_a_driver_of_the_new_version_is_proven(
    standing: Standing, stage: str
) -> None:
    assert stage_of(standing, NOW) == stage
    if stage != "settled":
        assert is_in_question(standing.running, standing.endings)


def test_one_more_is_replaced_for_each_that_is_proven() -> None:
    wave = wave_of({"a": "on its way", "b": "settled", "c": "settled"}, 2)
    assert [wave.takes("b"), wave.takes("c")] == [True, False]
    assert "a is on the way" in wave.why_not


def test_a_stream_that_makes_no_progress_stops_the_wave() -> None:
    wave = wave_of({"a": "failed", "b": "settled"}, 10)
    assert wave.takes("b") is False
    assert "a makes no progress" in wave.why_not


@pytest.mark.parametrize("stage", ["failed", "on its way"])
def test_a_stream_that_has_its_place_may_go_on_to_another_version_or_back(stage: Stage) -> None:
    wave = wave_of({"a": stage, "b": "settled", "c": "settled"}, 2)
    room = wave.room
    assert [wave.takes("a"), wave.takes("a")] == [True, True]
    assert wave.room == room


@pytest.mark.parametrize(
    ("wave", "streams", "size"),
    [(1, 1000, 1), ("3", 10, 3), ("10%", 100, 10), ("10%", 5, 1), ("100%", 7, 7)],
)
def test_a_wave_is_a_number_or_a_share_of_the_streams(wave: object, streams: int, size: int) -> None:
    assert UpgradePolicy.model_validate({"wave": wave}).size(streams) == size


@pytest.mark.parametrize("wave", [0, -1, "0%", "101%", "ten", True, 1.5, "1; rm", None, [1]])
def test_any_other_wave_is_refused(wave: object) -> None:
    with pytest.raises((SpecError, ValueError), match="wave"):
        UpgradePolicy.model_validate({"wave": wave})


def test_a_proof_that_does_not_exist_is_refused() -> None:
    assert issubclass(UpgradePolicy, Strict)
    with pytest.raises(ValueError, match="prove"):
        UpgradePolicy.model_validate({"prove": "hope"})
