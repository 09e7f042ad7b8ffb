"""The page about rehearsing an emergency on a copy."""

from __future__ import annotations

from pathlib import Path

from tests.support.patient import ORDERS, Patient
from tests.support.runbook_pages import runbook_pages
from tests.support.runbook_story import Refused, Story, Told, each_story

PLAY = "tidemill gameday run PIPELINE"
ENVIRONMENT = 'root: .data\nkafka: {bootstrap_servers: "localhost:1"}\n'


def has_two_batches_and_sends_alerts(patient: Patient) -> None:
    patient.ran(2, ORDERS + "  - kafka: {topic: alerts, key: id}\n")
    patient.has_broker()
    patient.drivers.environ(ENVIRONMENT + "protected: true\n")


def not_protected(patient: Patient) -> None:
    patient.drivers.environ(ENVIRONMENT)


def sends_nothing(patient: Patient) -> None:
    patient.declare(ORDERS)


def nothing_is_left(patient: Patient) -> bool:
    root = Path(patient.pipeline.layout.root)
    return patient.ids() == list(range(20)) and not list((root / "game_days").rglob("*"))


STORIES = [
    Story(
        "game-day",
        "a copy is drilled, once it is allowed and possible",
        has_two_batches_and_sends_alerts,
        (),
        [
            Refused(PLAY, "TIDE-CTRL-090"),
            not_protected,
            Refused(PLAY, "TIDE-CTRL-091"),
            sends_nothing,
            "tidemill checkpoint doctor PIPELINE",
            PLAY + " --drill kill",
            "tidemill gameday show PIPELINE",
        ],
        over=nothing_is_left,
        goes_on=False,
    )
]


@each_story(STORIES)
def test_the_pages_commands_end_what_the_page_is_about(story: Story, patient: Patient) -> None:
    Told(story, runbook_pages()[story.page], patient).tell()
