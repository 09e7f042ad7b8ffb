from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.small_project import SmallProject, small_project


@pytest.fixture
def project(tmp_path: Path) -> Iterator[SmallProject]:
    with small_project(tmp_path / "project") as made:
        yield made
