"""Identity of detached processes, which is more than their pid.

A pid is reused after its process has ended, so a pid alone must never be signalled later. A process is the
same only if pid, start time and boot agree. On Linux all three come from `/proc`; elsewhere (macOS) the start
time comes from `ps -o lstart=`, which is exact to a second.
"""

from __future__ import annotations

import calendar
import contextlib
import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from signal import Signals

BOOT_ID_FILE = Path("/proc/sys/kernel/random/boot_id")

# Zombie and dead, as proc(5) and ps(1) write them.
ENDED_STATES = "ZXx"

# Seconds between two checks of an ending process. The kernel wakes only the parent; 20 ms is too short to
# notice and costs little CPU.
POLL_SECONDS = 0.02

# Seconds for `ps` to read one process; longer means that the machine is stuck.
PS_TIMEOUT_SECONDS = 10


@dataclass(frozen=True)
class ProcessIdentity:
    """One process of this machine, never confused with a later one of the same pid.

    Args:
        pid: Process id.
        start_time: Clock ticks since boot (Linux), seconds since 1970 (elsewhere).
        boot_id: Boot from which `start_time` counts; empty if `start_time` is absolute.
    """

    pid: int
    start_time: int
    boot_id: str

    @classmethod
    def of(cls, pid: int) -> ProcessIdentity:
        """Return the identity of the process that has this pid now, even of a zombie.

        Raises:
            ProcessLookupError: There is no such process.
        """
        seen = _look_up(pid)
        if seen is None:
            raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH), str(pid))
        return seen[1]

    def is_alive(self) -> bool:
        """Return True if exactly this process still runs. A zombie counts as dead.

        Files, locks and ports of a dead process are free.
        """
        seen = _look_up(self.pid)
        return seen is not None and seen == (True, self)

    def signal(self, number: Signals) -> bool:
        """Send a signal to this process and to no other; False if it has ended.

        Raises:
            PermissionError: The process belongs to another user.
        """
        if sys.platform == "linux":
            handle = _open_pidfd(self.pid)
            if handle is not None:
                return self._signal_through(handle, number)
        if not self.is_alive():
            return False
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            return False
        return True

    def _signal_through(self, handle: int, number: Signals) -> bool:
        # 1. The handle refers to the process that has the pid now. 2. The check shows whether it is the right
        # process. 3. The signal goes through the handle, so that it cannot hit a process that got the pid
        # after step 2.
        try:
            if not self.is_alive():
                return False
            signal.pidfd_send_signal(handle, number)
        except ProcessLookupError:
            return False
        finally:
            os.close(handle)
        return True

    def wait_until_gone(self, timeout_seconds: float) -> bool:
        """Wait for the end of this process; False on timeout."""
        deadline = time.monotonic() + timeout_seconds
        while self.is_alive():
            if time.monotonic() >= deadline:
                return False
            time.sleep(POLL_SECONDS)
        return True

    def reap(self) -> int | None:
        """Reap this process if it is a child of this process and has ended, so that no zombie stays.

        Returns the exit code (negative: the signal that ended it), or None if it runs or is not a child.
        """
        if self.is_alive():
            return None
        try:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
        except ChildProcessError:
            return None
        return os.waitstatus_to_exitcode(status) if pid else None


def start_detached(
    command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
) -> ProcessIdentity:
    """Start a process that outlives this one, in its own session, with its output appended to `log`.

    Args:
        command: The program's absolute path, and its arguments.
        log: File for output and errors; created readable by its owner only.
        environment: All environment variables; by default those of this process.
    """
    log_flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    pid = os.posix_spawn(
        command[0],
        list(command),
        dict(os.environ if environment is None else environment),
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(log), log_flags, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
            *((os.POSIX_SPAWN_CLOSE, descriptor) for descriptor in _inherited_descriptors()),
        ],
        # A separate session, so that closing the terminal or CTRL-C does not reach it.
        setsid=True,
        # Python ignores SIGPIPE and a caller may block signals; reset both for the new process.
        setsigmask=[],
        setsigdef=[signal.SIGPIPE, signal.SIGINT, signal.SIGTERM],
    )
    return ProcessIdentity.of(pid)


def _inherited_descriptors() -> list[int]:
    """Return inheritable descriptors from this process's starter, such as locks and pipes, to close them."""
    inherited = []
    for entry in Path("/dev/fd").iterdir():
        descriptor = int(entry.name)
        # The descriptor of the listing itself is closed by now.
        with contextlib.suppress(OSError):
            if descriptor > 2 and os.get_inheritable(descriptor):
                inherited.append(descriptor)
    return inherited


def _look_up(pid: int) -> tuple[bool, ProcessIdentity] | None:
    """Return True if the process with this pid runs, and its identity; None if no process has the pid."""
    return _look_up_in_proc(pid) if BOOT_ID_FILE.exists() else _look_up_with_ps(pid)


def _look_up_in_proc(pid: int) -> tuple[bool, ProcessIdentity] | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # proc(5): "pid (comm) state …", where comm may contain spaces and brackets. Then follow field 3, the
    # state; 20, the number of threads; 22, the start time.
    fields = stat.rpartition(")")[2].split()
    state, threads, start_time = fields[0], int(fields[20 - 3]), int(fields[22 - 3])
    # The state is the first thread's, and other threads can continue after it. A killed JVM was observed in
    # state Z that held its ports for 50 ms more, until only one thread was left.
    has_ended = state in ENDED_STATES and threads <= 1
    boot_id = BOOT_ID_FILE.read_text(encoding="ascii").strip()
    return not has_ended, ProcessIdentity(pid, start_time, boot_id)


def _look_up_with_ps(pid: int) -> tuple[bool, ProcessIdentity] | None:
    answer = subprocess.run(
        ["ps", "-o", "state=,lstart=", "-p", str(pid)],
        capture_output=True,
        text=True,
        timeout=PS_TIMEOUT_SECONDS,
        # The date is parsed below, so it must have the C format and no daylight saving time.
        env={**os.environ, "LC_ALL": "C", "TZ": "UTC"},
        check=False,
    )
    state, _, started = answer.stdout.strip().partition(" ")
    if not started:
        return None
    start_time = calendar.timegm(time.strptime(started.strip(), "%a %b %d %H:%M:%S %Y"))
    return state[0] not in ENDED_STATES, ProcessIdentity(pid, start_time, boot_id="")


def _open_pidfd(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        return None
    except OSError as error:
        # Old kernels and some container sandboxes lack this call; then kill(2) after a check must do.
        if error.errno in (errno.ENOSYS, errno.EPERM):
            return None
        raise
