"""The pipeline that a runbook page is about, as a fixture for every tier."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.patient import Patient
from tests.support.patient import patient as made_ill


@pytest.fixture
def patient(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Patient]:
    with made_ill(tmp_path / "project", monkeypatch, capsys.readouterr) as made:
        yield made
