"""Holds by hand, and the release of any hold."""

from __future__ import annotations

import pytest

from tests.support.pipelines_on_disk import Killed, killed_at
from tests.support.stores import StorePlace
from tidemill.checkpoint.gate import check_holds
from tidemill.checkpoint.holds import Hold, read_holds
from tidemill.checkpoint.procedure.audit import read_audit
from tidemill.checkpoint.procedure.carry_out import Request, Step, carry_out, procedure_of
from tidemill.checkpoint.procedure.journal import read_journal
from tidemill.checkpoint.procedure.unfinished import unfinished
from tidemill.checkpoint.verbs.release import hold_by_hand, releasable, release
from tidemill.errors import GateRefusedError, UsageError
from tidemill.names import Layout
from tidemill.storage.store import Store


class Orders:
    def __init__(self, place: StorePlace) -> None:
        self.store, self.layout = place.open(), Layout(place.root)

    @property
    def held(self) -> list[str]:
        return [hold.id for hold in read_holds(self.store, self.layout, "orders")]

    def hold(self, hold_id: str = "by-hand") -> bool:
        return hold_by_hand(self.store, self.layout, "orders", Hold(id=hold_id, by="ann", why="look first"))

    def release(self, hold_id: str = "by-hand", why: str = "looked", *, force: bool = False) -> Hold:
        asked = Hold(id=hold_id, by="bob", why=why)
        return release(self.store, self.layout, "orders", asked, force=force)

    def leave_unfinished(self, kill_at: str) -> None:
        request = Request("paint", "orders", "paint-1", "ann", "because", "tidemill paint")
        procedure = procedure_of(request, {}, (Step("only", lambda _: None, lambda _: ""),))
        with pytest.raises(Killed):
            carry_out(self.store, self.layout, procedure, lambda: None, killed_at(kill_at))


@pytest.fixture
def orders(store_place: StorePlace) -> Orders:
    return Orders(store_place)


def test_a_hold_forbids_a_start_until_it_is_released(orders: Orders) -> None:
    check_holds(orders.store, orders.layout, "orders")
    assert orders.hold()
    with pytest.raises(GateRefusedError):
        check_holds(orders.store, orders.layout, "orders")
    orders.release()
    check_holds(orders.store, orders.layout, "orders")


def test_a_hold_says_whose_it_is_and_why(orders: Orders) -> None:
    orders.hold("look-first")
    [hold] = read_holds(orders.store, orders.layout, "orders")
    assert (hold.by, hold.why) == ("ann", "look first")


def test_a_second_hold_of_the_same_name_changes_nothing(orders: Orders) -> None:
    assert [orders.hold(), orders.hold()] == [True, False]
    assert len(read_audit(orders.store, orders.layout)) == 1


def test_hold_and_release_are_audited_with_who_and_why(orders: Orders) -> None:
    orders.hold()
    orders.release()
    told = [(e.verb, e.by, e.why) for e in read_audit(orders.store, orders.layout, "orders")]
    assert told == [("release", "bob", "looked"), ("hold", "ann", "look first")]


def test_an_unknown_hold_is_refused_and_the_known_ones_named(orders: Orders) -> None:
    orders.hold()
    with pytest.raises(UsageError) as refused:
        orders.release("other")
    assert (refused.value.error_id, refused.value.facts["holds"]) == ("TIDE-CKPT-034", ["by-hand"])


def test_a_release_needs_a_reason(orders: Orders) -> None:
    orders.hold()
    with pytest.raises(UsageError) as refused:
        orders.release(why=" ")
    assert refused.value.error_id == "TIDE-CKPT-031"
    assert orders.held == ["by-hand"]


@pytest.mark.parametrize("moment", ["journal", "epoch", "only", "verify", "audit"])
def test_the_hold_of_an_unfinished_verb_stays(orders: Orders, moment: str) -> None:
    orders.leave_unfinished(moment)
    with pytest.raises(GateRefusedError) as refused:
        orders.release("paint-1")
    assert (refused.value.error_id, refused.value.facts["verb"]) == ("TIDE-CKPT-037", "paint")
    assert "tidemill paint" in refused.value.fix
    assert orders.held == ["paint-1"]


def test_by_force_the_verb_is_given_up_for_good(orders: Orders) -> None:
    orders.leave_unfinished("epoch")
    orders.release("paint-1", force=True)
    assert orders.held == []
    assert unfinished(orders.store, orders.layout, "orders") is None
    assert [entry.state for entry in read_journal(orders.store, orders.layout, "orders")] == ["abandoned"]


def test_the_hold_of_a_verb_that_died_on_its_last_step_may_go(orders: Orders) -> None:
    orders.leave_unfinished("close")
    assert orders.held == ["paint-1"]
    orders.release("paint-1")
    assert unfinished(orders.store, orders.layout, "orders") is None


def test_an_unfinished_request_that_holds_nobody_is_shown_and_can_be_given_up(orders: Orders) -> None:
    request = Request("tidy", "orders", "tidy-1", "ann", "because", "tidemill tidy")
    procedure = procedure_of(request, {}, (Step("only", lambda _: None, lambda _: ""),), forbids_starts=False)
    with pytest.raises(Killed):
        carry_out(orders.store, orders.layout, procedure, lambda: None, killed_at("only"))
    [shown] = releasable(orders.store, orders.layout, "orders")
    assert (shown.id, shown.to_do, orders.held) == ("tidy-1", "tidemill tidy", [])
    with pytest.raises(GateRefusedError):
        orders.release("tidy-1")
    orders.release("tidy-1", force=True)
    assert releasable(orders.store, orders.layout, "orders") == []


def test_a_hold_without_a_journal_may_go(orders: Orders) -> None:
    orders.leave_unfinished("hold")
    orders.release("paint-1")
    assert orders.held == []


def test_holds_of_one_pipeline_are_not_those_of_another(orders: Orders, store_root: str) -> None:
    orders.hold()
    assert read_holds(Store(store_root), orders.layout, "payments") == []
