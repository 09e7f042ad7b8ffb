"""`tidemill ledger` shows what batches did, and whether their rows are in the table still."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest
from deltalake import CommitProperties, write_deltalake

from tests.support.command_line import CommandLine
from tests.support.conf_project import ConfProject
from tests.support.patient import Patient
from tidemill.checkpoint.status import Status, write_status
from tidemill.ledger.entry import Code, ExpectationCounts, LedgerEntry
from tidemill.storage.store import Store


@pytest.mark.parametrize(
    ("sink", "expected"),
    [
        ("kafka: {topic: out}", "kafka:out keeps no ledger; `tidemill queries show orders` has its counts"),
        ("delta: {table: bronze/orders}", "no row of it reached a table or folder"),
        ("files: {path: exports, format: json}", "no row of it reached a table or folder"),
    ],
)
def test_a_pipeline_without_a_commit_in_a_ledger_is_told_with_its_batch(
    tidemill: CommandLine, project: ConfProject, sink: str, expected: str
) -> None:
    project.replace("delta: {table: bronze/orders}", sink)
    assert tidemill("ledger", "orders") == 0, tidemill.err
    assert tidemill.out == "orders has committed nothing yet\n"
    layout, now = project.load().layout, datetime(2026, 1, 1, tzinfo=UTC)
    ran = {
        "pipeline": "orders",
        "run_id": "r",
        "started_at": now,
        "updated_at": now,
        "batch_committed_at": now,
    }
    write_status(
        Store(layout.root), layout.status("orders"), Status(mode="stream", state="stopped", batch_id=4, **ran)
    )
    assert tidemill("ledger", "orders") == 0, tidemill.err
    assert tidemill.out == f"orders committed batch 4 at 2026-01-01 00:00:00 UTC; {expected}\n"


def test_a_batch_that_a_restore_has_taken_out_of_the_table_is_marked(patient: Patient) -> None:
    patient.ran(3)
    assert "taken back" not in out_of_ledger(patient)
    patient.restore_table_by_hand(2)
    assert "taken back" in out_of_ledger(patient)
    stands = {
        commit["entry"]["batch_id"]: commit["stands"] for commit in patient.tidemill.json("ledger", "orders")
    }
    assert stands == {0: True, 1: True, 2: False}


def out_of_ledger(patient: Patient) -> str:
    assert patient.tidemill("ledger", "orders") == 0, patient.tidemill.err
    return patient.tidemill.out


def test_violations_are_shown_by_the_names_of_their_expectations(
    tidemill: CommandLine, project: ConfProject
) -> None:
    counts = ExpectationCounts(
        checked=5, dropped=1, quarantined=2, violations={"known": 3, "sane": 0, "recent": 1}
    )
    entry = LedgerEntry(
        pipeline="orders",
        output="bronze/orders",
        mode="stream",
        run_id="r",
        batch_id=0,
        expectations=counts,
        code=Code(tidemill="0", digest="0", spec="0"),
    )
    metadata = CommitProperties(custom_metadata={"userMetadata": entry.to_text()})
    table = project.load().layout.table("bronze/orders")
    write_deltalake(table, pa.table({"id": ["a", "b"]}), commit_properties=metadata)
    assert tidemill("ledger", "orders") == 0
    assert "known 3, recent 1" in tidemill.out
    assert "sane" not in tidemill.out
    (commit,) = tidemill.json("ledger", "orders")
    assert ExpectationCounts.model_validate(commit["entry"]["expectations"]) == counts
    assert counts.written == 2
