"""The table's log proves what operations, backups and the gate claim about it, on the real command line."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.support.paper_batches import PaperBatches
from tests.support.patient import ORDERS, Patient
from tidemill.errors import FencedError
from tidemill.spec.project import resolve_pipeline

TWO_TABLES = ORDERS + "  - delta: {table: silver/orders}\n"
FILES = ORDERS.replace(
    "{kafka: {topic: orders}}", "{files: {path: landing/orders, format: json, schema: id long}}"
)
READS_BRONZE = ORDERS.replace("{kafka: {topic: orders}}", "{delta: {table: bronze/raw}}")
APPLY = ("--reason", "a test", "--apply")


def verb(patient: Patient, name: str, *arguments: str, pipeline: str = "orders") -> int:
    return patient.tidemill("checkpoint", name, pipeline, *arguments, *APPLY)


def rewind(patient: Patient, batch_id: int, pipeline: str = "orders") -> int:
    return verb(patient, "rewind", "--to", str(batch_id), pipeline=pipeline)


def is_refused(patient: Patient, error_id: str) -> bool:
    # Files that were copied before may be reported first.
    return f"\n{error_id}  " in f"\n{patient.tidemill.err}"


def test_a_rewind_brings_back_what_a_restore_by_hand_took(patient: Patient) -> None:
    patient.ran(5)
    patient.restore_table_by_hand(2)
    assert rewind(patient, 3) == 0, patient.tidemill.err
    assert "bronze/orders: batches 2-3 come back" in patient.tidemill.out
    assert patient.ids() == list(range(40))
    patient.went_on()
    patient.batches.admit()
    assert patient.ids() == list(range(50))


def test_a_hole_in_a_table_is_never_a_base(patient: Patient) -> None:
    """Restored by hand while the driver ran, which has written on top of it."""
    patient.ran(4)
    patient.restore_table_by_hand(2)
    patient.went_on()
    assert patient.ids() == [*range(20), *range(40, 50)]
    assert rewind(patient, 4) == 1
    assert is_refused(patient, "TIDE-CKPT-092")
    assert "2-3" in patient.tidemill.err
    assert patient.batches.generation == "g0001"
    assert "TIDE-CKPT-092" in patient.findings()
    assert rewind(patient, 1) == 0, patient.tidemill.err
    assert patient.ids() == list(range(20))


def test_no_backup_is_taken_of_a_table_that_was_restored_by_hand(patient: Patient) -> None:
    patient.ran(4)
    patient.restore_table_by_hand(2)
    assert verb(patient, "backup") == 1
    assert is_refused(patient, "TIDE-CKPT-092")
    assert patient.tidemill.json("checkpoint", "restore", "orders") == []


def test_a_backup_brings_a_table_back_that_was_restored_by_hand(patient: Patient) -> None:
    patient.ran(4)
    backup = patient.has_backup()
    patient.restore_table_by_hand(2)
    assert verb(patient, "restore", backup) == 0, patient.tidemill.err
    assert patient.ids() == list(range(40))


VERBS: dict[str, Callable[[Patient], object]] = {
    "rewind": lambda patient: rewind(patient, 1),
    "reset": lambda patient: verb(patient, "reset", "--from", '{"orders": {"0": 30}}'),
    "restore": lambda patient: verb(patient, "restore", patient.values["BACKUP"]),
}


@pytest.fixture(params=VERBS)
def after_verb(request: pytest.FixtureRequest, patient: Patient) -> Patient:
    """Complete an operation without a following batch."""
    patient.ran(2)
    patient.has_backup()
    patient.went_on()
    assert VERBS[request.param](patient) == 0, patient.tidemill.err
    patient.batches.admit()
    return patient


def test_a_table_dropped_after_a_verb_is_missed_before_the_first_batch(after_verb: Patient) -> None:
    shutil.rmtree(after_verb.table())
    assert "TIDE-CKPT-005" in after_verb.findings()


def test_a_table_made_anew_after_a_verb_is_not_the_one_that_the_verb_saw(after_verb: Patient) -> None:
    shutil.rmtree(after_verb.table())
    write_deltalake(str(after_verb.table()), pa.table({"id": pa.array([], pa.int64())}))
    assert "TIDE-CKPT-005" in after_verb.findings()


def test_a_sink_added_after_a_verb_is_told_before_the_first_batch(after_verb: Patient) -> None:
    after_verb.declare(TWO_TABLES)
    assert "TIDE-CKPT-028" in after_verb.findings()


def test_a_restore_by_hand_after_a_verb_is_seen_before_the_first_batch(after_verb: Patient) -> None:
    after_verb.restore_table_by_hand(1)
    assert "TIDE-CKPT-005" in after_verb.findings()


def test_a_restore_by_hand_is_seen_behind_any_number_of_other_commits(patient: Patient) -> None:
    patient.ran(4)
    patient.restore_table_by_hand(2)
    for number in range(51):
        write_deltalake(str(patient.table()), pa.table({"id": [10_000 + number]}), mode="append")
    assert "TIDE-CKPT-005" in patient.findings()


def test_a_fork_is_not_rewound_below_what_it_was_copied_with(patient: Patient) -> None:
    patient.ran(4)
    patient.declare(ORDERS.replace("bronze/orders", "bronze/shadow"), "shadow")
    assert verb(patient, "fork", "shadow") == 0, patient.tidemill.err
    shadow = PaperBatches(resolve_pipeline(patient.drivers.environment, "shadow"))
    for _ in range(2):
        shadow.run()
    assert rewind(patient, 1, "shadow") == 1
    assert is_refused(patient, "TIDE-CKPT-072")
    assert rewind(patient, 3, "shadow") == 0, patient.tidemill.err
    assert shadow.ids("bronze/shadow") == list(range(40))
    shadow.admit()
    shadow.run()
    assert shadow.ids("bronze/shadow") == list(range(50))


def test_after_a_reset_an_old_driver_writes_no_more(patient: Patient) -> None:
    patient.ran(3)
    old = patient.batches
    number = old.plan()
    late = old.writes_later(number, "bronze/orders")
    skipping = ("reset", "--skip-unread", "--from", '{"orders": {"0": 40}}')
    assert verb(patient, *skipping) == 0, patient.tidemill.err
    with pytest.raises(FencedError) as fenced:
        late()
    assert fenced.value.error_id == "TIDE-RUN-003"
    patient.went_on()
    patient.batches.admit()
    assert patient.ids() == [*range(30), *range(40, 50)]


def reads_files(patient: Patient) -> None:
    """Write four batches, of one file each."""
    patient.declare(FILES)
    for number in range(4):
        file = patient.drivers.folder / f".data/landing/orders/{number}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text('{"id": 1}\n')
        patient.went_on()


def test_a_rewind_is_refused_if_files_that_come_next_are_gone(patient: Patient) -> None:
    reads_files(patient)
    (patient.drivers.folder / ".data/landing/orders/3.json").unlink()
    assert rewind(patient, 1) == 1
    assert is_refused(patient, "TIDE-CKPT-075")
    assert "3.json" in patient.tidemill.err
    assert patient.batches.generation == "g0001"
    assert rewind(patient, 3) == 0, patient.tidemill.err


def test_a_rewind_is_refused_if_versions_of_the_table_that_come_next_are_gone(patient: Patient) -> None:
    raw = str(patient.drivers.folder / ".data/tables/bronze/raw")
    patient.declare(READS_BRONZE)
    for number in range(4):
        write_deltalake(raw, pa.table({"id": [number]}), mode="append")
        patient.went_on()
    table = DeltaTable(raw)
    table.optimize.compact()
    table.vacuum(0, dry_run=False, enforce_retention_duration=False)
    assert rewind(patient, 1) == 1
    assert is_refused(patient, "TIDE-CKPT-075")
    assert patient.batches.generation == "g0001"


def files_are_gone(patient: Patient) -> None:
    table = DeltaTable(str(patient.table("silver/orders")))
    table.optimize.compact()
    table.vacuum(0, dry_run=False, enforce_retention_duration=False)


def source_is_gone(patient: Patient) -> None:
    patient.has_broker(first=30, end=100)


@pytest.mark.parametrize(
    ("gone", "error_id"), [(files_are_gone, "TIDE-CKPT-072"), (source_is_gone, "TIDE-CKPT-075")]
)
def test_a_restore_that_cannot_be_completed_touches_no_table(
    patient: Patient, gone: Callable[[Patient], object], error_id: str
) -> None:
    patient.ran(2, TWO_TABLES)
    backup = patient.has_backup()
    patient.went_on(3)
    gone(patient)
    assert verb(patient, "restore", backup) == 1
    assert is_refused(patient, error_id)
    assert patient.ids() == list(range(50))
    assert patient.tidemill.json("checkpoint", "release", "orders") == []


def test_a_batch_to_repeat_is_found_in_the_ledger_once_its_transaction_has_expired(patient: Patient) -> None:
    patient.ran(3)
    (patient.checkpoint / "commits/2").unlink()
    DeltaTable(str(patient.table())).alter.set_table_properties(
        {"delta.setTransactionRetentionDuration": "interval 1 milliseconds"}
    )
    assert (patient.findings(), patient.batches.run()) == ({}, 2)
    assert patient.ids() == list(range(30))


def test_the_anchor_carries_topic_ids_and_shape_over_a_verb(patient: Patient) -> None:
    patient.topic_ids = (("orders", "id-1"),)
    patient.ran(3)
    assert rewind(patient, 1) == 0, patient.tidemill.err
    patient.has_broker(ids={"orders": "id-2"})
    assert "TIDE-CKPT-021" in patient.findings()
    assert json.loads(patient.tidemill.out)["generation"] == "g0002"
