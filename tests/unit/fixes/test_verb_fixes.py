"""The command that the fix of a refused or interrupted operation names solves the problem."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from datetime import timedelta

from tests.support.followed_fixes import Seen, Trouble, asked, doctor, each, gate
from tests.support.patient import ORDERS, TABLE, Patient
from tests.support.runbook_story import Act
from tests.unit.runbooks import test_checkpoint_pages as tables
from tests.unit.runbooks import test_damage_pages as damage
from tests.unit.runbooks import test_procedure_pages as verbs
from tests.unit.runbooks import test_rewind_pages as rewinds
from tests.unit.runbooks import test_source_pages as sources
from tests.unit.runbooks import test_state_pages as states
from tidemill.backfill.row_origin import EventWindow, RowOrigin, keep_origin
from tidemill.checkpoint.epochs import claim_epoch
from tidemill.checkpoint.verbs import go_back

BY = ("--reason", "a test", "--apply")
REWIND, RESTORE, RESET = "checkpoint rewind", "checkpoint restore", "checkpoint reset"
CKPT = "TIDE-CKPT-"
AGAIN = [*range(30), *range(10)]


def verb(*words: str) -> Callable[[Patient], dict[str, str]]:
    return asked("checkpoint", words[0], "PIPELINE", *words[1:], *BY)


def then_a_broker(ill: Act) -> Act:
    def act(patient: Patient) -> None:
        ill(patient)
        patient.has_broker()

    return act


def ran_with_backup(patient: Patient) -> None:
    patient.ran(3)
    patient.has_backup()


def three_batches(patient: Patient) -> None:
    patient.ran(3)
    patient.has_broker()


def never_ran(patient: Patient) -> None:
    patient.declare()


def another_table(patient: Patient) -> None:
    """Drop the table after a rewind, and create it again."""
    patient.ran(3)
    patient.has_broker()
    assert patient.tidemill("checkpoint", "rewind", "orders", "--to", "1", *BY) == 0, patient.tidemill.err
    shutil.rmtree(patient.table())
    patient.went_on()


def files_torn(patient: Patient) -> None:
    patient.declare(sources.FILES)
    for number in range(3):
        sources.landed(patient, number)
        patient.batches.run()
    (patient.checkpoint / "offsets/2").write_text("v1\n")


def in_memory(patient: Patient) -> None:
    """Set up state of the in-memory store, and change the number of partitions in the file."""
    declaration = states.DECLARATION.replace(
        "shuffle_partitions: 2", "shuffle_partitions: 8, state_store: memory"
    )
    checkpoint = states.ran_windowed(patient, declaration)
    for file in (checkpoint / "offsets").glob("[0-9]*"):
        old = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        assert old in file.read_text()
        new = old.replace("RocksDBStateStore", "HDFSBackedStateStore")
        file.write_text(file.read_text().replace(old, new))


def verb_killed_a_while_ago(patient: Patient) -> None:
    verbs.verb_was_killed(patient)
    patient.patch.setattr("tidemill.checkpoint.procedure.sign_of_life.DEAD_AFTER", timedelta(seconds=-1))


def half_of_a_batch(patient: Patient) -> None:
    """Write the newest batch into its table, without a commit in the checkpoint."""
    patient.has_broker()
    code = patient.drivers.folder / "spark_apps/transforms/orders.py"
    code.parent.mkdir(parents=True)
    code.write_text("def transform(orders):\n    return orders\n")
    timed = ORDERS.replace("sinks:", "event_time: {column: kafka_timestamp, watermark: 1 minute}\nsinks:")
    patient.ran(1, timed + "transform: orders:transform\n")
    window = EventWindow(
        kind="tumbling", length=timedelta(hours=1), slide=timedelta(hours=1), start_columns=("id",)
    )
    keep_origin(patient.batches.store, patient.pipeline, RowOrigin(window=window, stateful=True))
    patient.batches.write(patient.batches.plan(), TABLE)


def reset_while(switch: Callable[[Patient, Callable[..., object]], Callable[..., object]]) -> Seen:
    """Run a reset whose step that switches generations is replaced once."""

    def reset(patient: Patient) -> Mapping[str, str]:
        with patient.patch.context() as patch:
            patch.setattr(go_back, "switch_generation", switch(patient, go_back.switch_generation))
            return verb("reset", "--from", '{"orders": {"0": 30}}')(patient)

    return reset


def overtaken(patient: Patient, switch: Callable[..., object]) -> Callable[..., object]:
    """Let a driver claim the pipeline before the switch."""

    def late(*arguments: object) -> object:
        claim_epoch(patient.plane.store, patient.plane.layout, "orders", "driver")
        return switch(*arguments)

    return late


def without_effect(_: Patient, __: Callable[..., object]) -> Callable[..., object]:
    """Return success without a change in the store."""
    return lambda *_: True


TROUBLES = [
    Trouble(
        CKPT + "046",
        "no such backup",
        ran_with_backup,
        RESTORE,
        seen=verb("restore", "nightly"),
        shows="nightly",
    ),
    Trouble(
        CKPT + "049",
        "a backup of a damaged checkpoint",
        states.newest_state_lost,
        "checkpoint inspect",
        seen=verb("backup"),
        shows="The state after batch 3 can still be loaded.",
    ),
    Trouble(
        CKPT + "070",
        "the batch is not held",
        three_batches,
        RESET,
        seen=verb("rewind", "--to", "99"),
        after=gate,
        rows=AGAIN,
    ),
    Trouble(
        CKPT + "072",
        "the version is gone",
        then_a_broker(rewinds.table_has_forgotten),
        RESET,
        seen=verb("rewind", "--to", "1"),
        after=gate,
        rows=[*range(50), *range(10)],
    ),
    Trouble(
        CKPT + "007",
        "the newest files are not known",
        files_torn,
        "checkpoint repair",
        seen=verb("rewind", "--to", "0"),
    ),
    Trouble(CKPT + "076", "it never ran", never_ran, "start", seen=verb("rewind", "--to", "0")),
    Trouble(
        CKPT + "080",
        "the table is another",
        another_table,
        RESET,
        seen=verb("rewind", "--to", "1"),
        after=gate,
    ),
    Trouble(CKPT + "081", "state in memory", in_memory, RESET, seen=verb("repartition", "8"), after=gate),
    Trouble(
        CKPT + "083",
        "two tables contradict",
        tables.tables_contradict,
        REWIND,
        seen=verb("repair"),
        rows=range(30),
    ),
    Trouble(
        CKPT + "084",
        "all newest offsets are torn",
        tables.all_newest_torn,
        RESTORE,
        seen=verb("repair"),
        rows=range(50),
    ),
    Trouble(
        CKPT + "092",
        "batches in the middle are gone",
        then_a_broker(rewinds.hole),
        RESET,
        seen=verb("rewind", "--to", "3"),
        after=gate,
    ),
    Trouble(
        CKPT + "103",
        "a batch is half finished",
        half_of_a_batch,
        "run",
        seen=verb("reset", "--from", "earliest", "--warm"),
    ),
    Trouble(
        CKPT + "104",
        "records would never be read",
        three_batches,
        "backfill plan",
        seen=verb("reset", "--from", "latest"),
        shows="To carry out exactly this",
    ),
    Trouble(
        CKPT + "039",
        "a driver started meanwhile",
        three_batches,
        "checkpoint release",
        seen=reset_while(overtaken),
        shows="reset",
    ),
    Trouble(
        CKPT + "039",
        "a driver started meanwhile",
        three_batches,
        RESET,
        seen=reset_while(overtaken),
        after=gate,
    ),
    Trouble(
        CKPT + "109",
        "a step had no effect",
        three_batches,
        RESET,
        seen=reset_while(without_effect),
        after=gate,
    ),
    Trouble(
        CKPT + "058",
        "a verb was killed",
        verb_killed_a_while_ago,
        RESET,
        seen=doctor,
        rows=[*range(30), *range(12, 22)],
    ),
    Trouble(
        CKPT + "007",
        "a torn file, met by a backup",
        damage.torn("offsets/3"),
        "checkpoint gate",
        seen=verb("backup"),
        shows="checkpoint repair orders",
        exit_code=1,
    ),
    Trouble(
        CKPT + "029", "a verb was killed", verbs.verb_was_killed, RESET, rows=[*range(30), *range(12, 22)]
    ),
]


@each(TROUBLES)
def test_the_command_of_the_fix_helps(trouble: Trouble, patient: Patient) -> None:
    trouble.follow(patient)
