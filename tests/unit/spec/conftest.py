from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.conf_project import ConfProject


@pytest.fixture
def project(tmp_path: Path) -> ConfProject:
    return ConfProject(tmp_path)
