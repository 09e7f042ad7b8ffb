"""The command that the fix of a doctor finding, or of a warning, names solves the problem."""

from __future__ import annotations

from tests.support.followed_fixes import Trouble, doctor, each
from tests.support.grown_state import write_grown_state
from tests.support.patient import ORDERS, Patient
from tests.unit.runbooks import test_doctor_pages as pages
from tests.unit.runbooks import test_driver_pages as drivers
from tests.unit.runbooks import test_rewind_pages as rewinds
from tests.unit.runbooks import test_tuning_pages as tuning

CKPT = "TIDE-CKPT-"


def interrupted_writes(patient: Patient) -> None:
    pages.healthy(patient)
    patient.patch.setattr("tidemill.checkpoint.doctor.rules.MANY_LEFTOVERS", 3)
    for number in range(3):
        (patient.checkpoint / f"offsets/.{number}.0a-1b.tmp").write_bytes(b"")


def copy_moved_away(patient: Patient) -> None:
    """Move the copy away, and declare another pipeline for which a fork is made."""
    pages.move_the_copy_away(patient)
    rewinds.wants_a_shadow(patient)
    rewinds.other_table(patient)
    patient.values["FORK"] = "shadow"


def state_grows(patient: Patient) -> None:
    pages.healthy(patient)
    patient.declare(ORDERS + "event_time: {column: kafka_timestamp, watermark: 1 hour}\n")
    write_grown_state(patient.checkpoint)


def old_file_gone(patient: Patient) -> None:
    patient.ran(6)
    (patient.checkpoint / "offsets/2").unlink()


def condition_changed(patient: Patient) -> None:
    patient.ran(3)
    patient.has_broker()
    patient.redeclare("bronze/orders}", "bronze/orders, where: kafka_offset > 3}")


def batches_come_fast(patient: Patient) -> None:
    """Write twelve batches in a second, for a stream with a trigger of an hour."""
    patient.patch.setattr("tidemill.checkpoint.retention.rule.MIN_BATCHES", 1)
    patient.ran(12, ORDERS + "run: {trigger: 1 hour, rewindable: 1 hour}\n")


TROUBLES = [
    Trouble(CKPT + "011", "a file of an old batch is gone", old_file_gone, "checkpoint backup", remains=True),
    Trouble(CKPT + "051", "a generation was never live", pages.never_live, "checkpoint prune", seen=doctor),
    Trouble(CKPT + "051", "drivers die often", interrupted_writes, "status", seen=doctor, shows="orders"),
    Trouble(
        CKPT + "052",
        "a copy made by hand",
        pages.copied_by_hand,
        "checkpoint fork",
        seen=doctor,
        first=copy_moved_away,
    ),
    Trouble(
        CKPT + "053", "an old driver writes", drivers.old_driver_writes, "ledger", seen=doctor, shows="run-1"
    ),
    Trouble(CKPT + "054", "too many files", pages.crowded, "checkpoint prune", seen=doctor, remains=True),
    Trouble(CKPT + "055", "state only grows", state_grows, "checkpoint inspect", seen=doctor, shows="dedupe"),
    Trouble(CKPT + "056", "no backup", pages.healthy, "checkpoint backup", seen=doctor),
    Trouble(CKPT + "058", "a hold", pages.held, "checkpoint release", seen=doctor),
    Trouble(
        CKPT + "064", "batches come fast", batches_come_fast, "checkpoint backup", seen=doctor, remains=True
    ),
    Trouble(
        CKPT + "094",
        "a condition was changed",
        condition_changed,
        "backfill plan",
        shows="30 records",
    ),
    Trouble("TIDE-TUNE-013", "many small files", tuning.makes_a_file_a_batch, "table maintain", seen=doctor),
]


@each(TROUBLES)
def test_the_command_of_the_fix_helps(trouble: Trouble, patient: Patient) -> None:
    trouble.follow(patient)
