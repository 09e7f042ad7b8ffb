"""The pages on new versions; Spark's part has prepared answers, checkpoint and tables are real."""

from __future__ import annotations

import json

from pydantic import BaseModel

from tests.support.golden_patient import NAME, ran_windowed
from tests.support.patient import TABLE, Patient
from tests.support.runbook_pages import runbook_pages
from tests.support.runbook_story import Refused, Story, Told, Warned, each_story
from tidemill.checkpoint.reading.reader import CheckpointReader
from tidemill.checkpoint.upgrade.shadow import ShadowResult
from tidemill.checkpoint.upgrade.version import KeptState, PlannedVersion, kept_in
from tidemill.control.plane import COMMAND_VARIABLE
from tidemill.ledger.difference import Difference

CHECK = "tidemill upgrade check PIPELINE"


SHADOW = "tidemill upgrade shadow PIPELINE"


def answers(patient: Patient, operators: tuple[KeptState, ...]) -> None:
    """Set Spark's answer about the declared version."""
    part_answers(patient, PlannedVersion(operators=operators))


def part_answers(patient: Patient, answer: BaseModel) -> None:
    patient.patch.setenv(COMMAND_VARIABLE, "tests.support.fake_part:fake_part_command")
    folder = patient.drivers.folder / "behaviour"
    folder.mkdir(exist_ok=True)
    (folder / "part.json").write_text(json.dumps(answer.model_dump(mode="json")))
    # An answer is kept for a definition, and the definition stays as it is here.
    for part in (patient.state / "parts").glob("*"):
        part.unlink()


def kept(patient: Patient) -> tuple[KeptState, ...]:
    return kept_in(CheckpointReader(patient.plane.store, str(patient.state / "g0001")))


def has_another_key(patient: Patient) -> None:
    ran_windowed(patient)
    (state,) = kept(patient)
    (table,) = state.tables
    shorter = table.model_copy(update={"key": table.key[:1]})
    answers(patient, (state.model_copy(update={"tables": (shorter,)}),))


def is_taken_back(patient: Patient) -> None:
    answers(patient, kept(patient))


def goes_on_from_what_there_is(patient: Patient) -> None:
    """The old release did not record the meaning of its operators. This is reported and forbids nothing."""
    found = patient.tidemill.json("upgrade", "check", NAME)
    assert (found["verdict"], found["must_be_accepted"]) == ("compatible", False)


def has_one_batch(patient: Patient) -> None:
    patient.ran(1)
    differs(patient, missing=2, surplus=1, rows=('{"id":7}',))


def goes_on(patient: Patient) -> None:
    patient.went_on(2)


def writes_no_table(patient: Patient) -> None:
    patient.redeclare("delta: {table: bronze/orders}", "console: {}")


def is_as_it_was(patient: Patient) -> None:
    patient.redeclare("console: {}", "delta: {table: bronze/orders}")


def differs(patient: Patient, missing: int = 0, surplus: int = 0, rows: tuple[str, ...] = ()) -> None:
    table = Difference(
        name=TABLE, version=3, rows=20, missing=missing, surplus=surplus, missing_rows=rows, surplus_rows=rows
    )
    found = ShadowResult(pipeline="orders", generation="g0001", first=1, last=2, differences=(table,))
    part_answers(patient, found)


def is_the_same(patient: Patient) -> bool:
    return patient.tidemill.json("upgrade", "shadow", "orders")["differences"][0]["missing"] == 0


STORIES = [
    Story(
        "shadow-run",
        "a version that makes other rows is corrected",
        has_one_batch,
        (),
        [
            Refused(SHADOW, "TIDE-CTRL-095"),
            goes_on,
            writes_no_table,
            Refused(SHADOW, "TIDE-CTRL-096"),
            is_as_it_was,
            Warned(SHADOW, "differs"),
            differs,
            SHADOW + " --batches 20",
            "tidemill upgrade check PIPELINE",
        ],
        over=is_the_same,
        goes_on=False,
    ),
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


@each_story(STORIES)
def test_the_pages_commands_end_what_the_page_is_about(story: Story, patient: Patient) -> None:
    Told(story, runbook_pages()[story.page], patient).tell()
