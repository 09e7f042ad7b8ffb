"""Pages about rewinding without a backup, starting from the beginning, and trying things out in a copy."""

from __future__ import annotations

import json

import pyarrow as pa
from deltalake import DeltaTable, TableFeatures, write_deltalake

from tests.support.paper_batches import PaperBatches
from tests.support.patient import ORDERS, Patient
from tests.support.runbook_acts import chosen, has_backup, ran, rows, runs
from tests.support.runbook_pages import runbook_pages
from tests.support.runbook_story import Refused, Story, Told, each_story
from tidemill.spec.project import resolve_pipeline

LEDGER = "tidemill ledger PIPELINE"
STOP = "tidemill stop PIPELINE"
START = "tidemill start PIPELINE"
PLAN_RESTORE = "tidemill checkpoint restore PIPELINE BACKUP"
RESTORE = PLAN_RESTORE + " --reason TEXT --apply"
PLAN_REWIND = "tidemill checkpoint rewind PIPELINE --to BATCH"
REWIND = PLAN_REWIND + " --reason TEXT --apply"
FROM_OFFSETS = "tidemill checkpoint reset PIPELINE --from OFFSETS"
FROM_EARLIEST = "tidemill checkpoint reset PIPELINE --from earliest"
FROM_LATEST = "tidemill checkpoint reset PIPELINE --from latest"
APPLY = " --reason TEXT --apply"
FORK = "tidemill checkpoint fork PIPELINE NAME"
CKPT = "TIDE-CKPT-"
SHADOW = ORDERS.replace("bronze/orders", "bronze/shadow")


def never_ran(patient: Patient) -> None:
    patient.declare()


def partition_added(patient: Patient) -> None:
    """Let the newest batch read a second partition, which the wanted offsets leave out."""
    patient.ran(2)
    number = patient.batches.plan()
    file = patient.checkpoint / f"offsets/{number}"
    *head, _ = file.read_text().splitlines()
    file.write_text("\n".join([*head, json.dumps({"orders": {"0": 30, "1": 4}})]))
    patient.went_on()


def some_partitions_are_not_named(patient: Patient) -> None:
    verb = ("checkpoint", "reset", "orders", "--from", '{"orders": {"0": 12}}')
    assert patient.tidemill(*verb) == 2
    assert patient.tidemill.err.startswith(CKPT + "043")


def where_the_tables_stand(patient: Patient) -> None:
    patient.values["OFFSETS"] = json.dumps(patient.commits()[0]["sources"]["source"]["end"])


def no_such_beginning(patient: Patient) -> None:
    assert patient.tidemill("checkpoint", "reset", "orders", "--from", "yesterday") == 2
    assert patient.tidemill.err.startswith(CKPT + "044")


def others_wrote(patient: Patient) -> None:
    """Append rows of another writer after the backup and after batch 1."""
    has_backup(patient)
    assert patient.run(STOP) == 0
    write_deltalake(str(patient.table()), pa.table({"id": [10_000]}), mode="append")


def a_newer_backup(patient: Patient) -> None:
    patient.has_backup()


def wants_a_shadow(patient: Patient) -> None:
    """Copy the pipeline's file, which still names the same table."""
    patient.ran(3)
    patient.declare(ORDERS, "shadow")
    patient.values["NAME"] = "shadow"


def other_table(patient: Patient) -> None:
    patient.declare(SHADOW, "shadow")


def has_deletion_vectors(patient: Patient) -> None:
    """Give the table deletion vectors, so that its rows are not those of its data files."""
    wants_a_shadow(patient)
    other_table(patient)
    alter = DeltaTable(str(patient.table())).alter
    alter.add_feature([TableFeatures.DeletionVectors], allow_protocol_versions_increase=True)


def goes_on_without_a_fork(patient: Patient) -> None:
    patient.values["NAME"] = "orders"


def shadow_has_the_shared_batches(patient: Patient) -> None:
    ids = PaperBatches(resolve_pipeline(patient.drivers.environment, "shadow")).ids("bronze/shadow")
    assert ids == list(range(40))


def wrong_rows(patient: Patient) -> None:
    """Run a wrong transform since batch 2."""
    runs(patient)
    patient.values["BATCH"] = "1"


def hole(patient: Patient) -> None:
    """Restore the table while the pipeline runs and then writes to it."""
    patient.ran(3)
    patient.restore_table_by_hand(1)
    patient.went_on()
    patient.values["BATCH"] = "3"


def source_has_forgotten(patient: Patient) -> None:
    patient.ran(4)
    patient.has_broker(first=30, end=100)


