"""Sources of the measured values: the driver's report and the checkpoint's offsets."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable, Schema
from deltalake.transaction import AddAction

from tests.support.checkpoints import write_planned
from tests.support.clinic import COLUMNS, Clinic
from tests.support.conf_project import ConfProject
from tests.support.measured_batches import progress
from tidemill.checkpoint.doctor.examine import Advised, advice_for
from tidemill.checkpoint.doctor.measured import Measured, MeasuredState
from tidemill.checkpoint.doctor.measured_table import MANY_SMALL_FILES, MeasuredTable, read_tables
from tidemill.checkpoint.doctor.read_measured import measured_of, read_measured
from tidemill.checkpoint.query_report import read_query_report
from tidemill.ledger.small_files import SMALL_FILE

LATE = "TIDE-TUNE-001"
SKEWED = "TIDE-TUNE-012"


@pytest.fixture
def clinic(tmp_path: Path) -> Clinic:
    return Clinic(ConfProject(tmp_path))


def reads_four_partitions(checkpoint: Path, batches: int, *, uneven: bool) -> None:
    """Write batches of 400 records each, from all partitions evenly, or nearly all from one."""
    step = {"0": 397, "1": 1, "2": 1, "3": 1} if uneven else dict.fromkeys("0123", 100)
    for batch_id in range(batches):
        ends = {partition: records * (batch_id + 1) for partition, records in step.items()}
        write_planned(checkpoint, batch_id, {"orders": ends})


def measured(clinic: Clinic, checkpoint: Path, commits: range) -> Measured:
    return read_measured(clinic.store, clinic.project.resolve(), str(checkpoint), commits)


def test_the_doctor_advises_by_what_the_driver_has_reported(clinic: Clinic) -> None:
    clinic.healthy(more="run: {trigger: 10 seconds}\n")
    assert LATE not in clinic.ids()
    clinic.measured(milliseconds=30_000)
    finding = clinic.finding(LATE)
    assert (finding.severity, finding.runbook, finding.facts["times"]) == ("warning", "tuning", 3.0)
    assert clinic.examine().is_healthy
    # After the declaration follows the advice, the finding disappears without new measurements.
    clinic.declare(more="run: {trigger: 45 seconds}\n")
    assert LATE not in clinic.ids()


def test_the_values_are_those_of_spark(clinic: Clinic) -> None:
    checkpoint = clinic.healthy()
    clinic.measured(milliseconds=2_000, rows=70, behind=1_200, sinks={"bronze/orders": 900}, reader="x")
    found = measured(clinic, checkpoint, range(3))
    assert (len(found.batches), found.milliseconds, found.rows, found.backlog) == (
        10,
        2_000,
        70,
        (1_200, 1_200),
    )
    batch = found.batches[0]
    assert (batch.work_milliseconds, batch.sinks, batch.reader) == (1_950, {"bronze/orders": 900}, "x")
    assert found.state is None


def test_state_and_dropped_rows_are_those_of_all_operators(clinic: Clinic) -> None:
    clinic.healthy()
    clinic.measured()
    operators = [
        {"numRowsTotal": n, "memoryUsedBytes": 10 * n, "commitTimeMs": n, "numRowsDroppedByWatermark": n}
        for n in (1, 2)
    ]
    newest = {**progress(0), "stateOperators": operators}
    idle = {**progress(1), "numInputRows": 0}
    report = read_query_report(clinic.store, clinic.project.load().layout, "orders")
    assert report is not None
    told = report.model_copy(update={"last_progress": newest, "recent_progress": (newest, idle)})
    found = measured_of(clinic.project.resolve(), told, {}, {})
    assert found.state == MeasuredState(3, 30, 3)
    assert [batch.dropped for batch in found.batches] == [3]


def test_what_each_partition_gave_is_told_of_the_newest_batches_without_a_report(clinic: Clinic) -> None:
    checkpoint = clinic.healthy(batches=12)
    reads_four_partitions(checkpoint, 12, uneven=True)
    (topic,) = measured(clinic, checkpoint, range(12)).topics
    assert topic.rows == {"0": 3_970, "1": 10, "2": 10, "3": 10}
    finding = clinic.finding(SKEWED)
    assert (finding.severity, finding.runbook) == ("note", "skewed-source")
    assert (finding.facts["partition"], finding.facts["rows_of_it"]) == ("0", 3_970)


def test_an_even_topic_is_no_finding_and_a_partition_that_lags_alone_is_one(clinic: Clinic) -> None:
    checkpoint = clinic.healthy(batches=12)
    reads_four_partitions(checkpoint, 12, uneven=False)
    assert SKEWED not in clinic.ids()
    clinic.measured(latest={"0": 0, "1": 0, "2": 9_000, "3": 0})
    assert clinic.finding(SKEWED).facts["behind_of_it"] == 9_000


def test_a_report_or_offsets_that_cannot_be_read_give_no_advice(clinic: Clinic) -> None:
    checkpoint = clinic.healthy(batches=12)
    reads_four_partitions(checkpoint, 12, uneven=True)
    clinic.state_file("query.json", {"v": "of another time"})
    (checkpoint / "offsets/2").write_text("v1\n")
    found = measured(clinic, checkpoint, range(12))
    assert (found.batches, found.topics) == ((), ())


def test_advice_for_one_pipeline_is_refused_by_nothing(clinic: Clinic) -> None:
    clinic.healthy(more="run: {trigger: 10 seconds}\n")
    clinic.measured(milliseconds=30_000)
    environment = clinic.project.load()
    assert [found.finding_id for found in advice_for(clinic.store, environment, "orders").findings] == [LATE]
    assert advice_for(clinic.store, environment, "unheard_of") == Advised()


def test_a_table_of_many_small_files_is_told_by_its_log(clinic: Clinic) -> None:
    clinic.healthy(batches=1)
    path = clinic.project.load().layout.table("bronze/orders")
    sizes = [20_000] * MANY_SMALL_FILES + [SMALL_FILE]
    adds = [AddAction(f"{n}.parquet", size, {}, 0, True, "{}") for n, size in enumerate(sizes)]

    def told_after(added: list[AddAction]) -> list[MeasuredTable]:
        DeltaTable(path).create_write_transaction(added, "append", Schema.from_arrow(COLUMNS))
        DeltaTable(path).create_checkpoint()
        return list(read_tables(clinic.store, clinic.project.resolve()))

    assert told_after(adds[:100]) == []
    small_bytes = 20_000 * MANY_SMALL_FILES
    assert told_after(adds[100:]) == [
        MeasuredTable("bronze/orders", MANY_SMALL_FILES + 1, MANY_SMALL_FILES, small_bytes)
    ]
    finding = clinic.finding("TIDE-TUNE-013")
    assert (finding.severity, finding.runbook) == ("note", "tuning")
    (Path(path) / "_delta_log" / "_last_checkpoint").write_text("torn")
    assert list(read_tables(clinic.store, clinic.project.resolve())) == []
