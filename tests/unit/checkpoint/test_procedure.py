"""Procedures reach the same end after a kill at any step and a repeat; nothing starts in between."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.support.pipelines_on_disk import Killed, killed_at
from tests.support.race import race
from tidemill.checkpoint.epochs import claim_epoch, newest_epoch
from tidemill.checkpoint.holds import Hold, drop_hold, read_holds, take_hold
from tidemill.checkpoint.procedure.audit import read_audit
from tidemill.checkpoint.procedure.carry_out import (
    Procedure,
    Request,
    Step,
    carry_out,
    plan_of,
    procedure_of,
)
from tidemill.checkpoint.procedure.journal import Notes, derived_request_id, end_entry, read_journal
from tidemill.checkpoint.procedure.sign_of_life import DEAD_AFTER
from tidemill.checkpoint.procedure.unfinished import unfinished
from tidemill.errors import FencedError, GateRefusedError, InternalError, UsageError
from tidemill.names import Layout
from tidemill.storage.store import Store

STEPS = ("first", "second", "third")
MOMENTS = ("hold", "journal", "epoch", *STEPS, "verify", "audit", "close", "release")


class Place:
    """A storage root, and a procedure that records each step in a separate file."""

    def __init__(self, root: str) -> None:
        self.store, self.layout = Store(root), Layout(root)
        # A step whose write is lost, although it ends without an error.
        self.lost = ""

    def procedure(self, request_id: str = "paint-1", **other: object) -> Procedure:
        request = Request("paint", "orders", request_id, "ann", "because", f"tidemill paint {request_id}")
        steps = tuple(
            Step(name, partial(self._note, request_id, name), partial(self._missing, request_id, name))
            for name in STEPS
        )
        return procedure_of(request, {"color": "red", **other}, steps)

    def run(self, procedure: Procedure | None = None, kill_at: str | None = None) -> None:
        done = killed_at(kill_at or "")
        carry_out(self.store, self.layout, procedure or self.procedure(), self.verify, done)

    def noted(self) -> list[str]:
        return self.store.list_names(f"{self.layout.root}/notes")

    def verify(self) -> None:
        assert {f"paint-1 {name}" for name in STEPS} <= set(self.noted())

    def _note(self, request_id: str, name: str, _: Notes) -> None:
        if name != self.lost:
            self.store.write(f"{self.layout.root}/notes/{request_id} {name}", b"")

    def _missing(self, request_id: str, name: str, _: Notes) -> str:
        return "" if f"{request_id} {name}" in self.noted() else f"the note of {name}"


@pytest.fixture
def place(store_root: str) -> Place:
    return Place(store_root)


@pytest.fixture
def local_place(tmp_path: Path) -> Place:
    return Place(str(tmp_path))


def test_a_procedure_leaves_its_work_an_audit_entry_and_no_hold(place: Place) -> None:
    place.run()
    assert place.noted() == ["paint-1 first", "paint-1 second", "paint-1 third"]
    [entry] = read_audit(place.store, place.layout)
    assert (entry.verb, entry.pipeline, entry.request_id) == ("paint", "orders", "paint-1")
    assert (entry.by, entry.why, entry.plan) == ("ann", "because", {"color": "red"})
    assert read_holds(place.store, place.layout, "orders") == []
    assert unfinished(place.store, place.layout, "orders") is None


@pytest.mark.parametrize("moment", MOMENTS)
def test_killed_anywhere_it_holds_and_run_again_it_comes_to_the_same_end(place: Place, moment: str) -> None:
    with pytest.raises(Killed):
        place.run(kill_at=moment)
    held = [hold.id for hold in read_holds(place.store, place.layout, "orders")]
    assert held == ([] if moment == "release" else ["paint-1"])
    place.run()
    assert len(place.noted()) == len(STEPS)
    assert read_holds(place.store, place.layout, "orders") == []
    assert unfinished(place.store, place.layout, "orders") is None
    assert [entry.state for entry in read_journal(place.store, place.layout, "orders")] == ["verified"]
    assert len(read_audit(place.store, place.layout)) == 1


@pytest.mark.parametrize("moment", ["journal", *STEPS, "verify", "close"])
def test_another_verb_waits_for_the_unfinished_one(place: Place, moment: str) -> None:
    with pytest.raises(Killed):
        place.run(kill_at=moment)
    with pytest.raises(GateRefusedError) as refused:
        place.run(place.procedure("paint-2"))
    assert (refused.value.error_id, refused.value.facts["unfinished"]) == ("TIDE-CKPT-033", "paint-1")
    assert "tidemill paint paint-1" in refused.value.fix
    assert [hold.id for hold in read_holds(place.store, place.layout, "orders")] == ["paint-1"]
    place.run()
    place.run(place.procedure("paint-2"))
    assert len(place.noted()) == 2 * len(STEPS)


def test_steps_that_are_done_are_not_repeated(place: Place) -> None:
    with pytest.raises(Killed):
        place.run(kill_at="second")
    place.lost = "first"
    place.run()
    assert place.noted() == ["paint-1 first", "paint-1 second", "paint-1 third"]


def test_a_step_that_is_noted_as_done_without_its_effect_is_repeated(place: Place) -> None:
    """Older versions recorded steps without verifying their effect."""
    with pytest.raises(Killed):
        place.run(kill_at="second")
    place.store.delete(f"{place.layout.root}/notes/paint-1 first")
    place.run()
    assert place.noted() == ["paint-1 first", "paint-1 second", "paint-1 third"]


def test_a_step_without_its_effect_is_not_noted_as_done(place: Place) -> None:
    place.lost = "second"
    for _ in range(2):
        with pytest.raises(InternalError) as raised:
            place.run()
        assert raised.value.error_id == "TIDE-CKPT-109"
        assert (raised.value.facts["step"], raised.value.facts["missing"]) == ("second", "the note of second")
        assert [entry.done for entry in read_journal(place.store, place.layout, "orders")] == [1]
        assert [hold.id for hold in read_holds(place.store, place.layout, "orders")] == ["paint-1"]
    place.lost = ""
    place.run()
    assert unfinished(place.store, place.layout, "orders") is None


def test_an_ended_request_is_left_alone(place: Place) -> None:
    place.run()
    place.store.delete(f"{place.layout.root}/notes/paint-1 first")
    epoch = newest_epoch(place.store, place.layout, "orders")
    place.run()
    assert place.noted() == ["paint-1 second", "paint-1 third"]
    assert newest_epoch(place.store, place.layout, "orders") == epoch


def test_what_the_gate_refuses_stays_held(place: Place) -> None:
    def refuse() -> None:
        raise GateRefusedError("TIDE-TEST-001", "No.")

    with pytest.raises(GateRefusedError):
        carry_out(place.store, place.layout, place.procedure(), refuse)
    assert [hold.id for hold in read_holds(place.store, place.layout, "orders")] == ["paint-1"]
    assert read_audit(place.store, place.layout) == []
    place.run()
    assert read_holds(place.store, place.layout, "orders") == []


def test_a_driver_that_starts_meanwhile_ends_the_attempt(place: Place) -> None:
    def start_driver(name: str) -> None:
        if name == "first":
            claim_epoch(place.store, place.layout, "orders", "driver")

    with pytest.raises(FencedError) as fenced:
        carry_out(place.store, place.layout, place.procedure(), place.verify, start_driver)
    assert fenced.value.error_id == "TIDE-CKPT-039"
    assert place.noted() == ["paint-1 first"]
    assert [hold.id for hold in read_holds(place.store, place.layout, "orders")] == ["paint-1"]


def test_what_a_step_notes_the_later_ones_and_a_repeated_run_are_told(place: Place) -> None:
    told: list[Notes] = []
    makes = Step("make", lambda _: {"made": (1, 2)}, lambda _: "")
    request = Request("paint", "orders", "paint-1", "ann", "because")
    uses = Step("use", lambda notes: told.append(dict(notes)), lambda _: "")
    procedure = procedure_of(request, {}, (makes, uses))
    with pytest.raises(Killed):
        carry_out(place.store, place.layout, procedure, lambda: None, killed_at("make"))
    carry_out(place.store, place.layout, procedure, lambda: None)
    assert told == [{"made": [1, 2]}]


def test_a_run_whose_hold_is_gone_goes_no_further(place: Place) -> None:
    def release(name: str) -> None:
        if name == "first":
            drop_hold(place.store, place.layout, "orders", "paint-1")

    with pytest.raises(FencedError):
        carry_out(place.store, place.layout, place.procedure(), place.verify, release)
    assert place.noted() == ["paint-1 first"]


def test_a_run_shows_that_it_is_at_work(place: Place) -> None:
    seen: list[Hold] = []

    def look() -> None:
        seen.extend(read_holds(place.store, place.layout, "orders"))

    carry_out(place.store, place.layout, place.procedure(), look)
    [hold] = seen
    assert hold.alive is not None
    assert (hold.alive.process, hold.alive.host) == (os.getpid(), platform.node())
    told = hold.alive.told(hold.alive.at + 2 * DEAD_AFTER)
    assert (hold.alive.told().partition(":")[0], told.partition(":")[0]) == ("at work", "dead or hanging")


def test_a_request_that_was_given_up_is_not_taken_up_again(place: Place) -> None:
    with pytest.raises(Killed):
        place.run(kill_at="first")
    [entry] = read_journal(place.store, place.layout, "orders")
    assert end_entry(place.store, place.layout, entry, "abandoned").state == "abandoned"
    assert end_entry(place.store, place.layout, entry, "verified").state == "abandoned"
    with pytest.raises(UsageError) as refused:
        place.run()
    assert (refused.value.error_id, refused.value.facts["state"]) == ("TIDE-CKPT-032", "abandoned")


def test_a_driver_of_before_is_fenced_off(place: Place) -> None:
    driver = claim_epoch(place.store, place.layout, "orders", "driver")
    place.run(place.procedure())
    assert newest_epoch(place.store, place.layout, "orders") > driver


def test_the_plan_of_a_begun_request_is_continued_not_made_anew(place: Place) -> None:
    request = Request("paint", "orders", "paint-1", "ann", "because")
    assert plan_of(place.store, place.layout, request, lambda: {"at": (1, 2)}) == {"at": [1, 2]}
    with pytest.raises(Killed):
        place.run(kill_at="first")
    assert plan_of(place.store, place.layout, request, lambda: {"color": "blue"}) == {"color": "red"}


def test_a_request_id_is_not_used_for_another_plan(place: Place) -> None:
    place.run()
    with pytest.raises(UsageError) as refused:
        place.run(place.procedure("paint-1", color="blue"))
    assert refused.value.error_id == "TIDE-CKPT-032"


def test_a_repeated_command_continues_until_its_end_and_then_begins_anew(place: Place) -> None:
    def derive(**arguments: object) -> str:
        return derived_request_id(place.store, place.layout, "orders", "paint", arguments)

    first = derive(to=1)
    assert first.rpartition("-")[0] != derive(to=2).rpartition("-")[0]
    for moment in ("hold", "journal", "second"):
        with pytest.raises(Killed):
            place.run(place.procedure(first), kill_at=moment)
        assert derive(to=1) == first
    # This test is not about the result of `verify` for another request's notes.
    carry_out(place.store, place.layout, place.procedure(first), lambda: None)
    assert derive(to=1) != first


HOSTILE = ["../../x", "a\nb", "a" * 10_000, "", "A", "$(id)", "{{ 7*7 }}", '"; rm -rf /"', "‥", ".x", "a/b"]


@pytest.mark.parametrize("hostile", HOSTILE, ids=range(len(HOSTILE)))
@pytest.mark.parametrize(
    "use",
    [
        lambda place, text: place.run(place.procedure(text)),
        lambda place, text: take_hold(place.store, place.layout, "orders", Hold(id=text, by="a", why="b")),
    ],
    ids=["procedure", "hold"],
)
def test_hostile_ids_are_refused_and_nothing_is_touched(
    local_place: Place, tmp_path: Path, use: Callable[[Place, str], object], hostile: str
) -> None:
    with pytest.raises(UsageError) as refused:
        use(local_place, hostile)
    assert refused.value.error_id == "TIDE-CKPT-030"
    assert len(str(refused.value)) < 500
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("field", ["by", "why"])
@pytest.mark.parametrize("hostile", ["", " ", "a\nb", "a" * 10_000, "\x1b[31m"])
def test_hostile_names_and_reasons_are_refused(
    local_place: Place, tmp_path: Path, field: str, hostile: str
) -> None:
    asked = {"by": "ann", "why": "because", field: hostile}
    procedure = procedure_of(Request("paint", "orders", "paint-1", **asked), {}, ())
    with pytest.raises(UsageError) as refused:
        local_place.run(procedure)
    assert refused.value.error_id == "TIDE-CKPT-031"
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_hold_holds(place: Place) -> None:
    place.store.write(f"{place.layout.holds('orders')}/by-hand.json", b"{")
    place.store.write(f"{place.layout.holds('orders')}/empty.json", b"{}")
    assert [hold.id for hold in read_holds(place.store, place.layout, "orders")] == ["by-hand", "empty"]


def test_of_several_that_hold_at_once_one_takes_it(tmp_path: Path) -> None:
    taken = race(partial(hold_at_once, str(tmp_path)), 30)
    assert all(sorted(pair) == [False, True] for pair in zip(taken["one"], taken["other"], strict=True))


def hold_at_once(root: str, number: int, name: str) -> bool:
    hold = Hold(id=f"hold-{number}", by=name, why="race")
    return take_hold(Store(root), Layout(root), "orders", hold)


def test_of_two_verbs_that_begin_at_once_never_both_go_on(tmp_path: Path) -> None:
    ended = race(partial(begin_at_once, str(tmp_path)), 30)
    rounds = list(zip(ended["one"], ended["other"], strict=True))
    assert all(first != second or first == "refused" for first, second in rounds)


def begin_at_once(root: str, number: int, name: str) -> str:
    store, layout = Store(root), Layout(root)
    pipeline = f"orders{number}"
    request = Request("paint", pipeline, f"paint-{name}", name, "race")
    begun: list[str] = []
    step = Step("wait", lambda _: begun.append(name), lambda _: "")

    def die() -> None:
        raise Killed

    try:
        carry_out(store, layout, procedure_of(request, {}, (step,)), die)
    except GateRefusedError:
        return "refused"
    except Killed:
        return "begun"
    raise AssertionError("a killed one does not end")
