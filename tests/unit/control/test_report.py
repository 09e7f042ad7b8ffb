"""Problems of streams: since when they exist, and which of them were not reported yet."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tidemill.control.decide.progress import Stall
from tidemill.control.decide.reconcile import Action, Decision
from tidemill.control.decide.report import LONGEST_UNSEEN, Report, changes, report_of
from tidemill.control.decide.visit import Outcome

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def outcome(action: Action, name: str = "orders", page: str = "", *, alarm: bool = False) -> Outcome:
    return Outcome(name, Decision(action, f"{action}, as the test wants", runbook=page, alarm=alarm))


def stalled(page: str = "source-unavailable", minutes: int = 11) -> Outcome:
    stall = Stall(NOW - minutes * MINUTE, "topic gone", page)
    return Outcome("orders", Decision("leave", "runs"), stall=stall)


def told(rounds: list[list[Outcome]]) -> list[list[str]]:
    """Return the notifications after each of several reconciliations, a minute apart."""
    report, all_news = Report(), []
    for number, outcomes in enumerate(rounds):
        # Store the report and load it again, as between two runs of the DAG.
        before = Report.model_validate_json(report.model_dump_json())
        report = report_of(before, outcomes, NOW + number * MINUTE)
        all_news.append([str(change) for change in changes(before, report)])
    return all_news


def test_well_streams_are_no_news() -> None:
    assert told([[outcome("leave"), outcome("start", "returns"), outcome("wait", "daily")]] * 3) == [[]] * 3


def test_a_trouble_is_told_once_and_its_end_once() -> None:
    refused = outcome("refused", page="hold")
    news = told([[refused], [refused], [refused], [outcome("leave")], [outcome("leave")]])
    first = "orders: refused since 2026-03-01 12:00 UTC: refused, as the test wants\n  Runbook: hold"
    assert news == [[first], [], [], ["orders: well again"], []]


def test_another_trouble_of_the_same_stream_is_news() -> None:
    news = told([[stalled()], [stalled()], [stalled("disk-full")], [outcome("hold", page="disk-full")]])
    assert [len(each) for each in news] == [1, 0, 1, 1]
    since = "no progress since 2026-03-01 11:49 UTC: topic gone"
    assert news[0] == [f"orders: {since}\n  Runbook: source-unavailable"]


def test_the_words_of_a_trouble_may_change_without_news() -> None:
    assert told([[stalled(minutes=11)], [stalled(minutes=12)]])[1] == []


def test_a_stream_that_is_gone_is_well() -> None:
    assert told([[outcome("failed")], []])[1] == ["orders: well again"]


def test_a_driver_that_could_not_be_made_is_one_trouble_however_often_it_is_tried() -> None:
    tries = [outcome("start", alarm=True), outcome("wait", alarm=True), outcome("wait", alarm=True)]
    assert [len(each) for each in told([[each] for each in tries])] == [1, 0, 0]


def test_a_stream_that_is_unseen_is_told_of_after_a_while_and_only_then_red() -> None:
    minutes = LONGEST_UNSEEN // MINUTE
    news = told([[outcome("unseen")]] * (minutes + 3))
    assert news[:minutes] == [[]] * minutes
    assert news[minutes] == ["orders: unseen since 2026-03-01 12:00 UTC: unseen, as the test wants"]
    assert news[minutes + 1 :] == [[], []]


def test_a_stream_that_is_seen_in_between_is_unseen_anew() -> None:
    minutes = LONGEST_UNSEEN // MINUTE
    rounds = [[outcome("unseen")]] * minutes + [[outcome("leave")]] + [[outcome("unseen")]] * minutes
    assert told(rounds) == [[]] * len(rounds)


def test_since_when_is_kept_from_one_reconciliation_to_the_next() -> None:
    first = report_of(Report(), [outcome("refused")], NOW)
    later = report_of(first, [outcome("refused")], NOW + 60 * MINUTE)
    assert later.troubles["orders"].since == NOW
    assert report_of(Report(), [stalled()], NOW).troubles["orders"].since == NOW - 11 * MINUTE
