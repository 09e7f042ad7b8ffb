"""Fixtures of the Airflow tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.small_project import SmallProject, small_project


@pytest.fixture
def bare_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SmallProject]:
    """Yield a project without pipelines; Airflow's home is in the same folder."""
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "airflow"))
    with small_project(tmp_path / "project") as project:
        yield project
