"""The page on repartitioning, and the part of `pipeline-changed` that needs it: Spark rewrites real state.

The command line starts Spark in a process of its own, as for a person; the drivers are fakes.
"""

from __future__ import annotations

from tests.support.golden_patient import DECLARATION, LAST, NAME, ran_windowed
from tests.support.patient import Patient
from tests.support.runbook_pages import runbook_pages
from tests.support.runbook_story import Refused, Story, Told, each_story

PLAN = "tidemill checkpoint repartition PIPELINE PARTITIONS"
REPARTITION = PLAN + " --reason TEXT --apply"
CKPT = "TIDE-CKPT-"


def outgrown(patient: Patient) -> None:
    """The file still says 2; the newest batch was begun and not finished."""
    checkpoint = ran_windowed(patient)
    patient.values["PARTITIONS"] = "4"
    kept = patient.keep(checkpoint / f"commits/{LAST}", checkpoint / f"commits/.{LAST}.crc")
    (checkpoint / f"commits/{LAST}").unlink()
    (checkpoint / f"commits/.{LAST}.crc").unlink()
    patient.put_back = kept


def write_the_wanted_number(patient: Patient) -> None:
    patient.declare(DECLARATION.replace("shuffle_partitions: 2", "shuffle_partitions: 4"), NAME)


def changed_in_the_file(patient: Patient) -> None:
    ran_windowed(patient, DECLARATION.replace("shuffle_partitions: 2", "shuffle_partitions: 4"))
    patient.values["PARTITIONS"] = "4"


def last_batch_is_finished(patient: Patient) -> None:
    patient.put_back()


def idle(patient: Patient) -> None:
    """The next driver finds nothing to read."""
    patient.drivers.behave(NAME, "idle")


def has_four_partitions(patient: Patient) -> None:
    found = patient.tidemill.json("checkpoint", "inspect", NAME)
    assert (found["generation"], found["operators"][0]["partitions"]) == ("g0002", 4)


STORIES = [
    Story(
        "repartition",
        "the state has outgrown its partitions",
        outgrown,
        (),
        [
            "tidemill stop PIPELINE",
            Refused(PLAN, CKPT + "081"),
            write_the_wanted_number,
            Refused(PLAN, CKPT + "082"),
            last_batch_is_finished,
            PLAN,
            REPARTITION,
            idle,
            "tidemill start PIPELINE",
        ],
        over=has_four_partitions,
        goes_on=False,
    ),
    Story(
        "pipeline-changed",
        "the number of partitions, on purpose",
        changed_in_the_file,
        (CKPT + "026",),
        [REPARTITION],
        over=has_four_partitions,
        goes_on=False,
    ),
]


@each_story(STORIES)
def test_the_pages_commands_end_what_the_page_is_about(story: Story, patient: Patient) -> None:
    Told(story, runbook_pages()[story.page], patient).tell()