def table_has_forgotten(patient: Patient) -> None:
    """Compact the files with OPTIMIZE, and remove the old ones with VACUUM."""
    patient.ran(5)
    table = DeltaTable(str(patient.table()))
    table.optimize.compact()
    table.vacuum(0, dry_run=False, enforce_retention_duration=False)


STORIES = [
    Story(
        "reset-checkpoint",
        "it goes on where the tables stand",
        runs,
        (),
        [LEDGER + " --json", where_the_tables_stand, FROM_OFFSETS, STOP, FROM_OFFSETS + APPLY, START],
        over=rows(50),
    ),
    Story(
        "reset-checkpoint",
        "records must be read again",
        runs,
        (),
        [FROM_EARLIEST, STOP, FROM_EARLIEST + APPLY, START],
        over=lambda patient: patient.ids() == sorted([*range(40), *range(10)]),
    ),
    Story(
        "reset-checkpoint",
        "records must be skipped",
        runs,
        (),
        [
            FROM_LATEST,
            STOP,
            FROM_LATEST + " --skip-unread" + APPLY,
            START,
            "tidemill backfill plan PIPELINE --from BEGIN --to END",
        ],
        over=lambda patient: patient.ids() == [*range(40), *range(1000, 1010)],
    ),
    Story(
        "reset-checkpoint",
        "unread records would be skipped, and nobody has agreed",
        runs,
        (),
        [STOP, Refused(FROM_LATEST + APPLY, CKPT + "104"), START],
        over=rows(50),
    ),
    Story(
        "reset-checkpoint",
        "its rows are of no windows",
        runs,
        (),
        [Refused(FROM_EARLIEST + " --warm", CKPT + "101"), STOP, START],
        over=rows(50),
    ),
    Story(
        "reset-checkpoint",
        "it never ran",
        never_ran,
        (),
        [lambda patient: patient.has_broker(), Refused(FROM_LATEST, CKPT + "041"), START],
    ),
    Story(
        "reset-checkpoint",
        "a partition is not named",
        partition_added,
        (),
        [some_partitions_are_not_named, START],
        by_hand=(CKPT + "043",),
    ),
    Story(
        "reset-checkpoint",
        "no such beginning",
        ran(2),
        (),
        [no_such_beginning, START],
        by_hand=(CKPT + "044",),
    ),
    Story(
        "rewind",
        "a wrong transform was at work since batch 2",
        wrong_rows,
        (),
        [LEDGER, STOP, PLAN_REWIND, REWIND, START],
        over=rows(30),
    ),
    Story(
        "rewind",
        "the batch is not held",
        has_backup,
        (),
        [chosen(99), Refused(REWIND, CKPT + "070"), STOP, RESTORE, START],
        over=rows(40),
    ),
    Story(
        "rewind",
        "others have written since",
        others_wrote,
        (),
        [Refused(REWIND, CKPT + "040"), chosen(4), a_newer_backup, START],
    ),
    Story(
        "rewind",
        "batches in the middle are gone",
        hole,
        (CKPT + "092",),
        [Refused(REWIND, CKPT + "092"), chosen(0), REWIND, START],
        over=rows(20),
    ),
    Story(
        "rewind",
        "the broker has forgotten what comes next",
        source_has_forgotten,
        (),
        [Refused(REWIND, CKPT + "075"), chosen(2), REWIND, START],
        over=rows(40),
    ),
    Story(
        "rewind",
        "the table's version is gone",
        table_has_forgotten,
        (),
        [Refused(REWIND, CKPT + "072"), chosen(4), REWIND, START],
        over=rows(60),
    ),
    Story(
        "fork",
        "a shadow is wanted",
        wants_a_shadow,
        (),
        [
            Refused(FORK, CKPT + "079"),
            other_table,
            "tidemill validate NAME",
            chosen(99),
            Refused(FORK + " --batch BATCH", CKPT + "070"),
            FORK,
            FORK + " --reason TEXT --apply",
            Refused(FORK + " --reason TEXT --apply", CKPT + "080"),
            "tidemill start NAME",
            "tidemill stop NAME",
        ],
        over=shadow_has_the_shared_batches,
        goes_on=False,
    ),
    Story(
        "fork",
        "a table has deletion vectors",
        has_deletion_vectors,
        (),
        [Refused(FORK, CKPT + "078"), goes_on_without_a_fork],
        goes_on=False,
    ),
]


@each_story(STORIES)
def test_the_pages_commands_end_what_the_page_is_about(story: Story, patient: Patient) -> None:
    Told(story, runbook_pages()[story.page], patient).tell()
