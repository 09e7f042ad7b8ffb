from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.patient import Patient
from tests.support.patient import patient as made_ill


@pytest.fixture(autouse=True, scope="session")
def short_patience() -> Iterator[None]:
    """No broker answers here; a tenth of a second is enough to know."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tidemill.sources.offsets.ANSWER_TIMEOUT_SECONDS", 0.1)
        yield


@pytest.fixture
def patient(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Patient]:
    with made_ill(tmp_path / "project", monkeypatch, capsys.readouterr) as patient:
        yield patient
