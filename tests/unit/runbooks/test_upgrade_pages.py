"""The page on new versions that cannot take over; Spark's part has prepared answers, the state is real."""

from __future__ import annotations

import json

import pytest

from tests.support.golden_patient import NAME, ran_windowed
from tests.support.patient import Patient
from tests.support.runbook_pages import runbook_pages
from tests.support.runbook_story import Story, Told, Warned
from tidemill.checkpoint.reading.reader import CheckpointReader
from tidemill.checkpoint.upgrade.version import KeptState, PlannedVersion, kept_in
from tidemill.control.plane import COMMAND_VARIABLE

CHECK = "tidemill upgrade check PIPELINE"


def answers(patient: Patient, operators: tuple[KeptState, ...]) -> None:
    """What Spark says of the version that is declared."""
    folder = patient.drivers.folder / "behaviour"
    folder.mkdir(exist_ok=True)
    version = PlannedVersion(operators=operators)
    (folder / "part.json").write_text(json.dumps(version.model_dump(mode="json")))
    # An answer is kept for a definition, and the definition stays as it is here.
    for part in (patient.state / "parts").glob("*"):
        part.unlink()


def kept(patient: Patient) -> tuple[KeptState, ...]:
    return kept_in(CheckpointReader(patient.plane.store, str(patient.state / "g0001")))


def has_another_key(patient: Patient) -> None:
    ran_windowed(patient)
    patient.patch.setenv(COMMAND_VARIABLE, "tests.support.fake_part:fake_part_command")
    (state,) = kept(patient)
    (table,) = state.tables
    shorter = table.model_copy(update={"key": table.key[:1]})
    answers(patient, (state.model_copy(update={"tables": (shorter,)}),))


def is_taken_back(patient: Patient) -> None:
    answers(patient, kept(patient))


def goes_on_from_what_there_is(patient: Patient) -> None:
    """The old release did not record what its operators compute; that is said, and forbids nothing."""
    found = patient.tidemill.json("upgrade", "check", NAME)
    assert (found["verdict"], found["must_be_accepted"]) == ("compatible", False)


STORIES = [
    Story(
        "upgrade",
        "the windows are counted by another key",
        has_another_key,
        (),
        [Warned(CHECK, "TIDE-CTRL-081"), is_taken_back, CHECK],
        over=goes_on_from_what_there_is,
        goes_on=False,
    ),
]


@pytest.mark.parametrize("story", STORIES, ids=lambda story: f"{story.page}: {story.title}")
def test_the_pages_commands_end_what_the_page_is_about(story: Story, patient: Patient) -> None:
    Told(story, runbook_pages()[story.page], patient).tell()
