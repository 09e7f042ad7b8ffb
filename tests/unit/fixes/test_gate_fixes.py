"""The command that the fix of a refused start names ends the refusal."""

from __future__ import annotations

import json
from collections.abc import Callable

from tests.support.followed_fixes import Trouble, each, gate, raised
from tests.support.patient import Patient
from tests.support.spark_errors import StreamingQueryException
from tests.unit.runbooks import test_checkpoint_pages as tables
from tests.unit.runbooks import test_damage_pages as damage
from tests.unit.runbooks import test_doctor_pages as holds
from tests.unit.runbooks import test_driver_pages as drivers
from tests.unit.runbooks import test_rewind_pages as rewinds
from tests.unit.runbooks import test_source_pages as sources
from tests.unit.runbooks import test_state_pages as states
from tests.unit.runbooks import test_write_pages as backfills
from tidemill.engine.availability import failure_of

REWIND, RESTORE, RESET = "checkpoint rewind", "checkpoint restore", "checkpoint reset"
CKPT = "TIDE-CKPT-"
# A reset from the earliest offset reads the first ten records again.
AGAIN = [*range(30), *range(10)]


def backfilled_and_begun(patient: Patient) -> None:
    """Begin the checkpoint with a driver that was fenced before its first batch."""
    backfills.filled_before_the_first_start(patient)
    patient.has_broker()
    initial = patient.checkpoint / "sources/0/0"
    initial.parent.mkdir(parents=True)
    initial.write_bytes(b"\0v1\n" + json.dumps({"orders": {"0": 0}}).encode())


def only_offsets_torn(patient: Patient) -> None:
    """Plan the first batch and truncate its file; no batch is finished."""
    patient.declare()
    patient.has_broker()
    number = patient.batches.plan()
    (patient.checkpoint / f"offsets/{number}").write_text("v1\n")


def nothing_but_state(patient: Patient) -> None:
    """Delete all files of batches by hand, and restore the table to its first version."""
    states.ran_windowed(patient)
    patient.forget_batches_after(-1)


def all_taken_back(patient: Patient) -> None:
    """Remove the rows of the table and the batches of the checkpoint by hand."""
    patient.ran(3)
    patient.has_broker()
    patient.restore_table_by_hand(0)
    patient.forget_batches_after(-1)


def twin_and_backup(patient: Patient) -> None:
    damage.orphan_twin(patient)
    (patient.checkpoint / "offsets/.4.crc").unlink()
    patient.has_backup()
    (patient.checkpoint / "offsets/.4.crc").write_bytes(b"crc\0")


def met(condition: str) -> Callable[[Patient], None]:
    """Let Spark fail with an error that the gate cannot see, because the damage came after its check."""

    def meet(patient: Patient) -> None:
        words = f"[{condition}] It does not go on. SQLSTATE: 42K03"
        if gate(patient).keys() & {CKPT + "007", CKPT + "016", CKPT + "093"}:
            raise failure_of(patient.pipeline, StreamingQueryException(words))

    return meet


