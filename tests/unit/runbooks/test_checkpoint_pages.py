"""Pages about a checkpoint that disagrees with its tables."""

from __future__ import annotations

import json
import shutil

from tests.support.patient import ORDERS, TABLE, Patient
from tests.support.runbook_acts import put_back, rows
from tests.support.runbook_pages import runbook_pages
from tests.support.runbook_story import Act, Refused, Story, Told, each_story

LEDGER = "tidemill ledger PIPELINE"
INSPECT = "tidemill checkpoint inspect PIPELINE"
REWIND = "tidemill checkpoint rewind PIPELINE --to BATCH --reason TEXT --apply"
RESTORE = "tidemill checkpoint restore PIPELINE BACKUP --reason TEXT --apply"
FROM_EARLIEST = "tidemill checkpoint reset PIPELINE --from earliest --reason TEXT --apply"
REPAIR = "tidemill checkpoint repair PIPELINE"
REPAIR_NOW = "tidemill checkpoint repair PIPELINE --reason TEXT --apply"
TWO_TABLES = ORDERS + "  - delta: {table: silver/orders}\n"
BEHIND, AHEAD, DAMAGED = "checkpoint-behind-table", "checkpoint-ahead-of-table", "checkpoint-damaged"
ANOTHER, DIFFER, REPAIRS = "checkpoint-of-another-pipeline", "checkpoint-offsets-differ", "repair-offsets"
LOG = "table-log-damaged"
START = "tidemill start PIPELINE"
CKPT = "TIDE-CKPT-"


def torn(*names: str, content: bytes = b"v1\n") -> Act:
    def tear(patient: Patient) -> None:
        patient.ran(4)
        patient.has_backup()
        for name in names:
            (patient.checkpoint / name).write_bytes(content)

    return tear


def older_copy(patient: Patient) -> None:
    patient.ran(2)
    patient.has_backup()
    patient.went_on(3)
    patient.forget_batches_after(1)
    patient.values["OFFSETS"] = json.dumps({"orders": {"0": 50}})


def older_copy_while_a_newer_exists(patient: Patient) -> None:
    patient.ran(5)
    patient.put_back = patient.keep(patient.checkpoint)
    patient.forget_batches_after(1)


def restored_by_hand(patient: Patient) -> None:
    patient.ran(5)
    patient.put_back = lambda: patient.restore_table_by_hand(5)
    patient.restore_table_by_hand(2)


def restored_with_the_checkpoint(patient: Patient) -> None:
    restored_by_hand(patient)
    patient.forget_batches_after(1)


def dropped(patient: Patient) -> None:
    patient.ran(3)
    patient.has_broker()
    shutil.rmtree(patient.table())


def zombie(patient: Patient) -> None:
    """Let a fenced driver overwrite the newest file."""
    patient.ran(3)
    overwrite(patient, 2, 37)


def overwrite(patient: Patient, batch_id: int, end: int) -> None:
    file = patient.checkpoint / f"offsets/{batch_id}"
    *head, _ = file.read_text().splitlines()
    file.write_text("\n".join([*head, json.dumps({"orders": {"0": end}})]))


def tables_contradict(patient: Patient) -> None:
    """Let two drivers write one batch, each to a different table with different offsets."""
    patient.ran(2, TWO_TABLES)
    number = patient.batches.plan()
    patient.batches.write(number, TABLE)
    overwrite(patient, number, 37)
    patient.batches.write(number, "silver/orders")
    patient.batches.finish(number)


def all_newest_torn(patient: Patient) -> None:
    torn("offsets/1", "offsets/2", "offsets/3")(patient)


def restores_it(patient: Patient) -> None:
    """Restore the backup as the runbook restore-checkpoint says."""
    assert patient.run(RESTORE) == 0, patient.tidemill.err


def log_file_lost(patient: Patient) -> None:
    patient.ran(5)
    patient.has_broker()
    log = patient.table() / "_delta_log"
    patient.put_back = patient.keep(log)
    (log / f"{3:020}.json").unlink()


def table_moved_away(patient: Patient) -> None:
    patient.table().rename(patient.drivers.folder / "moved")


