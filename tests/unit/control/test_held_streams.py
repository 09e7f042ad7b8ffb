"""A stream under a hold waits for the end of the hold and then starts without an operator."""

from __future__ import annotations

from datetime import timedelta

from tests.support.eventually import eventually
from tests.support.patient import Patient
from tests.support.stream_requests import until_ended
from tidemill.checkpoint.holds import Hold, drop_hold, take_hold
from tidemill.checkpoint.procedure.journal import alive_path
from tidemill.checkpoint.procedure.sign_of_life import DEAD_AFTER, SignOfLife
from tidemill.control.decide.all_streams import reconcile_streams
from tidemill.control.decide.reconcile import Decision
from tidemill.names import Layout
from tidemill.storage.store import Store


def refused_by_a_hold(patient: Patient) -> None:
    """Let an operation hold the pipeline when its driver starts."""
    patient.ran(2)
    take_hold(*held(patient), Hold(id="rewind-1", by="ann", why="rewind: a wrong transform"))
    patient.driver_starts("run")
    until_ended(patient.plane, patient.name)
    ending = patient.plane.last_ending(patient.name)
    assert ending is not None
    assert (ending.exit_code, ending.was_held) == (66, True)


def held(patient: Patient) -> tuple[Store, Layout, str]:
    return patient.batches.store, patient.pipeline.layout, patient.name


def visit(patient: Patient) -> Decision:
    (outcome,) = reconcile_streams(patient.plane)
    return outcome.decision


def test_a_start_that_a_verb_forbids_waits_and_is_made_once_the_verb_is_through(patient: Patient) -> None:
    refused_by_a_hold(patient)
    waits = visit(patient)
    assert (waits.action, waits.runbook, waits.needs_human) == ("wait", "hold", False)
    assert "rewind: a wrong transform" in waits.reason
    drop_hold(*held(patient), "rewind-1")
    assert visit(patient).action == "start"
    eventually(lambda: patient.ids() == list(range(30)), "the next batch is written")


def test_a_person_is_told_once_the_verb_is_not_heard_of_any_more(patient: Patient) -> None:
    refused_by_a_hold(patient)
    store, layout, name = held(patient)
    path = alive_path(layout, name, "rewind-1")
    sign = SignOfLife()
    for silence, alarm in ((timedelta(0), False), (2 * DEAD_AFTER, True)):
        seen = sign.model_copy(update={"at": sign.at - silence})
        store.write_json(path, seen.model_dump(mode="json"))
        decision = visit(patient)
        assert (decision.action, decision.needs_human) == ("wait", alarm)
    assert "dead or hanging" in decision.reason
    assert "dead or hanging" in patient.status()["next"]["reason"]
