"""The decision table: facts in, one decision out."""

from __future__ import annotations

import math
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tidemill.checkpoint.desired import Desired
from tidemill.checkpoint.receipts import Receipt
from tidemill.checkpoint.status import Status
from tidemill.control.decide.endings import Ending
from tidemill.control.decide.facts import Facts
from tidemill.control.decide.reconcile import LONGEST_SILENCE_OF_NEWER, Decision, Reconciler
from tidemill.control.decide.restart_policy import backoff
from tidemill.control.runtime import StartedDriver
from tidemill.errors import GateRefusedError, SpecError
from tidemill.spec.restarts import RestartPolicy

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
POLICY = RestartPolicy()
SECOND = timedelta(seconds=1)

# Seconds after the first, second, third and ninth bad end of `orders`.
WAITS = [5.98, 11.0, 26.83, 259.21]


def ago(**span: float) -> datetime:
    return NOW - timedelta(**span)


def driver(**changes: Any) -> StartedDriver:
    facts: dict[str, Any] = {
        "pipeline": "orders",
        "mode": "stream",
        "run_id": "run-1",
        "digest": "d1",
        "claimed_at": ago(hours=1),
        "started_at": ago(hours=1),
        "log": "/log",
        "process": "pid 1",
        "alive": True,
    }
    return StartedDriver(**{**facts, **changes})


def ending(
    exit_code: int | None, at: datetime, *, lived: float = 30, progressed: bool = False, **more: Any
) -> Ending:
    result = "killed" if exit_code is None else "clean" if exit_code == 0 else "failed"
    facts = {"run_id": f"run-{at}", "digest": "d1", "result": result, "exit_code": exit_code, **more}
    return Ending(started_at=at - timedelta(seconds=lived), ended_at=at, progressed=progressed, **facts)


def crashes(*minutes_ago: float, exit_code: int | None = None, progressed: bool = True) -> tuple[Ending, ...]:
    return tuple(ending(exit_code, ago(minutes=m), progressed=progressed) for m in minutes_ago)


def wish(state: str, at: datetime = NOW, reason: str = "") -> Desired:
    return Desired.model_validate({"state": state, "by": "ann", "at": at, "reason": reason})


def decide(**facts: Any) -> Decision:
    return Reconciler(POLICY).decide(Facts(**{"pipeline": "orders", "now": NOW, "digest": "d1", **facts}))


def test_a_declared_stream_that_nobody_spoke_of_is_started() -> None:
    assert decide().action == "start"


def test_a_running_stream_is_left() -> None:
    assert decide(running=driver()).action == "leave"


def test_a_stopped_stream_stays_stopped_and_says_who_stopped_it_and_why() -> None:
    decision = decide(desired=wish("stopped", reason="broker move"))
    assert decision.action == "leave"
    assert "ann: broker move" in decision.reason


def test_a_suspended_stream_is_drained_left_and_started_when_its_moment_has_passed() -> None:
    suspended = wish("suspended", ago(days=1), "broker move").model_copy(update={"until": NOW})
    drained, just_before = (ending(0, ago(days=1)),), NOW - timedelta(seconds=1)
    assert decide(desired=suspended, running=driver(), now=just_before).action == "stop"
    decision = decide(desired=suspended, endings=drained, now=just_before)
    assert decision.action == "leave"
    assert decision.reason == "suspended until 2026-03-01 12:00 UTC by ann: broker move"
    assert decide(desired=suspended, endings=drained).action == "start"
    assert decide(desired=suspended, running=driver()).action == "leave"
    for_ever = wish("suspended", ago(days=1))
    assert decide(desired=for_ever, endings=drained, now=NOW + timedelta(days=999)).action == "leave"


def test_a_suspension_gives_a_new_budget_but_its_end_does_not() -> None:
    suspended = wish("suspended", ago(minutes=45)).model_copy(update={"until": ago(minutes=40)})
    before, since = crashes(70, 65, 60, 55, 50), crashes(30, 25, 20, 15, 10, 6)
    assert decide(desired=suspended, endings=before).action == "start"
    assert decide(desired=suspended, endings=since).action == "hold"


