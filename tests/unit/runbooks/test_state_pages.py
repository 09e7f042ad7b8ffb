"""Pages about state, on what a real query has left. What needs Spark itself is in `tests/spark`."""

from __future__ import annotations

from tests.support.golden_patient import DECLARATION, LAST, NAME, TRANSFORM, ran_windowed
from tests.support.patient import Patient
from tests.support.runbook_acts import put_back
from tests.support.runbook_pages import runbook_pages
from tests.support.runbook_story import Refused, Story, Told, each_story

INSPECT = "tidemill checkpoint inspect PIPELINE"
REWIND = "tidemill checkpoint rewind PIPELINE --to BATCH --reason TEXT --apply"
RESTORE = "tidemill checkpoint restore PIPELINE BACKUP --reason TEXT --apply"
FROM_EARLIEST = "tidemill checkpoint reset PIPELINE --from earliest --reason TEXT --apply"
START = "tidemill start PIPELINE"
CKPT = "TIDE-CKPT-"
LOST, CHANGED = "checkpoint-state-lost", "pipeline-changed"


def newest_state_lost(patient: Patient) -> None:
    checkpoint = ran_windowed(patient)
    patient.has_backup()
    lose_versions(patient, LAST + 1)
    assert (checkpoint / "state").exists()


def lose_versions(patient: Patient, oldest: int) -> None:
    for file in (patient.checkpoint / "state").glob("*/*/*"):
        version = file.name.partition("_")[0]
        if version.isdecimal() and int(version) >= oldest:
            file.unlink()


def all_state_lost(patient: Patient) -> None:
    ran_windowed(patient)
    patient.has_backup()
    lose_versions(patient, 1)


def state_left_behind(patient: Patient) -> None:
    """Delete newer files of `offsets` and `commits` by hand, and restore the table."""
    ran_windowed(patient)
    patient.forget_batches_after(LAST - 3)
    patient.values["BATCH"] = str(LAST - 3)


def partitions_changed(patient: Patient) -> None:
    ran_windowed(patient, DECLARATION.replace("shuffle_partitions: 2", "shuffle_partitions: 8"))
    patient.put_back = lambda: patient.declare(DECLARATION, "windowed")


def state_store_changed(patient: Patient) -> None:
    in_memory = "shuffle_partitions: 2, state_store: memory"
    ran_windowed(patient, DECLARATION.replace("shuffle_partitions: 2", in_memory))
    patient.put_back = lambda: patient.declare(DECLARATION, "windowed")


def event_time_changed(patient: Patient) -> None:
    ran_windowed(patient, DECLARATION.replace("column: at", "column: seen_at"))
    patient.put_back = lambda: patient.declare(DECLARATION, "windowed")


def transform_changed(patient: Patient) -> None:
    """Deploy another transform, whose sums differ."""
    ran_windowed(patient)
    file = patient.drivers.folder / "spark_apps/transforms/windowed.py"
    patient.put_back = lambda: file.write_text(TRANSFORM)
    file.write_text(TRANSFORM.replace('F.sum("value")', 'F.sum(F.abs("value"))'))


def idle(patient: Patient) -> None:
    """Let the next driver ask the gate and find nothing to read, because writing would need Spark."""
    patient.drivers.behave(NAME, "idle")


STORIES = [
    Story(CHANGED, "code, by mistake", transform_changed, (CKPT + "093",), [put_back], goes_on=False),
    Story(CHANGED, "code, the old was wrong", transform_changed, (CKPT + "093",), [REWIND], goes_on=False),
    Story(
        LOST,
        "the newest state is lost",
        newest_state_lost,
        (CKPT + "016",),
        [
            INSPECT,
            lambda patient: patient.values.update(BATCH=str(LAST)),
            Refused(REWIND, CKPT + "075"),
            lambda patient: patient.values.update(BATCH=str(LAST - 1)),
            REWIND,
            idle,
            START,
        ],
        goes_on=False,
    ),
    Story(LOST, "no state is whole", all_state_lost, (CKPT + "016",), [RESTORE], goes_on=False),
    Story(LOST, "no backup", all_state_lost, (CKPT + "016",), [FROM_EARLIEST], goes_on=False),
    Story(LOST, "newer state was left behind", state_left_behind, (CKPT + "002",), [REWIND], goes_on=False),
    Story(CHANGED, "partitions, by mistake", partitions_changed, (CKPT + "026",), [put_back], goes_on=False),
    Story(
        CHANGED, "state store, by mistake", state_store_changed, (CKPT + "097",), [put_back], goes_on=False
    ),
    Story(CHANGED, "state store", state_store_changed, (CKPT + "097",), [FROM_EARLIEST], goes_on=False),
    Story(CHANGED, "event time, by mistake", event_time_changed, (CKPT + "027",), [put_back], goes_on=False),
    Story(CHANGED, "event time", event_time_changed, (CKPT + "027",), [FROM_EARLIEST], goes_on=False),
]


@each_story(STORIES)
def test_the_pages_commands_end_what_the_page_is_about(story: Story, patient: Patient) -> None:
    Told(story, runbook_pages()[story.page], patient).tell()
