"""Notifications per channel, and the memory of what was sent."""

from __future__ import annotations

from datetime import UTC, datetime

from tidemill.control.decide.report import Report, Trouble
from tidemill.control.news import Memory, after_telling, news_for, notice_of

NOW = datetime(2026, 11, 23, 12, 0, tzinfo=UTC)


def report(**kinds: str) -> Report:
    return Report(
        troubles={
            name: Trouble(kind=kind, words="why", runbook="hold", since=NOW, red=True)
            for name, kind in kinds.items()
        }
    )


def told(memory: Memory, found: Report, *channels: str) -> dict[str, list[str]]:
    news = news_for(channels, memory, found)
    return {channel: [change.pipeline for change in changed] for channel, changed in news.items()}


def test_each_channel_is_told_what_it_does_not_know() -> None:
    memory = after_telling(Memory(), report(orders="hold"), not_told={"mail"})
    assert told(memory, report(orders="hold"), "chat", "mail") == {"mail": ["orders"]}
    both = report(orders="hold", visits="failed")
    assert told(memory, both, "chat", "mail") == {"chat": ["visits"], "mail": ["orders", "visits"]}


def test_what_was_not_told_and_is_well_again_is_no_news() -> None:
    memory = after_telling(Memory(), report(orders="hold"), not_told={"mail"})
    assert told(memory, report(), "chat", "mail") == {"chat": ["orders"]}


def test_a_channel_that_was_told_in_the_end_is_not_remembered_any_more() -> None:
    memory = after_telling(Memory(), report(orders="hold"), not_told={"mail"})
    memory = after_telling(memory, report(orders="hold"), not_told=())
    assert memory == Memory(troubles=report(orders="hold").troubles)


def test_a_new_channel_knows_what_the_others_know_and_a_removed_one_is_forgotten() -> None:
    memory = after_telling(Memory(), report(orders="hold"), not_told={"mail"})
    assert told(memory, report(orders="hold"), "new") == {}
    assert after_telling(memory, report(), not_told=()).behind == {}


def test_what_an_older_release_remembers_is_read() -> None:
    memory = Memory.model_validate(report(orders="hold").model_dump(mode="json"))
    assert told(memory, report(orders="hold"), "chat") == {}


def test_a_notice_says_in_its_subject_how_many_need_a_person() -> None:
    news = news_for(["chat"], Memory(), report(orders="hold", visits="failed"))["chat"]
    assert notice_of(news, "prod").subject == "Tidemill prod: 2 streams need a person"
    assert notice_of(news[:1], "prod").subject == "Tidemill prod: orders needs a person"
    before = after_telling(Memory(), report(orders="hold"), ())
    well = notice_of(news_for(["chat"], before, report())["chat"], "prod")
    assert (well.subject, well.text) == ("Tidemill prod: orders well again", "orders: well again")
    assert well.as_document()["changes"] == [{"pipeline": "orders", "trouble": None}]