def test_a_stream_that_should_be_stopped_is_drained_once() -> None:
    assert decide(desired=wish("stopped"), running=driver()).action == "stop"
    assert (
        decide(desired=wish("stopped"), running=driver(drain_requested_at=ago(seconds=30))).action == "leave"
    )


@pytest.mark.parametrize(("seconds", "action"), [(299, "leave"), (301, "kill")])
def test_a_drain_that_has_not_ended_after_the_grace_period_is_killed(seconds: int, action: str) -> None:
    draining = driver(drain_requested_at=ago(seconds=seconds))
    decision = decide(desired=wish("stopped"), running=draining, grace_period=timedelta(minutes=5))
    assert decision.action == action


def test_a_stream_that_became_incremental_is_drained() -> None:
    assert decide(mode="incremental", running=driver()).action == "stop"


def test_an_incremental_run_in_the_place_of_a_stream_is_left_to_finish() -> None:
    assert decide(mode="incremental", running=driver(mode="incremental")).action == "leave"


def test_a_changed_declaration_is_told_not_applied_by_itself() -> None:
    decision = decide(running=driver(digest="d0"))
    assert decision.action == "leave"
    assert "older definition" in decision.reason


def test_a_changed_definition_takes_the_place_of_the_old_one_where_the_environment_says_so() -> None:
    assert decide(running=driver(digest="d0"), on_change="restart").action == "stop"
    assert decide(running=driver(), on_change="restart").action == "leave"


def test_a_changed_definition_that_the_gate_refuses_leaves_the_old_one_running() -> None:
    objection = GateRefusedError("TIDE-CKPT-026", "Partitions.", runbook="pipeline-changed")
    decision = decide(running=driver(digest="d0"), on_change="restart", objection=objection)
    assert (decision.action, decision.runbook) == ("refused", "pipeline-changed")
    assert "TIDE-CKPT-026" in decision.reason


def test_a_change_drains_once_and_touches_no_incremental_run() -> None:
    draining = driver(digest="d0", drain_requested_at=ago(seconds=5))
    assert decide(running=draining, on_change="restart").action == "leave"
    bounded = driver(digest="d0", mode="incremental")
    assert decide(running=bounded, on_change="restart").action == "leave"


def test_a_driver_whose_file_is_gone_is_reported_and_left_running() -> None:
    decision = decide(mode=None, digest=None, running=driver())
    assert decision.needs_human


def test_a_broken_declaration_is_refused_with_its_own_words() -> None:
    problem = SpecError("TIDE-SPEC-003", "Wrong key.", facts={"file": "orders.yaml"})
    for running in (None, driver()):
        decision = decide(problem=problem, digest=None, running=running)
        assert decision.action == "refused"
        assert "orders.yaml" in decision.reason


def test_what_is_for_trying_out_is_started_by_hand_and_refused_elsewhere_only_then() -> None:
    assert decide(by_hand=True).action == "leave"
    assert decide(by_hand=True, desired=wish("running")).action == "start"
    elsewhere = SpecError("TIDE-MODE-001", "A socket is for trying out on one machine.")
    assert decide(by_hand=True, problem=elsewhere, digest=None).action == "leave"
    assert decide(by_hand=True, problem=elsewhere, digest=None, desired=wish("running")).action == "refused"


def test_a_drained_driver_is_started_at_once() -> None:
    assert decide(endings=(ending(0, ago(seconds=1)),)).action == "start"
    assert decide(endings=(ending(1, ago(seconds=1), result="forced"),)).action == "start"


@pytest.mark.parametrize("exit_code", [64, 65, 66])
def test_a_refusal_is_not_repeated_and_keeps_the_drivers_error_and_runbook(exit_code: int) -> None:
    error = {
        "id": "TIDE-CKPT-004",
        "problem": "Behind.",
        "fix": "rewind",
        "runbook": "checkpoint-behind-table",
    }
    decision = decide(endings=(ending(exit_code, ago(days=3), error=error),))
    assert decision.action == "refused"
    assert "TIDE-CKPT-004 Behind. To fix: rewind" in decision.reason
    assert decision.runbook == "checkpoint-behind-table"