TROUBLES = [
    Trouble(CKPT + "001", "a folder was copied", damage.copied_from, RESTORE, rows=range(40)),
    Trouble(CKPT + "002", "newer state was left behind", states.state_left_behind, REWIND),
    Trouble(CKPT + "002", "state without batches", nothing_but_state, RESET),
    Trouble(CKPT + "003", "the topic was changed", damage.another_topic, RESET, rows=AGAIN),
    Trouble(CKPT + "004", "an older copy was put back", tables.older_copy, REWIND, rows=range(30)),
    Trouble(CKPT + "004", "an older copy was put back", tables.older_copy, RESTORE, rows=range(30)),
    Trouble(CKPT + "005", "the table was restored", tables.restored_by_hand, REWIND, rows=range(30)),
    Trouble(CKPT + "005", "the table was dropped", tables.dropped, RESET, rows=range(10)),
    Trouble(CKPT + "007", "torn offsets", damage.torn("offsets/3"), "checkpoint repair", rows=range(50)),
    Trouble(CKPT + "007", "torn offsets of a first batch", only_offsets_torn, RESET, rows=range(10)),
    Trouble(CKPT + "007", "a torn commit", damage.torn("commits/3"), REWIND, rows=range(40)),
    Trouble(CKPT + "007", "a torn commit", damage.torn("commits/3"), RESTORE, rows=range(50)),
    Trouble(CKPT + "009", "a backfill came first", backfilled_and_begun, RESET, rows=range(20, 30)),
    Trouble(CKPT + "010", "metadata is lost", damage.lost("metadata"), RESTORE, rows=range(50)),
    Trouble(CKPT + "011", "commits are lost", damage.lost("commits/2", "commits/3"), RESTORE, rows=range(50)),
    Trouble(CKPT + "012", "offsets are lost", damage.lost("offsets/3"), REWIND, rows=range(40)),
    Trouble(CKPT + "012", "offsets are lost", damage.lost("offsets/3"), RESTORE, rows=range(50)),
    Trouble(CKPT + "013", "a checksum without its batch", damage.orphan_twin, REWIND, rows=range(50)),
    Trouble(CKPT + "013", "a checksum without its batch", twin_and_backup, RESTORE, rows=range(50)),
    Trouble(CKPT + "015", "sources are lost", damage.lost("sources"), RESTORE, rows=range(50)),
    Trouble(CKPT + "016", "the newest state is lost", states.newest_state_lost, REWIND),
    Trouble(CKPT + "016", "all state is lost", states.all_state_lost, RESTORE),
    Trouble(CKPT + "017", "other offsets", tables.zombie, "checkpoint repair", rows=range(40)),
    Trouble(
        CKPT + "018",
        "table and checkpoint were taken back",
        tables.restored_with_the_checkpoint,
        REWIND,
        rows=range(30),
    ),
    Trouble(CKPT + "018", "all was taken back", all_taken_back, RESET, rows=range(10)),
    Trouble(
        CKPT + "019",
        "rows of a generation that was left",
        drivers.old_rows_were_brought_back,
        "ledger",
        shows="rewind-",
    ),
    Trouble(
        CKPT + "019",
        "rows of a generation that was left",
        drivers.old_rows_were_brought_back,
        REWIND,
        values={"vN": "v2"},
        rows=range(30),
    ),
    Trouble(CKPT + "020", "retention has removed records", sources.retention_expired, RESET),
    Trouble(CKPT + "021", "the topic was made again", sources.topic_made_again, RESET, rows=AGAIN),
    Trouble(CKPT + "021", "the topic was truncated", sources.topic_truncated, RESET, rows=AGAIN),
    Trouble(CKPT + "022", "partitions are gone", sources.fewer_partitions, RESET),
    Trouble(CKPT + "023", "the table to read is another", sources.source_made_again, RESET, rows=()),
    Trouble(CKPT + "025", "the source is another", sources.another_source, RESET, rows=range(30)),
    Trouble(CKPT + "027", "the event time is another", states.event_time_changed, RESET),
    Trouble(CKPT + "029", "a hold", holds.held, "checkpoint release", rows=range(40)),
    Trouble(
        CKPT + "091",
        "the newest commits are cut",
        tables.log_tail_damaged,
        RESTORE,
        first=tables.move_the_damaged_files_away,
        rows=range(30),
    ),
    Trouble(
        CKPT + "092",
        "the table was restored while it ran",
        rewinds.hole,
        REWIND,
        values={"BATCH": "0"},
        rows=range(20),
    ),
    Trouble(
        CKPT + "095", "the topic is on another cluster", sources.another_cluster, RESET, first=sources.moved
    ),
    Trouble(CKPT + "097", "the state store is another", states.state_store_changed, RESET),
    Trouble(
        CKPT + "106",
        "files of state are damaged",
        states.newest_state_lost,
        RESTORE,
        seen=raised(met("CANNOT_LOAD_STATE_STORE.UNCATEGORIZED")),
    ),
    Trouble(
        CKPT + "107",
        "the transform is another",
        states.transform_changed,
        RESET,
        seen=raised(met("STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE")),
    ),
    Trouble(
        CKPT + "108",
        "a file was torn",
        damage.torn("commits/3"),
        "checkpoint inspect",
        seen=raised(met("MALFORMED_LOG_FILE")),
        shows=CKPT + "007",
    ),
    Trouble(
        CKPT + "108",
        "a file was torn",
        damage.torn("commits/3"),
        "checkpoint gate",
        seen=raised(met("MALFORMED_LOG_FILE")),
        shows="checkpoint rewind orders --to 2",
        exit_code=1,
    ),
    Trouble(CKPT + "098", "continuous processing ran", sources.noted_without_batches, RESET),
]


@each(TROUBLES)
def test_the_command_of_the_fix_lets_the_pipeline_start(trouble: Trouble, patient: Patient) -> None:
    trouble.follow(patient)
