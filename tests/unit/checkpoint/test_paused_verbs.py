"""A paused operation that another process finished or cancelled does no damage when it continues."""

from __future__ import annotations

import shlex
from datetime import timedelta
from pathlib import Path

import pytest

from tests.support.patient import Patient
from tests.support.paused_verb import PausedVerb, pause_verb
from tidemill.checkpoint.procedure.journal import read_journal

# Functions at which the process pauses: the heartbeat is written first, then the checkpoint's files.
COPY = "tidemill.storage.store:Store.write"
RESTORE = "tidemill.ledger.table_restore:restore_through_delta_rs"
SWITCH = "tidemill.checkpoint.current:switch_generation"
REWIND = ("checkpoint", "rewind", "orders", "--to", "1", "--reason", "a test", "--apply")


def paused(patient: Patient, tmp_path: Path, at: str) -> PausedVerb:
    patient.ran(4)
    folder = patient.drivers.folder
    return pause_verb(folder, tmp_path / "signs", at, *REWIND, calls_before=3 if at == COPY else 0)


def checkpoint_files(patient: Patient) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in patient.checkpoint.rglob("*") if file.is_file()}


def states(patient: Patient) -> list[str]:
    entries = read_journal(patient.batches.store, patient.pipeline.layout, "orders")
    return [entry.state for entry in entries]


@pytest.mark.parametrize("at", [COPY, RESTORE])
def test_a_verb_that_wakes_after_somebody_has_finished_it_changes_nothing(
    patient: Patient, tmp_path: Path, at: str
) -> None:
    asleep = paused(patient, tmp_path, at)
    assert patient.tidemill(*REWIND) == 0, patient.tidemill.err
    patient.went_on(3)
    before, live = checkpoint_files(patient), patient.batches.generation
    exit_code, said = asleep.wake()
    assert (exit_code, said.splitlines()[-4].partition(" ")[0]) == (1, "TIDE-CKPT-039"), said
    assert (checkpoint_files(patient), patient.batches.generation) == (before, live)
    assert states(patient) == ["verified"]
    assert patient.tidemill.json("checkpoint", "release", "orders") == []
    patient.batches.admit()
    patient.went_on()
    assert patient.ids() == list(range(60))


@pytest.mark.parametrize("at", [COPY, RESTORE, SWITCH])
def test_a_verb_that_wakes_after_it_was_given_up_changes_nothing_and_is_not_verified(
    patient: Patient, tmp_path: Path, at: str
) -> None:
    asleep = paused(patient, tmp_path, at)
    (held,) = patient.tidemill.json("checkpoint", "release", "orders")
    release = ("release", "orders", held["id"], "--force", "--reason", "it hangs", "--apply")
    assert patient.tidemill("checkpoint", *release) == 0, patient.tidemill.err
    exit_code, said = asleep.wake()
    assert exit_code == 1
    assert any(line.startswith(("TIDE-CKPT-039", "TIDE-CKPT-042")) for line in said.splitlines()), said
    assert patient.batches.generation == "g0001"
    assert states(patient) == ["abandoned"]
    assert patient.tidemill.json("checkpoint", "release", "orders") == []
    assert patient.tidemill(*REWIND) == 0, patient.tidemill.err
    patient.went_on(2)
    assert patient.ids() == list(range(40))


def test_a_verb_at_work_and_a_dead_one_are_told_apart(
    patient: Patient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asleep = paused(patient, tmp_path, RESTORE)
    own = f"process {asleep.process.pid} on "
    told = patient.doctor()["TIDE-CKPT-058"]
    assert (told["severity"], told["facts"]["process"].partition(own)[0]) == ("note", "at work: ")
    assert f"at work: {own}" in patient.findings()["TIDE-CKPT-029"]["facts"]["verb"]
    asleep.process.kill()
    asleep.process.wait()
    monkeypatch.setattr("tidemill.checkpoint.procedure.sign_of_life.DEAD_AFTER", timedelta(0))
    told = patient.doctor()["TIDE-CKPT-058"]
    assert (told["severity"], told["facts"]["process"].partition(own)[0]) == ("error", "dead or hanging: ")
    _, *complete = shlex.split(told["fix"])
    assert patient.tidemill(*complete) == 0, patient.tidemill.err
    assert set(patient.doctor()) <= {"TIDE-CKPT-056"}
