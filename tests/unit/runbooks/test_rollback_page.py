"""The page about a stream that went back to the version before."""

from __future__ import annotations

from datetime import UTC, datetime

from tests.support.eventually import eventually
from tests.support.patient import ORDERS, Patient
from tests.support.runbook_pages import runbook_pages
from tests.support.runbook_story import Story, Told, each_story
from tests.support.stream_requests import AT_ONCE
from tidemill.control.decide.all_streams import reconcile_streams
from tidemill.control.decide.remembered import remembered_in
from tidemill.control.decide.visit import Outcome

ENVIRONMENT = 'root: .data\nkafka: {bootstrap_servers: "localhost:1"}\non_change: restart\n'
OTHER = ORDERS.replace("description: ", "description: Corrected. ")


def visit(patient: Patient) -> Outcome:
    (outcome,) = reconcile_streams(patient.drivers.plane(), AT_ONCE)
    return outcome


def until(patient: Patient, action: str) -> None:
    eventually(lambda: visit(patient).decision.action == action, f"a visit that does: {action}")


def went_back(patient: Patient) -> None:
    patient.ran(1).has_broker()
    patient.drivers.environ(ENVIRONMENT)
    memory = patient.drivers.plane().runtime.memory("orders")
    eventually(lambda: visit(patient) and remembered_in(memory.read()).kept, "a version makes progress")
    patient.drivers.behave("orders", "exit 65")
    patient.declare(OTHER)
    until(patient, "return")
    patient.drivers.behave("orders", "run")
    until(patient, "start")
    assert "runs the version before" in visit(patient).decision.reason


def runs_as_declared(patient: Patient) -> bool:
    driver = patient.drivers.plane().running("orders")
    assert driver is not None
    assert driver.claimed_at < datetime.now(UTC)
    return driver.digest == patient.pipeline.version_digest and visit(patient).decision.reason == "runs"


STORIES = [
    Story(
        "rollback",
        "what kept the new version from starting is gone",
        went_back,
        (),
        [
            "tidemill status PIPELINE",
            "tidemill upgrade check PIPELINE",
            "tidemill restart PIPELINE --reason TEXT",
        ],
        over=runs_as_declared,
        goes_on=False,
    )
]


@each_story(STORIES)
def test_the_pages_commands_end_what_the_page_is_about(story: Story, patient: Patient) -> None:
    Told(story, runbook_pages()[story.page], patient).tell()
