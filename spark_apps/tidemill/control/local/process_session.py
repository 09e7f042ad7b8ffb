"""The processes that a detached process started: the members of its session.

A detached process leads its own session, and its child processes stay in that session. When the leader is
killed, they may live on for a moment (a JVM) or for good. They are read from `/proc`. Without `/proc` (macOS)
only the leader is known, and no members are found.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from tidemill.control.local.process_identity import POLL_SECONDS, ProcessIdentity

PROC = Path("/proc")


def session_members(leader: ProcessIdentity) -> list[ProcessIdentity]:
    """Return all processes of a session except its leader, while the leader lives.

    A living leader guarantees that the session number is its own. Their identities stay valid after the
    leader's end, when the session's number may be reused.
    """
    members = []
    for pid in _pids(leader.pid):
        with contextlib.suppress(ProcessLookupError):
            members.append(ProcessIdentity.of(pid))
    return [member for member in members if member != leader] if leader.is_alive() else []


def marked_processes(session: int, mark: str) -> list[ProcessIdentity]:
    """Return the processes of a session whose environment contains `mark` (`NAME=value`).

    The mark identifies them after the leader's end, when the session's number may be reused. A process that
    has overwritten its environment with a title is not found.
    """
    found = []
    for pid in _pids(session):
        # A process may end between any two of these calls.
        with contextlib.suppress(OSError):
            if mark.encode() in (PROC / str(pid) / "environ").read_bytes().split(b"\0"):
                found.append(ProcessIdentity.of(pid))
    return [process for process in found if process.is_alive()]


def kill_marked_processes(session: int, mark: str, timeout_seconds: float) -> bool:
    """Kill the marked processes, and those they start, until none is left; False on timeout."""
    deadline = time.monotonic() + timeout_seconds
    while processes := marked_processes(session, mark):
        for process in processes:
            process.signal(signal.SIGKILL)
        if time.monotonic() >= deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True


def kill_session(leader: ProcessIdentity) -> None:
    """Kill a session while its leader lives, the leader last, because it guarantees the session number."""
    while members := [member for member in session_members(leader) if member.is_alive()]:
        for member in members:
            member.signal(signal.SIGKILL)
        time.sleep(POLL_SECONDS)
    leader.signal(signal.SIGKILL)


def _pids(session: int) -> Iterator[int]:
    for folder in PROC.glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if os.getsid(int(folder.name)) == session:
                yield int(folder.name)
