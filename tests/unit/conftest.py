from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.forked_python import end_server, forked
from tests.support.patient_fixtures import patient
from tests.support.short_waits import shorten

__all__ = ["patient"]

# Room in memory for what the tests of one moment write, which is a few megabytes.
MEMORY, NEEDED_BYTES = Path("/dev/shm"), 256 * 2**20


@pytest.fixture(scope="session")
def memory_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Use memory for temporary files: on a disk, its journal takes a third of the time of the tests."""
    if not MEMORY.is_dir() or shutil.disk_usage(MEMORY).free < NEEDED_BYTES:
        yield tmp_path_factory.mktemp("unit")
        return
    with tempfile.TemporaryDirectory(dir=MEMORY, prefix="unit-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@pytest.fixture
def tmp_path(
    request: pytest.FixtureRequest, memory_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """Yield an empty folder for one test. Files of a failed test are copied to pytest's folder."""
    failed_before = request.session.testsfailed
    name = re.sub(r"\W", "_", request.node.name)[:30]
    folder = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=memory_folder))
    yield folder
    if request.session.testsfailed > failed_before:
        # It may hold sockets and pipes, which cannot be copied.
        with suppress(shutil.Error):
            shutil.copytree(folder, tmp_path_factory.mktemp(name), symlinks=True, dirs_exist_ok=True)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def fork_server() -> Iterator[None]:
    """Yield while forks may run, and end the fork server, which the first fork starts."""
    yield
    end_server()


@pytest.fixture(autouse=True, scope="module")
def quick_surroundings(fork_server: None) -> Iterator[None]:
    """Drivers are forks and looked at often, and no broker answers. Other tiers here keep theirs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tidemill.control.local.local_launch.Popen", forked)
        shorten(patch.setattr)
        yield
