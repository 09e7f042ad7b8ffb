"""A batch that the table holds already, met by either writer; what decides is in tests/unit/sinks."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.commits import commit_of, handed_over, planned_otherwise
from tests.support.writer_cases import WriterCase
from tidemill.errors import GateRefusedError, TidemillError
from tidemill.ledger.table_restore import restore_through_delta_rs
from tidemill.sinks.batch_commit import BatchCommit, Written


def left(case: WriterCase) -> tuple[int, set[Any]]:
    """Return the table version and files, which a refused write may not change."""
    return case.table.version(), set(case.path.rglob("*.parquet"))


def refusal(case: WriterCase, commit: BatchCommit) -> str:
    before = left(case)
    with pytest.raises(TidemillError) as raised:
        case.writer().write(case.frame((100, "x")), commit)
    assert left(case) == before
    return raised.value.error_id


def write_three(case: WriterCase) -> None:
    """Write batches 0 to 2, with one row each."""
    for batch_id in range(3):
        case.writer().write(case.frame((batch_id, "a")), commit_of(batch_id))


def test_a_driver_that_must_not_write_ends_before_it_writes_a_file(case: WriterCase) -> None:
    write_three(case)
    assert refusal(case, planned_otherwise(commit_of(2, driver="driver-2"))) == "TIDE-RUN-004"
    restore_through_delta_rs(handed_over(case.path, 2, 3))
    assert [refusal(case, commit_of(batch_id)) for batch_id in (2, 3)] == ["TIDE-RUN-003"] * 2
    assert case.ids() == [0, 1]


@pytest.mark.soak
def test_a_driver_writes_no_batch_on_top_of_one_that_was_restored_away(case: WriterCase) -> None:
    writer = case.writer()
    for batch_id in range(3):
        writer.write(case.frame((batch_id, "a")), commit_of(batch_id))
    case.spark.sql(f"RESTORE TABLE delta.`{case.path}` TO VERSION AS OF 2").collect()
    with pytest.raises(GateRefusedError) as taken:
        writer.write(case.frame((3, "a")), commit_of(3))
    assert (taken.value.error_id, taken.value.facts["batch_id"]) == ("TIDE-SINK-006", 2)
    assert case.ids() == [0, 1]


@pytest.mark.soak
def test_a_batch_whose_transaction_has_expired_is_known_by_its_entry(spark_case: WriterCase) -> None:
    case = spark_case
    write_three(case)
    table = f"delta.`{case.path}`"
    # Delta forgets transactions of that age whenever it writes a checkpoint of the log.
    forget = "'delta.setTransactionRetentionDuration' = 'interval 1 milliseconds'"
    case.spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ({forget}, 'delta.checkpointInterval' = '1')")
    case.spark.sql(f"INSERT INTO {table} VALUES (100, 'by hand')").collect()
    assert case.table.transaction_version(commit_of(0).app_id) is None
    again = case.writer().write(case.frame((2, "a")), commit_of(2, driver="driver-2"))
    assert again == Written(committed=False)
    assert refusal(case, planned_otherwise(commit_of(2))) == "TIDE-RUN-004"
    assert refusal(case, commit_of(1)) == "TIDE-RUN-004"
    assert case.writer().write(case.frame((3, "a")), commit_of(3)).committed
    assert case.ids() == [0, 1, 2, 3, 100]