@pytest.mark.parametrize("exit_code", [64, 65, 66])
def test_a_refusal_ends_when_the_declaration_changes_or_a_person_asks_anew(exit_code: int) -> None:
    refused = (ending(exit_code, ago(minutes=5)),)
    assert decide(endings=refused, digest="d2").action == "start"
    assert decide(endings=refused, desired=wish("running", ago(minutes=1))).action == "start"
    assert decide(endings=refused, desired=wish("running", ago(minutes=9))).action == "refused"


@pytest.mark.parametrize("exit_code", [69, 70, 1, None])
def test_a_bad_end_is_restarted_after_a_growing_wait(exit_code: int | None) -> None:
    once = (ending(exit_code, ago(seconds=4), progressed=True),)
    assert decide(endings=once).action == "wait"
    assert decide(endings=once).until == ago(seconds=4) + backoff("orders", 1, POLICY)
    assert decide(endings=once, now=NOW + timedelta(seconds=6)).action == "start"
    twice = (ending(exit_code, ago(seconds=60), progressed=True), *once)
    assert decide(endings=twice).until == ago(seconds=4) + backoff("orders", 2, POLICY)


def test_an_unavailable_source_is_tried_for_ever_with_a_bounded_wait() -> None:
    outage = crashes(*range(600, 0, -5), exit_code=69, progressed=False)
    decision = decide(endings=outage, now=outage[-1].ended_at + POLICY.longest_delay / 2 - SECOND)
    assert decision.action == "wait"
    assert decision.until == outage[-1].ended_at + backoff("orders", len(outage), POLICY)
    assert decide(endings=outage, now=NOW + POLICY.longest_delay).action == "start"


def test_a_wait_is_the_same_each_time_and_between_half_the_delay_and_all_of_it() -> None:
    # The wait must not depend on the process: a restarted Airflow or another machine computes the same.
    assert [round(backoff("orders", count, POLICY).total_seconds(), 2) for count in (1, 2, 3, 9)] == WAITS
    for count in range(1, 200):
        assert POLICY.delay(count) / 2 <= backoff("orders", count, POLICY) <= POLICY.delay(count)


def test_pipelines_that_lost_one_broker_together_come_back_over_several_visits() -> None:
    waits = [backoff(f"pipeline_{number}", 9, POLICY) for number in range(50)]
    by_visit = Counter(math.ceil(wait / timedelta(minutes=1)) for wait in waits)
    assert set(by_visit) == {3, 4, 5}
    assert max(by_visit.values()) <= 30


def test_the_bounds_are_the_policys_own() -> None:
    policy = RestartPolicy(
        first_delay="2 minutes", longest_delay="10 minutes", window="2 hours", budget=2, fruitless_limit=3
    )

    def judged(*endings: Ending) -> Decision:
        return Reconciler(policy).decide(Facts("orders", NOW, digest="d1", endings=endings))

    assert judged(*crashes(0.5)).until == ago(minutes=0.5) + backoff("orders", 1, policy)
    assert judged(*crashes(110, 30)).until == ago(minutes=110) + timedelta(hours=2)
    assert judged(*crashes(300, 200, 130, progressed=False)).runbook == "no-progress-over-restarts"
    healthy = ending(None, ago(minutes=30), lived=15 * 60, progressed=True)
    assert judged(*crashes(110), healthy).action == "start"
    longer = policy.model_copy(update={"healthy_after": timedelta(minutes=20)})
    decided = Reconciler(longer).decide(Facts("orders", NOW, digest="d1", endings=(*crashes(110), healthy)))
    assert decided.action == "hold"


def test_a_spent_budget_holds_until_the_oldest_crash_leaves_the_window() -> None:
    spent = crashes(50, 40, 30, 20, 10, 6)
    decision = decide(endings=spent)
    assert decision.action == "hold"
    assert decision.runbook == "restart-budget-spent"
    assert decision.until == spent[0].ended_at + POLICY.window
    assert decide(endings=spent, now=decision.until).action == "start"


def test_crashes_outside_the_window_cost_nothing() -> None:
    assert decide(endings=crashes(200, 180, 160, 140, 120, 100, 6)).action == "start"


