from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tidemill.control.local import process_identity
from tidemill.control.local.process_identity import ProcessIdentity, start_detached

SLEEP = ["/bin/sleep", "60"]


def eventually(condition: Callable[[], bool], timeout_seconds: float = 10) -> bool:
    deadline = time.monotonic() + timeout_seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
    return True


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(SLEEP) as process:
        yield process
        process.kill()


@pytest.fixture(params=["/proc", "ps"])
def either_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Run the test in the way of Linux, and of systems without /proc."""
    if request.param == "ps":
        monkeypatch.setattr(process_identity, "BOOT_ID_FILE", tmp_path / "missing")


@pytest.mark.usefixtures("either_way")
def test_a_running_process_is_alive_and_the_same_at_every_look(child: subprocess.Popen[bytes]) -> None:
    identity = ProcessIdentity.of(child.pid)
    assert identity.is_alive()
    assert ProcessIdentity.of(child.pid) == identity
    assert ProcessIdentity.of(os.getpid()) != identity


@pytest.mark.usefixtures("either_way")
def test_a_process_that_ended_but_was_not_collected_is_dead(child: subprocess.Popen[bytes]) -> None:
    identity = ProcessIdentity.of(child.pid)
    child.send_signal(signal.SIGKILL)
    assert identity.wait_until_gone(10)
    assert ProcessIdentity.of(child.pid) == identity, "the zombie still has the pid"
    assert not identity.is_alive()
    assert identity.signal(signal.SIGTERM) is False


@pytest.mark.usefixtures("either_way")
def test_a_collected_process_is_dead_and_cannot_be_signalled(child: subprocess.Popen[bytes]) -> None:
    identity = ProcessIdentity.of(child.pid)
    child.kill()
    child.wait()
    assert not identity.is_alive()
    assert identity.signal(signal.SIGTERM) is False
    with pytest.raises(ProcessLookupError):
        ProcessIdentity.of(child.pid)


@pytest.mark.usefixtures("either_way")
@pytest.mark.parametrize("other", [{"start_time": 1}, {"boot_id": "another boot"}])
def test_a_later_process_with_the_same_pid_is_not_hit(
    child: subprocess.Popen[bytes], other: dict[str, object]
) -> None:
    earlier = dataclasses.replace(ProcessIdentity.of(child.pid), **other)  # type: ignore[arg-type]
    assert not earlier.is_alive()
    assert earlier.signal(signal.SIGKILL) is False
    assert child.poll() is None


@pytest.mark.usefixtures("either_way")
def test_a_signal_reaches_the_process(child: subprocess.Popen[bytes]) -> None:
    assert ProcessIdentity.of(child.pid).signal(signal.SIGTERM) is True
    assert child.wait(10) == -signal.SIGTERM


def test_a_process_whose_first_thread_ended_is_alive_while_another_runs() -> None:
    program = (
        "import ctypes, threading, time\n"
        "threading.Thread(target=time.sleep, args=(60,)).start()\n"
        "ctypes.CDLL(None).pthread_exit(None)"
    )
    with subprocess.Popen([sys.executable, "-c", program]) as process:
        stat = Path(f"/proc/{process.pid}/stat")
        assert eventually(lambda: stat.read_text().rpartition(")")[2].split()[0] == "Z")
        identity = ProcessIdentity.of(process.pid)
        assert identity.is_alive()
        assert identity.signal(signal.SIGKILL)
        assert identity.wait_until_gone(10)


def test_a_process_that_goes_on_is_not_gone(child: subprocess.Popen[bytes]) -> None:
    assert ProcessIdentity.of(child.pid).wait_until_gone(0) is False


def test_brackets_and_spaces_in_a_programs_name_do_not_matter(tmp_path: Path) -> None:
    program = tmp_path / "a) R 1 (b"
    program.symlink_to("/bin/sleep")
    with subprocess.Popen([str(program), "60"]) as process:
        assert ProcessIdentity.of(process.pid).is_alive()
        process.kill()
        assert ProcessIdentity.of(process.pid).wait_until_gone(10)


def test_an_identity_survives_being_written_down(child: subprocess.Popen[bytes]) -> None:
    identity = ProcessIdentity.of(child.pid)
    assert ProcessIdentity(**dataclasses.asdict(identity)) == identity


def test_a_detached_process_writes_to_its_log_and_lives_in_its_own_session(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("before\n")
    program = "import os, sys; print(os.getsid(0) == os.getpid(), flush=True); sys.exit('an error')"

    identity = start_detached([sys.executable, "-c", program], log)

    assert identity.wait_until_gone(30)
    assert identity.reap() == 1
    assert log.read_text() == "before\nTrue\nan error\n"


def test_a_detached_process_is_alive_after_its_starter_ended(tmp_path: Path) -> None:
    start = (
        "import sys; from pathlib import Path\n"
        "from tidemill.control.local.process_identity import start_detached\n"
        f"print(start_detached({SLEEP}, Path(sys.argv[1])).pid)"
    )
    starter = subprocess.run(
        [sys.executable, "-c", start, str(tmp_path / "log")], stdout=subprocess.PIPE, check=True, timeout=30
    )
    identity = ProcessIdentity.of(int(starter.stdout))
    assert identity.is_alive()
    assert identity.signal(signal.SIGKILL)
    assert identity.wait_until_gone(10)


def test_a_detached_process_can_be_interrupted_although_its_starter_ignores_that(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        identity = start_detached(SLEEP, tmp_path / "log")
    finally:
        signal.signal(signal.SIGINT, before)
    identity.signal(signal.SIGINT)
    assert identity.wait_until_gone(10)
    assert identity.reap() == -signal.SIGINT


def test_only_a_dead_child_is_collected(child: subprocess.Popen[bytes]) -> None:
    assert ProcessIdentity.of(child.pid).reap() is None
    assert ProcessIdentity.of(os.getppid()).reap() is None
    assert child.poll() is None


def test_a_detached_process_keeps_no_lock_or_pipe_of_its_starters_open(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.set_inheritable(writer, True)
    identity = start_detached(SLEEP, tmp_path / "log")
    try:
        os.close(writer)
        # Reading ends at once if no process has the other end open. Otherwise pytest's timeout fails the
        # test.
        assert os.read(reader, 1) == b""
    finally:
        os.close(reader)
        identity.signal(signal.SIGKILL)
        identity.wait_until_gone(10)
        identity.reap()
