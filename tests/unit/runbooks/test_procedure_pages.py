"""Pages about holds, operations that were interrupted, and tidying up."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from tests.support.patient import Patient
from tests.support.runbook_acts import chosen
from tests.support.runbook_pages import runbook_pages
from tests.support.runbook_story import Act, Story, Told, Warned, each_story
from tests.support.small_project import ENVIRONMENT

STOP = "tidemill stop PIPELINE"
RELEASE = "tidemill checkpoint release PIPELINE"
CKPT = "TIDE-CKPT-"


def held_by_hand(patient: Patient) -> None:
    patient.ran(2)
    assert patient.tidemill("checkpoint", "hold", "orders", "--reason", "let me look") == 0
    patient.values["HOLD"] = "by-hand"


def old_generations(patient: Patient) -> None:
    patient.ran(2)
    for end in (12, 14, 16, 18):
        verb = ("checkpoint", "reset", "orders", "--from", json.dumps({"orders": {"0": end}}))
        assert patient.tidemill(*verb, "--reason", "x", "--apply") == 0, patient.tidemill.err


def to_be_pruned(patient: Patient) -> list[str]:
    found = patient.tidemill.json("checkpoint", "prune", "orders")["plan"]["moves"]
    return [Path(move["path"]).name for move in found]


class KilledError(BaseException):
    """A kill that no code catches, like SIGKILL."""


def verb_was_killed(patient: Patient) -> None:
    """Let a reset die before its last step."""
    patient.ran(3)
    verb = ("checkpoint", "reset", "orders", "--from", '{"orders": {"0": 12}}', "--reason", "x", "--apply")

    def die(*_: object) -> None:
        raise KilledError

    with patient.patch.context() as killing:
        killing.setattr("tidemill.checkpoint.verbs.go_back.switch_generation", die)
        with pytest.raises(KilledError):
            patient.tidemill(*verb)
    (held,) = patient.tidemill.json("checkpoint", "release", "orders")
    patient.values["REQUEST"] = held["id"]


def refusals_of_a_held_pipeline(patient: Patient) -> list[str]:
    """Return the errors of a start, another operation and an ordinary release under this hold."""
    request = patient.values["REQUEST"]
    told = list(patient.findings())
    for verb in (("prune", "orders", "--apply"), ("release", "orders", request, "--reason", "x", "--apply")):
        patient.tidemill("checkpoint", *verb)
        told.append(patient.tidemill.err.partition(" ")[0])
    return told


def what_stands_under_to_do(*more: str) -> Act:
    def complete(patient: Patient) -> None:
        (held,) = patient.tidemill.json("checkpoint", "release", "orders")
        words = shlex.split(held["to_do"])
        assert words[0] == "tidemill"
        assert patient.tidemill(*words[1:], *more) == 0, patient.tidemill.err

    return complete


def is_refused(error: str) -> Act:
    """Return an act that checks that the command under "to do" is refused."""

    def refuse(patient: Patient) -> None:
        (held,) = patient.tidemill.json("checkpoint", "release", "orders")
        assert patient.tidemill(*shlex.split(held["to_do"])[1:]) == 1
        assert patient.tidemill.err.startswith(error)

    return refuse


def protected(patient: Patient) -> None:
    verb_was_killed(patient)
    file = patient.drivers.folder / "conf/environments/local.yaml"
    file.write_text(ENVIRONMENT + "protected: true\n")


STORIES = [
    Story(
        "hold",
        "a person has forbidden the start",
        held_by_hand,
        (CKPT + "029",),
        ["tidemill checkpoint release PIPELINE HOLD --reason TEXT --apply"],
        over=lambda patient: patient.batches.admit(),
    ),
    Story(
        "prune-checkpoints",
        "old generations pile up",
        old_generations,
        ("g0001",),
        ["tidemill checkpoint prune PIPELINE", "tidemill checkpoint prune PIPELINE --apply"],
        seen=to_be_pruned,
        over=lambda patient: patient.batches.admit(),
    ),
    Story(
        "unfinished-procedure",
        "a reset was killed",
        verb_was_killed,
        (CKPT + "029", CKPT + "033", CKPT + "037"),
        [RELEASE, STOP, what_stands_under_to_do()],
        seen=refusals_of_a_held_pipeline,
    ),
    Story(
        "unfinished-procedure",
        "a reset was killed and is given up",
        verb_was_killed,
        (CKPT + "029", CKPT + "033", CKPT + "037"),
        [
            "tidemill checkpoint release PIPELINE REQUEST --force --reason TEXT --apply",
            Warned("tidemill checkpoint gate PIPELINE", CKPT + "018"),
            chosen(2),
            "tidemill checkpoint rewind PIPELINE --to BATCH --reason TEXT --apply",
        ],
        seen=refusals_of_a_held_pipeline,
    ),
    Story(
        "unfinished-procedure",
        "the environment is protected",
        protected,
        (CKPT + "029",),
        [is_refused(CKPT + "036"), what_stands_under_to_do("--approved-by", "bob")],
        by_hand=(CKPT + "036",),
    ),
]


@each_story(STORIES)
def test_the_pages_commands_end_what_the_page_is_about(story: Story, patient: Patient) -> None:
    Told(story, runbook_pages()[story.page], patient).tell()