def test_a_healthy_life_clears_what_was_before() -> None:
    before = crashes(50, 45, 40, 35, 30)
    healthy = ending(None, ago(minutes=1), lived=20 * 60, progressed=True)
    assert decide(endings=(*before, healthy)).action == "start"
    short = ending(None, ago(minutes=1), lived=60, progressed=True)
    assert decide(endings=(*before, short)).action == "hold"


def test_a_person_who_starts_it_gives_a_new_budget() -> None:
    assert decide(endings=crashes(50, 40, 30, 20, 10, 6), desired=wish("running")).action == "start"


def test_a_driver_that_never_reaches_its_first_batch_is_held_however_slowly_it_fails() -> None:
    loop = crashes(300, 200, 100, 50, progressed=False)
    decision = decide(endings=loop)
    assert decision.action == "hold"
    assert decision.until is None
    assert decision.runbook == "no-progress-over-restarts"
    assert decide(endings=loop[1:]).action == "start"


def test_one_crash_with_progress_breaks_the_row_without_progress() -> None:
    loop = crashes(300, 200, progressed=False) + crashes(150) + crashes(100, 70, progressed=False)
    assert decide(endings=loop).action == "start"


def status(epoch: int, updated_at: datetime) -> Status:
    return Status(
        pipeline="orders",
        mode="stream",
        state="running",
        run_id="x",
        epoch=epoch,
        started_at=ago(days=1),
        updated_at=updated_at,
    )


def test_a_fenced_driver_is_left_until_the_newer_one_has_ended() -> None:
    fenced = (ending(75, ago(minutes=1), epoch=7),)
    newer = Receipt(
        pipeline="orders", run_id="x", mode="stream", result="clean", exit_code=0, stopped_at=NOW, epoch=8
    )
    assert decide(endings=fenced).action == "leave"
    assert decide(endings=fenced, newest_receipt=newer).action == "start"
    assert decide(endings=fenced, newest_receipt=newer.model_copy(update={"epoch": 7})).action == "leave"


SILENT = LONGEST_SILENCE_OF_NEWER + timedelta(seconds=1)


def test_a_fenced_driver_is_left_while_the_newer_one_is_heard_of() -> None:
    fenced = (ending(75, ago(hours=23), epoch=7),)
    assert decide(endings=fenced, newest_status=status(8, NOW - LONGEST_SILENCE_OF_NEWER)).action == "leave"


@pytest.mark.parametrize("newest", [None, status(8, NOW - SILENT), status(7, NOW)])
def test_a_fenced_driver_is_started_again_when_the_newer_one_is_silent(newest: Status | None) -> None:
    fenced = (ending(75, NOW - SILENT, epoch=7),)
    decision = decide(endings=fenced, newest_status=newest)
    assert decision.action == "start"
    assert "silent since" in decision.reason


def test_a_newer_driver_has_time_to_be_heard_of_after_it_has_fenced_off_ours() -> None:
    # The status is still the last one of this stream's driver.
    fenced = (ending(75, ago(minutes=1), epoch=7),)
    assert decide(endings=fenced, newest_status=status(7, ago(minutes=1))).action == "leave"


STUCK = "pod tidemill-orders-0 waits since 12:00: ImagePullBackOff"


def test_a_stuck_driver_needs_a_human_in_its_own_words() -> None:
    decision = decide(running=driver(stuck=STUCK))
    assert (decision.action, decision.reason) == ("failed", STUCK)
    assert decision.needs_human
    assert decision.runbook == "kubernetes-object-refused"
    assert decide(running=driver(stuck=STUCK, digest="d0")).action == "failed"
    assert decide(mode="incremental", running=driver(stuck=STUCK, mode="incremental")).action == "failed"


@pytest.mark.parametrize("seconds", [30, 3600])
def test_a_driver_that_is_stuck_in_its_drain_needs_a_human_and_no_further_kill(seconds: int) -> None:
    leaving = driver(stuck=STUCK, drain_requested_at=ago(seconds=seconds))
    assert decide(desired=wish("stopped"), running=leaving).action == "failed"


def test_a_stuck_driver_still_goes_for_a_stop_or_a_new_definition() -> None:
    assert decide(desired=wish("stopped"), running=driver(stuck=STUCK)).action == "stop"
    assert decide(running=driver(stuck=STUCK, digest="d0"), on_change="restart").action == "stop"
