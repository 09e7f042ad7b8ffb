from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.api_server import ApiServerInMemory
from tests.support.cluster_project import ClusterProject, make_owner


@pytest.fixture
def api() -> ApiServerInMemory:
    """Return a namespace with the chart's ConfigMap."""
    server = ApiServerInMemory()
    make_owner(server)
    return server


@pytest.fixture
def cluster_project(tmp_path: Path) -> ClusterProject:
    return ClusterProject(tmp_path / "project")
