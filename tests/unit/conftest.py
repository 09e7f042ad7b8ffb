from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.forked_python import end_server, forked
from tests.support.patient_fixtures import patient
from tests.support.short_waits import shorten

__all__ = ["patient"]


@pytest.fixture(autouse=True, scope="session")
def short_patience() -> Iterator[None]:
    """No broker answers here, and drivers end at once."""
    with pytest.MonkeyPatch.context() as patch:
        shorten(patch.setattr)
        yield


@pytest.fixture(autouse=True, scope="session")
def forked_drivers() -> Iterator[None]:
    """Drivers are forks of a process that has their imports."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tidemill.control.local.local_launch.Popen", forked)
        yield
    end_server()
