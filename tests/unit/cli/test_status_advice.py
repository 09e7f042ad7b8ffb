"""`tidemill status NAME` says what the measured values advise; a look at all does not read them."""

from __future__ import annotations

from tests.support.clinic import Clinic
from tests.support.command_line import CommandLine
from tests.support.conf_project import ConfProject

LATE = "TIDE-TUNE-001"


def test_advice_is_shown_with_the_state_of_one_pipeline(tidemill: CommandLine, project: ConfProject) -> None:
    clinic = Clinic(project)
    clinic.healthy(more="run: {trigger: 10 seconds}\n")
    (state,) = tidemill.json("status", "orders")
    assert state["advice"] == []
    clinic.measured(milliseconds=30_000)
    (state,) = tidemill.json("status", "orders")
    assert [(told["id"], told["facts"]["trigger"]) for told in state["advice"]] == [(LATE, "10 seconds")]
    assert tidemill("status", "orders") == 0
    assert f"warning {LATE} orders: " in tidemill.out
    assert "`run.trigger`, to 45 seconds" in tidemill.out
    assert "Page: tuning." in tidemill.out
    (state,) = tidemill.json("status")
    assert "advice" not in state


def test_a_query_shows_the_time_at_each_sink(tidemill: CommandLine, project: ConfProject) -> None:
    clinic = Clinic(project)
    clinic.healthy()
    clinic.measured(sinks={"bronze/orders": 41, "kafka:alerts": 2_903})
    assert tidemill("queries", "show", "orders") == 0
    shown = {words[0]: words[-1] for line in tidemill.out.splitlines() if len(words := line.split()) > 1}
    assert (shown["bronze/orders"], shown["kafka:alerts"]) == ("41", "2903")