def log_tail_damaged(patient: Patient) -> None:
    """Truncate the newest commits of the table; earlier ones are complete."""
    patient.ran(2)
    patient.has_backup()
    patient.went_on(2)
    for version in (3, 4):
        (patient.table() / f"_delta_log/{version:020}.json").write_text("{")


def move_the_damaged_files_away(patient: Patient) -> None:
    for version in (3, 4):
        name = f"{version:020}.json"
        (patient.table() / "_delta_log" / name).rename(patient.drivers.folder / name)
    assert "TIDE-CKPT-005" in patient.findings()


STORIES = [
    Story(
        BEHIND,
        "an older copy was put back, a newer one exists",
        older_copy_while_a_newer_exists,
        (CKPT + "004",),
        [LEDGER, INSPECT, put_back, START],
        over=rows(60),
    ),
    Story(BEHIND, "an older copy was put back", older_copy, (CKPT + "004",), [REWIND, START], over=rows(30)),
    Story(
        BEHIND,
        "an older copy was put back, there is a backup",
        older_copy,
        (CKPT + "004",),
        [RESTORE, START],
        over=rows(30),
    ),
    Story(
        BEHIND,
        "the checkpoint was deleted",
        older_copy,
        (CKPT + "004",),
        [
            "tidemill ledger PIPELINE --json",
            "tidemill checkpoint reset PIPELINE --from OFFSETS --reason TEXT --apply",
            START,
        ],
        over=rows(60),
    ),
    Story(
        AHEAD,
        "the table was restored by mistake",
        restored_by_hand,
        (CKPT + "005",),
        [LEDGER, put_back, START],
        over=rows(60),
    ),
    Story(
        AHEAD,
        "the table was restored on purpose",
        restored_by_hand,
        (CKPT + "005",),
        [REWIND, START],
        over=rows(30),
    ),
    Story(
        AHEAD,
        "table and checkpoint were taken back by hand",
        restored_with_the_checkpoint,
        (CKPT + "018",),
        [REWIND, START],
        over=rows(30),
    ),
    Story(AHEAD, "the table was dropped", dropped, (CKPT + "005",), [FROM_EARLIEST, START], over=rows(10)),
    Story(
        DIFFER,
        "a zombie has overwritten the newest offsets",
        zombie,
        (CKPT + "017",),
        ["tidemill status PIPELINE", REPAIR, REPAIR_NOW, START],
        over=rows(40),
    ),
    Story(
        REPAIRS,
        "a zombie has overwritten the newest offsets",
        zombie,
        (CKPT + "017",),
        [REPAIR, "tidemill stop PIPELINE", REPAIR_NOW, "tidemill start PIPELINE"],
        over=rows(40),
    ),
    Story(
        REPAIRS,
        "two tables contradict each other",
        tables_contradict,
        (CKPT + "017",),
        [Refused(REPAIR, CKPT + "083"), REWIND],
    ),
    Story(
        REPAIRS,
        "all newest offsets are torn",
        all_newest_torn,
        (CKPT + "007",),
        [
            Refused(REPAIR, CKPT + "084"),
            "tidemill checkpoint restore PIPELINE",
            restores_it,
        ],
    ),
    Story(LOG, "a file is missing", log_file_lost, (CKPT + "091",), [put_back, START], over=rows(60)),
    Story(
        LOG,
        "the newest commits are cut",
        log_tail_damaged,
        (CKPT + "091",),
        [Refused(REWIND, "TIDE-LEDG-001"), move_the_damaged_files_away, REWIND, START],
        over=rows(30),
    ),
    Story(
        LOG,
        "the newest commits are cut, there is a backup",
        log_tail_damaged,
        (CKPT + "091",),
        [move_the_damaged_files_away, RESTORE, START],
        over=rows(30),
    ),
    Story(
        LOG,
        "nothing brings the log back",
        log_file_lost,
        (CKPT + "091",),
        [table_moved_away, FROM_EARLIEST, START],
        over=rows(10),
    ),
]


@each_story(STORIES)
def test_the_pages_commands_end_what_the_page_is_about(story: Story, patient: Patient) -> None:
    Told(story, runbook_pages()[story.page], patient).tell()
