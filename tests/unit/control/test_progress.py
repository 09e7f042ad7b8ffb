"""Progress of a stream: from facts to a finding or none."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.unit.control.test_reconcile import NOW, ago, crashes, driver, ending, wish
from tidemill.checkpoint.desired import Desired
from tidemill.checkpoint.status import Status
from tidemill.control.decide.facts import Facts
from tidemill.control.decide.hung import NO_PROGRESS_PAGE
from tidemill.control.decide.progress import Stall, stall_of
from tidemill.engine.liveness import LEAST_SILENCE
from tidemill.errors import SpecError

TOPIC_GONE = {"id": "TIDE-SRC-002", "problem": "A topic does not exist.", "runbook": "source-unavailable"}
NO_EXECUTOR = {"id": "TIDE-K8S-022", "problem": "No executor has come.", "runbook": "executors-missing"}
DISK_FULL = {"id": "TIDE-STOR-003", "problem": "The disk is full.", "runbook": "disk-full"}


def status(progressed: float | None, **changes: Any) -> Status:
    """Return a status of the driver `run-1`, whose last progress was this many minutes ago."""
    facts: dict[str, Any] = {
        "pipeline": "orders",
        "mode": "stream",
        "state": "running",
        "run_id": "run-1",
        "started_at": ago(hours=1),
        "updated_at": ago(seconds=5),
        "progressed_at": None if progressed is None else ago(minutes=progressed),
    }
    return Status(**{**facts, **changes})


def stalled(**facts: Any) -> Stall | None:
    return stall_of(Facts(**{"pipeline": "orders", "now": NOW, "digest": "d1", **facts}))


def since(**facts: Any) -> datetime:
    found = stalled(**facts)
    assert found is not None
    return found.since


@pytest.mark.parametrize("progressed", [0, 5, 9.9])
def test_a_stream_that_committed_or_found_nothing_lately_makes_progress(progressed: float) -> None:
    assert stalled(running=driver(), newest_status=status(progressed)) is None


@pytest.mark.parametrize(
    ("changes", "words", "runbook"),
    [
        (
            {"state": "waiting", "error": TOPIC_GONE},
            "TIDE-SRC-002 A topic does not exist.",
            "source-unavailable",
        ),
        ({"state": "waiting", "error": NO_EXECUTOR}, "TIDE-K8S-022 No executor", "executors-missing"),
        ({"state": "waiting", "error": DISK_FULL}, "TIDE-STOR-003 The disk is full.", "disk-full"),
        ({}, "its driver (pid 1) is running, and was last heard of 0 minutes ago", NO_PROGRESS_PAGE),
        (
            {"updated_at": ago(minutes=13)},
            "is running, and was last heard of 13 minutes ago",
            NO_PROGRESS_PAGE,
        ),
        ({"state": "stopped"}, "is stopped", NO_PROGRESS_PAGE),
        ({}, "0 minutes ago; it has not committed a batch", NO_PROGRESS_PAGE),
        (
            {
                "batch_id": 7,
                "batch_committed_at": ago(minutes=11),
                "lag": 5000,
                "notes": ["two files are empty"],
            },
            "batch 7 was committed 11 minutes ago; 5,000 records wait at its source; two files are empty",
            NO_PROGRESS_PAGE,
        ),
    ],
    ids=[
        *("topic gone", "no executor", "disk full", "a long batch", "silent", "does not exit"),
        *("first batch", "behind"),
    ],
)
def test_a_driver_that_lives_without_progress_is_told_with_the_reason_and_its_page(
    changes: dict[str, Any], words: str, runbook: str
) -> None:
    found = stalled(running=driver(), newest_status=status(11, **changes))
    assert found is not None
    assert words in found.words(NOW)
    assert found.words(NOW).startswith("no progress for 11 minutes: ")
    assert (found.since, found.runbook) == (ago(minutes=11), runbook)


def test_how_long_is_the_pipelines_or_the_environments_to_say() -> None:
    late = {"running": driver(), "newest_status": status(50)}
    assert stalled(**late, progress_within=timedelta(hours=1)) is None
    assert stalled(**late, progress_within=timedelta(minutes=49)) is not None


def test_a_hung_driver_is_named_as_one() -> None:
    silent = driver(silence=LEAST_SILENCE + timedelta(minutes=1))
    found = stalled(running=silent, newest_status=status(20, updated_at=ago(minutes=16)))
    assert found is not None
    assert "it hangs, and no sign of life for 960 s" in found.reason


def test_a_driver_has_time_to_start() -> None:
    new = driver(run_id="run-2", claimed_at=ago(minutes=9), started_at=ago(minutes=9))
    # Three days without a driver, such as a machine that was off.
    assert stalled(running=new, newest_status=status(3 * 24 * 60)) is None
    slow = driver(run_id="run-2", claimed_at=ago(minutes=11), started_at=ago(minutes=11))
    found = stalled(running=slow, newest_status=status(3 * 24 * 60))
    assert found is not None
    assert found.reason == "driver run-2 (pid 1) has said nothing yet"
    assert found.since == ago(minutes=11)


def test_a_container_that_its_kubelet_starts_again_and_again_is_no_progress() -> None:
    # One decision, many lives: each too short to be seen as crash looping, none with a batch.
    restarted = driver(claimed_at=ago(days=14), started_at=ago(minutes=3), process="pod o-0, 40 restarts")
    said = status(70, started_at=ago(minutes=3), updated_at=ago(minutes=2))
    found = stalled(running=restarted, newest_status=said)
    assert found is not None
    assert found.since == ago(minutes=70)
    assert "40 restarts" in found.reason


def test_drivers_that_end_with_69_for_days_are_no_progress_running_or_not() -> None:
    row = tuple(
        ending(69, ago(minutes=minutes), lived=600, error=DISK_FULL) for minutes in range(3 * 24 * 60, 0, -15)
    )
    found = stalled(endings=row, newest_status=status(3 * 24 * 60 + 30))
    assert found is not None
    assert found.since == row[0].started_at
    assert found.reason.endswith("the last: exit 69, TIDE-STOR-003 The disk is full.")
    assert found.runbook == "disk-full"
    new = driver(run_id="run-2", claimed_at=ago(seconds=30), started_at=ago(seconds=30))
    assert since(endings=row, newest_status=status(3 * 24 * 60 + 30), running=new) == row[0].started_at


def test_drivers_that_crash_after_a_batch_make_progress() -> None:
    new = driver(run_id="run-2", claimed_at=ago(seconds=30), started_at=ago(seconds=30))
    assert stalled(endings=crashes(40, 20, 1), newest_status=status(1.5), running=new) is None


def test_what_was_before_a_wish_a_new_definition_or_a_clean_end_does_not_count() -> None:
    row = tuple(ending(69, ago(minutes=minutes)) for minutes in (50, 40, 30))
    new = driver(run_id="run-2", claimed_at=ago(minutes=2), started_at=ago(minutes=2))
    late = {"endings": row, "newest_status": status(90), "running": new}
    assert since(**late) == row[0].started_at
    assert stalled(**late, desired=wish("running", ago(minutes=3))) is None
    assert stalled(**late, digest="d2") is None
    assert stalled(**{**late, "endings": (*row, ending(0, ago(minutes=3)))}) is None


def test_a_stream_that_is_about_to_be_started_is_not_late() -> None:
    assert stalled(endings=(ending(0, ago(days=3)),), newest_status=status(3 * 24 * 60)) is None
    assert stalled(endings=crashes(30), newest_status=status(30)) is None
    assert stalled() is None


@pytest.mark.parametrize(
    "facts",
    [
        {"desired": wish("stopped")},
        {"mode": "incremental"},
        {"mode": None},
        {"problem": SpecError("TIDE-SPEC-003", "Wrong key.")},
        {"running": driver(drain_requested_at=ago(seconds=30))},
        {"running": driver(mode="incremental")},
    ],
    ids=["stopped", "incremental", "file gone", "broken", "draining", "incremental run"],
)
def test_of_a_stream_that_should_not_run_now_no_progress_is_expected(facts: dict[str, Any]) -> None:
    assert stalled(**{"running": driver(), "newest_status": status(600), **facts}) is None


def test_a_driver_that_another_machine_runs_makes_the_progress() -> None:
    fenced = (ending(75, ago(minutes=30), epoch=7),)
    elsewhere = status(0.5, run_id="elsewhere", epoch=8)
    assert stalled(endings=fenced, newest_status=elsewhere) is None


def suspended(until: datetime) -> Desired:
    return wish("suspended", ago(days=3), reason="broker move").model_copy(update={"until": until})


def test_of_a_suspended_stream_no_progress_is_expected_until_it_should_be_back() -> None:
    away = {"newest_status": status(3 * 24 * 60), "endings": (ending(0, ago(days=3)),)}
    for until in (NOW + timedelta(seconds=1), ago(minutes=9.9)):
        assert stalled(**away, desired=suspended(until)) is None
    assert stalled(**away, desired=wish("suspended", ago(days=3))) is None


@pytest.mark.parametrize(
    ("facts", "words", "runbook"),
    [
        ({}, "nothing has started it", NO_PROGRESS_PAGE),
        (
            {"endings": (ending(66, ago(minutes=9), error={"id": "TIDE-CKPT-029"}, runbook="hold"),)},
            "the last: exit 66, TIDE-CKPT-029",
            "",
        ),
        # Killed while it drained: what was before the suspension says nothing of its end.
        ({"endings": (ending(None, ago(days=3) + timedelta(seconds=1)),)}, "killed", ""),
        (
            {"running": driver(run_id="run-2", claimed_at=ago(minutes=2), started_at=ago(minutes=2))},
            "driver run-2 (pid 1) has said nothing yet",
            NO_PROGRESS_PAGE,
        ),
    ],
    ids=["not started", "held", "killed in the drain", "starting"],
)
def test_a_stream_that_is_not_back_from_its_suspension_is_overdue(
    facts: dict[str, Any], words: str, runbook: str
) -> None:
    found = stalled(desired=suspended(ago(minutes=11)), newest_status=status(3 * 24 * 60), **facts)
    assert found is not None
    assert (found.kind, found.since) == ("overdue", ago(minutes=11))
    suspension = "suspended until 2026-03-01 11:49 UTC by ann: broker move, and not back; "
    assert found.words(NOW).startswith(f"overdue for 11 minutes: {suspension}")
    assert words in found.reason
    if runbook:
        assert found.runbook == runbook


def test_a_stream_that_came_back_makes_progress_or_not_like_any_other() -> None:
    back = {"desired": suspended(ago(hours=5)), "running": driver()}
    assert stalled(**back, newest_status=status(9)) is None
    found = stalled(**back, newest_status=status(20))
    assert found is not None
    assert (found.kind, found.since) == ("no progress", ago(minutes=20))
    about_to_start = {"desired": suspended(ago(hours=5)), "endings": (ending(0, ago(hours=1)),)}
    assert stalled(**about_to_start, newest_status=status(60)) is None
