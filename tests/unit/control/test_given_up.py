"""Giving up a stream's version, and the version to return to, decided from facts alone."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tidemill.checkpoint.desired import Desired
from tidemill.checkpoint.status import DriverState, Status
from tidemill.control.decide.endings import Ending
from tidemill.control.decide.facts import Facts
from tidemill.control.decide.kept_version import KeptVersion
from tidemill.control.decide.reconcile import Reconciler
from tidemill.control.decide.remembered import Remembered
from tidemill.control.decide.rollback import Rollback, version_before
from tidemill.control.runtime import StartedDriver
from tidemill.spec.restarts import RestartPolicy

# A version that was started 20 minutes ago, and may take 10; `old` made progress before.
NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)
STARTED = NOW - timedelta(minutes=20)


def driver(version: str = "new", **changes: Any) -> StartedDriver:
    start = StartedDriver("orders", "stream", f"run-{version}", version, STARTED, STARTED, "", "pid 1", True)
    return replace(start, **changes)


def said(state: DriverState, **facts: Any) -> Status:
    own = {"pipeline": "orders", "mode": "stream", "run_id": "run-new", "started_at": STARTED}
    return Status.model_validate({**own, "state": state, "updated_at": NOW, **facts})


def ended(version: str, exit_code: int | None, *, progressed: bool = False) -> Ending:
    result = "clean" if exit_code == 0 else "killed" if exit_code is None else "failed"
    return Ending(
        run_id=f"run-{version}",
        digest=version,
        started_at=STARTED - timedelta(hours=1),
        ended_at=STARTED - timedelta(minutes=1),
        result=result,
        exit_code=exit_code,
        progressed=progressed,
    )


OLD = ended("old", 0, progressed=True)
KILLED = ended("new", None)
CASES: dict[str, tuple[dict[str, Any], str]] = {
    "refused": ({"endings": (OLD, ended("new", 66))}, "return"),
    "its restarts are used up": ({"endings": (OLD, KILLED, KILLED, KILLED, KILLED)}, "return"),
    "some are left": ({"endings": (OLD, KILLED)}, "start"),
    "its source is away": ({"endings": (OLD, *[ended("new", 69)] * 9)}, "start"),
    "it has not said anything": ({"running": driver()}, "return"),
    # A driver says so until the end of its first batch.
    "its first batch is long": ({"running": driver(), "newest_status": said("starting")}, "leave"),
    "its pod cannot start": ({"running": driver(stuck="ImagePullBackOff")}, "return"),
    "it waits for its source": (
        {"running": driver(), "newest_status": said("waiting", error={"id": "TIDE-SRC-001"})},
        "leave",
    ),
    "it hangs in its first batch": (
        {"running": driver(silence=timedelta(hours=1)), "newest_status": said("starting")},
        "return",
    ),
    "it hangs after it": (
        {
            "running": driver(silence=timedelta(hours=1)),
            "newest_status": said("running", batch_committed_at=STARTED),
        },
        "stop",
    ),
    "another driver of it came up late": (
        {"running": driver(claimed_at=NOW - timedelta(minutes=1)), "endings": (OLD, ended("new", 69))},
        "leave",
    ),
    "a person has asked for it": (
        {"running": driver(), "desired": Desired(state="running", by="ann", at=NOW - timedelta(minutes=1))},
        "leave",
    ),
    "it has time": ({"running": driver(), "progress_within": timedelta(minutes=30)}, "leave"),
    "it drains": ({"running": driver(drain_requested_at=NOW)}, "leave"),
    "there is none before": ({"endings": (ended("new", 66),), "back_to": None}, "refused"),
    "nobody wants it to run": (
        {"endings": (OLD, ended("new", 66)), "desired": Desired(state="stopped", by="ann", at=STARTED)},
        "leave",
    ),
    "somebody holds it": (
        {"endings": (OLD, ended("new", 66).model_copy(update={"error": {"id": "TIDE-CKPT-029"}}))},
        "start",
    ),
}


KEPT = KeptVersion(digest="old", kept_at=STARTED - timedelta(hours=2), place="local, /data", files={})
BATCH = ended("new", None).model_copy(update={"committed": True})


@pytest.mark.parametrize(
    ("kept", "endings", "before"),
    [
        (None, [OLD], None),
        (KEPT, [OLD], "old"),
        (KEPT, [OLD, KILLED], "old"),
        # It found nothing to read, and failed at its first batch.
        (KEPT, [OLD, ended("new", 0, progressed=True), KILLED], "old"),
        (KEPT, [OLD, BATCH], None),
        # A version in between made a batch and was not kept, so it is unknown whether `old` can continue.
        (KEPT, [OLD, BATCH.model_copy(update={"digest": "between"})], None),
        (KEPT.model_copy(update={"digest": "new"}), [OLD], None),
        # It was not drained for the new version, but broken itself.
        (KEPT, [OLD, ended("old", 66), KILLED], None),
        (KEPT, [KILLED], None),
    ],
)
def test_only_what_was_drained_for_the_new_version_is_gone_back_to(
    kept: KeptVersion | None, endings: list[Ending], before: str | None
) -> None:
    assert version_before("new", Remembered(kept=kept, endings=endings)) == before


@pytest.mark.parametrize(("facts", "action"), CASES.values(), ids=CASES)
def test_a_version_is_given_up_if_it_cannot_begin(facts: dict[str, Any], action: str) -> None:
    seen = Facts(
        **{"pipeline": "orders", "now": NOW, "digest": "new", "back_to": "old", "endings": (OLD,), **facts}
    )
    assert Reconciler(RestartPolicy()).decide(replace(seen, on_change="restart")).action == action


CRASHED = (ended("old", None),) * 4
BEFORE: dict[str, tuple[dict[str, Any], str]] = {
    "it runs": ({"running": driver("old")}, "refused"),
    "it is down": ({}, "start"),
    "it crashes, too": ({"endings": CRASHED}, "hold"),
    "the one that was given up still runs": ({"running": driver("new")}, "stop"),
}


@pytest.mark.parametrize(("facts", "action"), BEFORE.values(), ids=BEFORE)
def test_whatever_is_decided_about_the_version_before_says_so(facts: dict[str, Any], action: str) -> None:
    rollback = Rollback(version="new", to="old", at=STARTED, why="exit 65")
    known = {"digest": "old", "rollback": rollback, "endings": (OLD,), "on_change": "restart"}
    seen = Facts(**{"pipeline": "orders", "now": NOW, **known, **facts})
    decision = Reconciler(RestartPolicy()).decide(seen)
    assert decision.action == action
    assert "the new one was given up, exit 65" in decision.reason
