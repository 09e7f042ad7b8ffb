"""Pages about backups: taking one, and going back to it."""

from __future__ import annotations

import shutil

import pyarrow as pa
from deltalake import write_deltalake

from tests.support.paper_batches import PaperBatches
from tests.support.patient import TABLE, Patient
from tests.support.runbook_acts import has_backup, put_back, ran, rows
from tests.support.runbook_pages import runbook_pages
from tests.support.runbook_story import Refused, Story, Told, each_story
from tests.support.small_project import ENVIRONMENT
from tidemill.spec.project import load_environment, resolve_pipeline
from tidemill.spec.project_folder import Project

STOP = "tidemill stop PIPELINE"
START = "tidemill start PIPELINE"
INSPECT = "tidemill checkpoint inspect PIPELINE"
BACKUP = "tidemill checkpoint backup PIPELINE"
BACK_UP_NOW = "tidemill checkpoint backup PIPELINE --reason TEXT --apply"
BACKUPS = "tidemill checkpoint restore PIPELINE"
PLAN_RESTORE = "tidemill checkpoint restore PIPELINE BACKUP"
RESTORE = PLAN_RESTORE + " --reason TEXT --apply"
RESTORE_ELSEWHERE = (
    "tidemill --env OTHER checkpoint restore PIPELINE BACKUP --from-env THIS --reason TEXT --apply"
)

CKPT = "TIDE-CKPT-"


def doctor_of(patient: Patient) -> list[str]:
    return list(patient.doctor())


def damaged(patient: Patient) -> None:
    patient.ran(3)
    file = patient.checkpoint / "offsets/2"
    patient.put_back = patient.keep(file)
    file.unlink()


def never_ran(patient: Patient) -> None:
    patient.declare()


def backup_is_damaged(patient: Patient) -> None:
    """Make two backups and damage the newer one."""
    patient.ran(2)
    patient.values["OLDER"] = patient.has_backup()
    patient.went_on()
    newer = patient.has_backup()
    (patient.state / f"backups/{newer}/checkpoint/offsets/2").write_text("cut")


def the_older_backup(patient: Patient) -> None:
    patient.values["BACKUP"] = patient.values["OLDER"]


def no_such_backup(patient: Patient) -> None:
    patient.values["RIGHT"], patient.values["BACKUP"] = patient.values["BACKUP"], "20200101t000000000000z"


def the_right_backup(patient: Patient) -> None:
    patient.values["BACKUP"] = patient.values["RIGHT"]


def others_wrote(patient: Patient) -> None:
    """Append rows of another writer after the backup and after batch 1."""
    has_backup(patient)
    assert patient.run(STOP) == 0
    write_deltalake(str(patient.table()), pa.table({"id": [10_000]}), mode="append")


def a_newer_backup(patient: Patient) -> None:
    patient.has_backup()


def another_environment(patient: Patient) -> None:
    """Copy the tables to a second environment, without the checkpoint."""
    patient.ran(3)
    patient.has_backup()
    patient.values |= {"OTHER": "other", "THIS": "local"}
    folder = patient.drivers.folder
    (folder / "conf/environments/other.yaml").write_text(ENVIRONMENT.replace(".data", ".other"))


def carry_the_tables(patient: Patient) -> None:
    folder = patient.drivers.folder
    shutil.copytree(folder / ".data/tables", folder / ".other/tables")


def goes_on_in_the_other(patient: Patient) -> None:
    other = load_environment(Project(patient.drivers.folder), "other", {})
    batches = PaperBatches(resolve_pipeline(other, "orders"))
    batches.admit()
    batches.run()
    assert batches.ids(TABLE) == list(range(40))


STORIES = [
    Story(
        "backup-checkpoint",
        "there is none",
        ran(3),
        (CKPT + "056",),
        [BACKUP, BACK_UP_NOW],
        seen=doctor_of,
    ),
    Story(
        "backup-checkpoint",
        "the checkpoint is not whole",
        damaged,
        (),
        [Refused(BACK_UP_NOW, CKPT + "049"), INSPECT, put_back, BACK_UP_NOW],
    ),
    Story(
        "backup-checkpoint",
        "it never ran",
        never_ran,
        (),
        [Refused(BACK_UP_NOW, CKPT + "048"), lambda patient: patient.went_on(), BACK_UP_NOW],
    ),
    Story(
        "restore-checkpoint",
        "tables must go back",
        has_backup,
        (),
        [BACKUPS, PLAN_RESTORE, "tidemill graph", STOP, RESTORE, START],
        over=rows(40),
    ),
    Story(
        "restore-checkpoint",
        "the newest one is damaged, one that is named is not there",
        backup_is_damaged,
        (),
        [
            Refused(RESTORE, CKPT + "047"),
            the_older_backup,
            no_such_backup,
            Refused(RESTORE, CKPT + "046"),
            the_right_backup,
            RESTORE,
            START,
        ],
        over=rows(30),
    ),
    Story(
        "restore-checkpoint",
        "others have written since",
        others_wrote,
        (),
        [Refused(RESTORE, CKPT + "040"), a_newer_backup, RESTORE, START],
    ),
    Story(
        "restore-checkpoint",
        "in another environment",
        another_environment,
        (),
        [
            Refused(RESTORE_ELSEWHERE, CKPT + "080"),
            carry_the_tables,
            RESTORE_ELSEWHERE,
        ],
        over=goes_on_in_the_other,
        goes_on=False,
    ),
]


@each_story(STORIES)
def test_the_pages_commands_end_what_the_page_is_about(story: Story, patient: Patient) -> None:
    Told(story, runbook_pages()[story.page], patient).tell()
