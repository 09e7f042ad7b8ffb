"""The doctor finds what is wrong with the checkpoints of an environment, and writes nothing."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.support.clinic import Clinic
from tests.support.conf_project import ENVIRONMENT, ConfProject
from tidemill.checkpoint.current import Current, switch_generation
from tidemill.checkpoint.doctor.examine import examine
from tidemill.checkpoint.doctor.rules import BACKUP_AGE, LEFT_FOR_GOOD, MANY_LEFTOVERS
from tidemill.checkpoint.retention.clock import ASSUMED_BROKER_RETENTION, SourceRetention
from tidemill.checkpoint.status import Status
from tidemill.errors import SpecError
from tidemill.spec.project import Pipeline

NOW = datetime.now(UTC)


@pytest.fixture
def clinic(tmp_path: Path) -> Clinic:
    return Clinic(ConfProject(tmp_path))


def set_age(folder: Path, age: timedelta) -> None:
    then = (datetime.now(UTC) - age).timestamp()
    for file in [folder, *folder.rglob("*")]:
        os.utime(file, (then, then))


def test_a_healthy_pipeline_has_only_its_missing_backup_noted(clinic: Clinic) -> None:
    clinic.healthy()
    found = clinic.examine()
    assert (found.pipelines, found.folders, found.is_healthy) == (1, 1, True)
    assert [(f.finding_id, f.severity) for f in found.findings] == [("TIDE-CKPT-056", "note")]


def test_a_pipeline_that_never_ran_is_healthy_and_its_storage_stays_away(clinic: Clinic) -> None:
    clinic.declare()
    assert clinic.examine() == clinic.examine()
    assert clinic.examine().findings == ()
    assert not Path(clinic.project.load().layout.root).exists()


def test_a_torn_checkpoint_is_what_the_gate_would_refuse(clinic: Clinic) -> None:
    checkpoint = clinic.healthy()
    (checkpoint / "offsets/2").write_text("v1\n")
    finding = clinic.finding("TIDE-CKPT-050")
    assert (finding.severity, finding.pipeline) == ("error", "orders")
    assert finding.facts["cause"] == "TIDE-CKPT-007"
    assert not clinic.examine().is_healthy


def test_a_checkpoint_that_disagrees_with_its_table_is_what_the_gate_would_refuse(clinic: Clinic) -> None:
    checkpoint = clinic.healthy(batches=4)
    for batch in (1, 2, 3):
        (checkpoint / f"commits/{batch}").unlink()
        (checkpoint / f"offsets/{batch}").unlink()
    assert clinic.finding("TIDE-CKPT-050").facts["cause"] == "TIDE-CKPT-004"


def test_a_damaged_control_file_is_a_finding_and_stops_no_other_pipeline(clinic: Clinic) -> None:
    clinic.healthy()
    (clinic.healthy("payments") / "offsets/2").write_text("")
    (Path(clinic.project.load().layout.current("orders")) / "00000001.json").write_text("{")
    causes = {f.pipeline: f.facts["cause"] for f in clinic.examine().findings if f.severity == "error"}
    assert causes == {"orders": "TIDE-STOR-001", "payments": "TIDE-CKPT-007"}


def test_a_wrong_declaration_is_a_finding_of_its_own(clinic: Clinic) -> None:
    clinic.healthy()
    clinic.declare("orders", "run: {size: huge}\n")
    (finding,) = clinic.examine().findings
    assert (finding.finding_id, finding.severity) == ("TIDE-SPEC-014", "error")


def test_a_state_folder_without_a_pipeline_is_orphaned(clinic: Clinic) -> None:
    clinic.healthy("payments")
    clinic.project.folder.joinpath("conf/pipelines/payments.yaml").unlink()
    clinic.healthy()
    finding = clinic.finding("TIDE-CKPT-051")
    assert (finding.pipeline, finding.severity) == ("payments", "warning")
    assert finding.facts["files"] == 9


def test_a_generation_that_was_never_live_is_orphaned_unless_a_request_makes_it(clinic: Clinic) -> None:
    checkpoint = clinic.healthy()
    made = checkpoint.with_name("g0002")
    shutil.copytree(checkpoint, made)
    (made / "metadata").write_text(json.dumps({"id": "new"}))
    assert clinic.finding("TIDE-CKPT-051").facts["generations"] == "g0002"
    clinic.begin("rewind-1")
    assert "TIDE-CKPT-051" not in clinic.ids()


def test_many_leftovers_of_interrupted_writes_are_noted(clinic: Clinic) -> None:
    checkpoint = clinic.healthy()
    for number in range(MANY_LEFTOVERS - 1):
        (checkpoint / f"offsets/.{number}.x.tmp").write_text("")
    assert "TIDE-CKPT-051" not in clinic.ids()
    (checkpoint / "offsets/.last.x.tmp").write_text("")
    assert clinic.finding("TIDE-CKPT-051").severity == "note"


def test_a_checkpoint_that_was_copied_to_another_pipeline_is_shared(clinic: Clinic) -> None:
    checkpoint = clinic.healthy()
    shutil.copytree(checkpoint, clinic.healthy("payments"), dirs_exist_ok=True)
    finding = clinic.finding("TIDE-CKPT-052")
    assert finding.severity == "error"
    assert finding.facts["checkpoints"] == "orders/g0001, payments/g0001"


def test_a_checkpoint_that_was_copied_to_another_generation_is_shared(clinic: Clinic) -> None:
    checkpoint = clinic.healthy()
    shutil.copytree(checkpoint, checkpoint.with_name("g0002"))
    assert clinic.finding("TIDE-CKPT-052").facts["checkpoints"] == "orders/g0001, orders/g0002"


def test_a_generation_that_is_written_after_it_was_left_means_two_drivers(clinic: Clinic) -> None:
    checkpoint = clinic.healthy()
    layout = clinic.project.load().layout
    since = datetime.now(UTC) - 2 * LEFT_FOR_GOOD
    second = Current(number=2, pipeline="orders", generation="g0002", since=since, why="rewind")
    assert switch_generation(clinic.store, layout, second)
    set_age(checkpoint, 2 * LEFT_FOR_GOOD)
    assert "TIDE-CKPT-053" not in clinic.ids()
    (checkpoint / "offsets/3").write_text("v1\n")
    finding = clinic.finding("TIDE-CKPT-053")
    assert (finding.severity, finding.facts["generation"], finding.runbook) == (
        "error",
        "g0001",
        "two-drivers",
    )


def test_a_checkpoint_with_far_too_many_files_is_oversized(
    clinic: Clinic, monkeypatch: pytest.MonkeyPatch
) -> None:
    clinic.healthy()
    assert "TIDE-CKPT-054" not in clinic.ids()
    monkeypatch.setattr("tidemill.checkpoint.doctor.rules.OVERSIZED_FILES", 7)
    assert clinic.finding("TIDE-CKPT-054").facts["files"] == 8


def test_a_backup_counts_with_its_manifest_and_while_it_is_fresh(clinic: Clinic) -> None:
    clinic.healthy()
    clinic.state_file("backups/20260101T000000Z/g0001/metadata", {"id": "copied"})
    assert clinic.finding("TIDE-CKPT-056").facts["backups"] == 0
    clinic.state_file("backups/20260101T000000Z/manifest.json", {})
    assert "TIDE-CKPT-056" not in clinic.ids()
    set_age(Path(clinic.project.load().layout.backups("orders")), BACKUP_AGE * 2)
    assert clinic.finding("TIDE-CKPT-056").facts["backups"] == 1


def test_a_missing_backup_weighs_more_where_the_environment_is_protected(clinic: Clinic) -> None:
    clinic.healthy()
    clinic.project.write("conf/environments/local.yaml", ENVIRONMENT + "protected: true\n")
    assert clinic.finding("TIDE-CKPT-056").severity == "warning"


@pytest.mark.parametrize(
    ("share", "severity"), [(0.5, None), (0.8, "warning"), (1.1, "warning")], ids=["early", "late", "gone"]
)
def test_a_pipeline_that_stands_still_nears_the_brokers_retention(
    clinic: Clinic, share: float, severity: str | None
) -> None:
    clinic.newest_batch_planned(clinic.healthy(), ASSUMED_BROKER_RETENTION * share)
    found = [f.severity for f in clinic.examine().findings if f.finding_id == "TIDE-CKPT-057"]
    assert found == ([severity] if severity else [])


@pytest.mark.parametrize("found_nothing_now", [True, False], ids=["found nothing now", "said so long ago"])
def test_a_stream_that_waits_for_data_is_at_no_risk_as_long_as_it_looks(
    clinic: Clinic, found_nothing_now: bool
) -> None:
    clinic.newest_batch_planned(clinic.healthy(), 2 * ASSUMED_BROKER_RETENTION)
    now = datetime.now(UTC)
    looked = now if found_nothing_now else now - 2 * ASSUMED_BROKER_RETENTION
    waiting = Status(
        pipeline="orders",
        mode="stream",
        state="waiting",
        run_id="r",
        started_at=now,
        updated_at=now,
        lag=0,
        caught_up_at=looked,
    )
    clinic.state_file("status.json", waiting.model_dump(mode="json"))
    assert ("TIDE-CKPT-057" in clinic.ids()) is not found_nothing_now


def test_a_broker_that_says_how_long_it_keeps_is_believed(clinic: Clinic) -> None:
    clinic.newest_batch_planned(clinic.healthy(more="run: {rewindable: 3 hours}\n"), timedelta(hours=3))

    def two_hours(_: Pipeline) -> SourceRetention:
        return SourceRetention("topic orders", timedelta(hours=2), certain=True)

    found = examine(clinic.project.load(), ask_broker=two_hours).findings
    severities = {finding.finding_id: finding.severity for finding in found}
    assert severities["TIDE-CKPT-057"] == "error"
    assert severities["TIDE-CKPT-062"] == "warning"


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({"delta.logRetentionDuration": "interval 2 days"}, ["TIDE-CKPT-061"]),
        ({"delta.deletedFileRetentionDuration": "interval 1 week"}, []),
        ({"delta.deletedFileRetentionDuration": "interval 1 hours"}, ["TIDE-CKPT-061"]),
        ({"delta.setTransactionRetentionDuration": "interval 7 days"}, ["TIDE-CKPT-063"]),
    ],
)
def test_tables_that_forget_too_soon(clinic: Clinic, properties: dict[str, str], expected: list[str]) -> None:
    clinic.healthy(more="run: {trigger: 5 minutes, rewindable: 3 days}\n", **properties)
    assert [f for f in clinic.ids() if f != "TIDE-CKPT-056"] == expected


def test_only_the_named_pipelines_are_looked_at(clinic: Clinic) -> None:
    clinic.healthy()
    (clinic.healthy("payments") / "metadata").write_text("")
    assert clinic.examine("orders").is_healthy
    assert not clinic.examine("payments").is_healthy


def test_a_name_that_neither_conf_nor_storage_knows_is_wrong_usage(clinic: Clinic) -> None:
    clinic.declare()
    with pytest.raises(SpecError) as refused:
        clinic.examine("ordres")
    assert refused.value.error_id == "TIDE-SPEC-011"


def snapshot(folder: Path) -> dict[str, tuple[int, bytes]]:
    files = (file for file in sorted(folder.rglob("*")) if file.is_file())
    return {str(file): (file.stat().st_mtime_ns, file.read_bytes()) for file in files}


def damages() -> dict[str, Callable[[Path], object]]:
    return {
        "healthy": lambda checkpoint: None,
        "torn": lambda checkpoint: (checkpoint / "offsets/2").write_text("v1\n"),
        "lost": lambda checkpoint: shutil.rmtree(checkpoint / "offsets"),
        "copied": lambda checkpoint: shutil.copytree(checkpoint, checkpoint.with_name("g0002")),
        "gone": shutil.rmtree,
    }


@pytest.mark.parametrize("damage", damages())
def test_the_doctor_writes_nothing(clinic: Clinic, damage: str) -> None:
    damages()[damage](clinic.healthy())
    folder = clinic.project.folder
    folders = sorted(str(path) for path in folder.rglob("*"))
    before = snapshot(folder)
    clinic.examine()
    assert snapshot(folder) == before
    assert sorted(str(path) for path in folder.rglob("*")) == folders
