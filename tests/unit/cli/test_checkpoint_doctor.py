"""`tidemill checkpoint doctor` as users and CI use it."""

from __future__ import annotations

import pytest

from tests.support.clinic import Clinic
from tests.support.command_line import CommandLine
from tests.support.conf_project import ConfProject
from tidemill.sources import topic_retention


@pytest.fixture
def clinic(project: ConfProject) -> Clinic:
    return Clinic(project)


def test_nothing_wrong_is_exit_code_0(tidemill: CommandLine, clinic: Clinic) -> None:
    clinic.healthy()
    found = tidemill.json("checkpoint", "doctor")
    assert (found["pipelines"], found["folders"], found["healthy"]) == (1, 1, True)
    assert [finding["id"] for finding in found["findings"]] == ["TIDE-CKPT-056"]


def test_something_wrong_is_exit_code_1_and_says_what(tidemill: CommandLine, clinic: Clinic) -> None:
    (clinic.healthy() / "offsets/2").write_text("v1\n")
    assert tidemill("checkpoint", "doctor") == 1
    assert "TIDE-CKPT-050" in tidemill.out
    assert "cause=TIDE-CKPT-007" in tidemill.out
    assert tidemill.out.splitlines()[-1] == "1 pipeline, 1 state folder: 1 error, 1 note"


def test_named_pipelines_only(tidemill: CommandLine, clinic: Clinic) -> None:
    (clinic.healthy() / "offsets/2").write_text("v1\n")
    clinic.healthy("payments")
    assert tidemill("checkpoint", "doctor", "payments") == 0
    assert tidemill("checkpoint", "doctor", "payments", "orders") == 1


def test_an_unknown_name_is_wrong_usage(tidemill: CommandLine, clinic: Clinic) -> None:
    clinic.healthy()
    assert tidemill("checkpoint", "doctor", "ordres") == 2
    assert tidemill.err.startswith("TIDE-SPEC-011")


def test_a_broker_that_is_away_changes_nothing(
    tidemill: CommandLine, clinic: Clinic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_retention, "ANSWER_TIMEOUT_SECONDS", 0.2)
    clinic.healthy()
    found = tidemill.json("checkpoint", "doctor", "--broker")
    assert [finding["id"] for finding in found["findings"]] == ["TIDE-CKPT-056"]
