"""What tests of Airflow's tasks share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.small_project import SmallProject, small_project


@pytest.fixture
def bare_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SmallProject]:
    """A project without pipelines; Airflow keeps what it writes beside it."""
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "airflow"))
    with small_project(tmp_path / "project") as project:
        yield project
