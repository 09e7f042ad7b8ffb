"""The page on repartitioning, and the parts of `pipeline-changed` that need Spark for real state.

The command line starts Spark in a separate process, as it does for a user; the drivers are fakes.
"""

from __future__ import annotations

from tests.support.golden_patient import DECLARATION, LAST, NAME, TRANSFORM, ran_windowed
from tests.support.patient import Patient
from tests.support.runbook_pages import runbook_pages
from tests.support.runbook_story import Refused, Story, Told, Warned, each_story

PLAN = "tidemill checkpoint repartition PIPELINE PARTITIONS"
REPARTITION = PLAN + " --reason TEXT --apply"
CHECK = "tidemill upgrade check PIPELINE"
CKPT = "TIDE-CKPT-"
ACKNOWLEDGE = "tidemill checkpoint acknowledge PIPELINE"
FROM_EARLIEST = "tidemill checkpoint reset PIPELINE --from earliest --reason TEXT --apply"


def outgrown(patient: Patient) -> None:
    """Prepare a pipeline file that still has 2 partitions, and an unfinished newest batch."""
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


def transform_changed(patient: Patient) -> None:
    """Deploy another transform, whose sums differ."""
    ran_windowed(patient)
    file = patient.drivers.folder / "spark_apps/transforms/windowed.py"
    file.write_text(TRANSFORM.replace('F.sum("value")', 'F.sum(F.abs("value"))'))


def windows_changed(patient: Patient) -> None:
    """Deploy a transform with other windows, which the state does not have."""
    transform_changed(patient)
    file = patient.drivers.folder / "spark_apps/transforms/windowed.py"
    file.write_text(TRANSFORM.replace('"5 minutes"', '"10 minutes", "1 minute"'))


def last_batch_is_finished(patient: Patient) -> None:
    patient.put_back()


def idle(patient: Patient) -> None:
    """Let the next driver find nothing to read."""
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
    Story(
        "pipeline-changed",
        "code",
        transform_changed,
        (CKPT + "093",),
        [ACKNOWLEDGE, ACKNOWLEDGE + " --reason TEXT --apply"],
        goes_on=False,
    ),
    Story(
        "pipeline-changed",
        "code, by windows of another length",
        windows_changed,
        (CKPT + "093",),
        [Refused(ACKNOWLEDGE, "TIDE-CTRL-081"), Warned(CHECK, "TIDE-CTRL-081"), FROM_EARLIEST],
        goes_on=False,
    ),
]


@each_story(STORIES)
def test_the_pages_commands_end_what_the_page_is_about(story: Story, patient: Patient) -> None:
    Told(story, runbook_pages()[story.page], patient).tell()
