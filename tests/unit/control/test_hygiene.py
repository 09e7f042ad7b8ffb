"""Daily care of a checkpoint next to its stream: examination, and backup and prune by policy."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.support.clinic import Clinic
from tests.support.conf_project import ENVIRONMENT, ConfProject
from tidemill.checkpoint.procedure.audit import read_audit
from tidemill.checkpoint.verbs.backup import BackupRequest, take_backup
from tidemill.checkpoint.verbs.backup_manifest import Manifest, read_manifests
from tidemill.control.hygiene import Care, backup_reason, look_after, whole_examination
from tidemill.control.plane import open_control_plane

NOW = datetime(2026, 3, 1, tzinfo=UTC)
DAY = timedelta(days=1)


@pytest.fixture
def clinic(tmp_path: Path) -> Clinic:
    return Clinic(ConfProject(tmp_path))


def care_for(clinic: Clinic, name: str = "orders") -> Care:
    return look_after(open_control_plane(clinic.project.load(), {}), name, "airflow")


def environment(clinic: Clinic, more: str) -> None:
    """Write the environment of the clinic with further lines."""
    clinic.project.write("conf/environments/local.yaml", f"{ENVIRONMENT}\n{more}\n")


def backed_up(clinic: Clinic, times: int) -> None:
    """Make one backup per hour by hand."""
    pipeline = clinic.project.resolve()
    for hour in range(times):
        take_backup(clinic.store, pipeline, BackupRequest("ann", "by hand", NOW + timedelta(hours=hour)))


def backups(clinic: Clinic) -> list[Manifest]:
    return read_manifests(clinic.store, clinic.project.load().layout, "orders")


def taken(age: timedelta, batch_id: int = 7, generation: str = "g0001") -> Manifest:
    return Manifest(
        backup="b",
        pipeline="orders",
        generation=generation,
        batch_id=batch_id,
        query_id="q",
        taken_at=NOW - age,
        by="ann",
        why="nightly",
        tables={},
        files={},
    )


@pytest.mark.parametrize(
    ("newest", "due"),
    [
        (None, True),
        (taken(DAY), True),
        # The run of the day before began a minute later.
        (taken(DAY - timedelta(minutes=1)), True),
        (taken(timedelta(hours=22)), False),
        # Nothing new: an equal copy would push out one that reaches further back.
        (taken(30 * DAY, batch_id=8), False),
        (taken(30 * DAY, batch_id=8, generation="g0000"), True),
    ],
)
def test_a_backup_is_due_by_age_and_only_with_new_batches(newest: Manifest | None, due: bool) -> None:
    assert backup_reason(newest, ("g0001", 8), NOW, DAY)[0] is due


def test_a_healthy_pipeline_is_backed_up_once_however_often_it_is_looked_after(clinic: Clinic) -> None:
    clinic.healthy()
    first, again = care_for(clinic), care_for(clinic)
    [backup] = backups(clinic)
    assert (backup.batch_id, backup.by, backup.why) == (2, "airflow", "checkpoint_hygiene")
    assert not first.errors
    assert not first.failed
    assert "TIDE-CKPT-056" not in {f.finding_id for f in (*first.findings, *again.findings)}
    assert again.done == (
        f"backup: not due: {backup.backup} has the newest batch, 2",
        "prune: nothing is old",
    )


def test_what_the_environment_keeps_is_kept_and_the_rest_goes_to_the_trash(clinic: Clinic) -> None:
    clinic.healthy()
    environment(clinic, "hygiene: {backups: 2, records: 5}")
    backed_up(clinic, 4)
    care = care_for(clinic)
    assert care.done[1] == "prune: 2 to the trash, 0 out of it"
    assert [backup.backup[:11] for backup in backups(clinic)] == ["20260301t02", "20260301t03"]
    [prune] = [
        entry for entry in read_audit(clinic.store, clinic.project.load().layout) if entry.verb == "prune"
    ]
    assert (prune.by, prune.why) == ("airflow", "checkpoint_hygiene")


def test_a_pipeline_with_an_error_is_not_pruned(clinic: Clinic) -> None:
    checkpoint = clinic.healthy()
    backed_up(clinic, 5)
    (checkpoint / "offsets" / "2").write_text("v1")
    care = care_for(clinic)
    assert "TIDE-CKPT-050" in {finding.finding_id for finding in care.errors}
    assert care.done[-1] == "prune: left out while something is wrong"
    assert len(backups(clinic)) == 5


def test_a_prune_that_died_is_completed_by_its_own_plan(
    clinic: Clinic, monkeypatch: pytest.MonkeyPatch
) -> None:
    clinic.healthy()
    backed_up(clinic, 4)

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("tidemill.checkpoint.verbs.prune.move_to_trash", die)
        with pytest.raises(KeyboardInterrupt):
            care_for(clinic)
    environment(clinic, "hygiene: {backups: 1}")
    care = care_for(clinic)
    assert [line.partition(":")[0] for line in care.done] == ["prune that was begun", "backup", "prune"]
    assert care.done[0].endswith("1 to the trash, 0 out of it")
    assert care.done[2].endswith("2 to the trash, 0 out of it")
    assert not care.errors


def test_in_a_protected_environment_old_things_go_only_if_somebody_has_approved(clinic: Clinic) -> None:
    clinic.healthy()
    backed_up(clinic, 4)
    environment(clinic, "protected: true")
    assert "only planned, 1 to the trash" in care_for(clinic).done[1]
    assert len(backups(clinic)) == 4
    environment(clinic, "protected: true\nhygiene: {approved_by: ben}")
    care_for(clinic)
    assert len(backups(clinic)) == 3
    [prune] = [e for e in read_audit(clinic.store, clinic.project.load().layout) if e.verb == "prune"]
    assert prune.by == "airflow, approved by ben"


def test_a_verb_that_somebody_has_begun_stops_the_prune_and_no_backup(clinic: Clinic) -> None:
    clinic.healthy()
    clinic.begin("rewind-0123456789ab-1")
    care = care_for(clinic)
    assert [finding.finding_id for finding in care.errors] == ["TIDE-CKPT-058"]
    assert len(backups(clinic)) == 1
    assert care.done[1] == "prune: left out while something is wrong"


def test_the_whole_examination_sees_what_belongs_to_no_pipeline(clinic: Clinic) -> None:
    clinic.healthy()
    clinic.healthy("gone")
    (clinic.project.folder / "conf/pipelines/gone.yaml").unlink()
    found = whole_examination(open_control_plane(clinic.project.load(), {})).findings
    assert ("gone", "TIDE-CKPT-051") in {(finding.pipeline, finding.finding_id) for finding in found}


def test_a_pipeline_that_never_ran_has_nothing_to_keep(clinic: Clinic) -> None:
    clinic.declare()
    assert care_for(clinic).done == ("backup: nothing was ever committed", "prune: nothing is old")
