"""What a detached process started: the processes of its session.

A detached process leads a session of its own, and what it starts stays in it. When the leader is killed,
they may live on for a moment (a JVM) or for good. Seen through `/proc`; where there is none (macOS) only the
leader is known, and nothing is found here.
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
    """All processes of a session but its leader, as long as the leader lives and vouches for them.

    Their identities stay right after the leader's end, when the session's number may be used again.
    """
    members = []
    for pid in _pids(leader.pid):
        with contextlib.suppress(ProcessLookupError):
            members.append(ProcessIdentity.of(pid))
    return [member for member in members if member != leader] if leader.is_alive() else []


def marked_processes(session: int, mark: str) -> list[ProcessIdentity]:
    """Processes of a session whose environment holds `mark` (`NAME=value`), leader or not.

    The mark makes the difference where nobody vouches for the session's number any more. A process that has
    written a title over its environment is not found.
    """
    found = []
    for pid in _pids(session):
        # A process may end between any two of these looks.
        with contextlib.suppress(OSError):
            if mark.encode() in (PROC / str(pid) / "environ").read_bytes().split(b"\0"):
                found.append(ProcessIdentity.of(pid))
    return [process for process in found if process.is_alive()]


def kill_marked_processes(session: int, mark: str, timeout_seconds: float) -> bool:
    """Kill them, and those they start meanwhile, until none is left; False if some outlive the time."""
    deadline = time.monotonic() + timeout_seconds
    while processes := marked_processes(session, mark):
        for process in processes:
            process.signal(signal.SIGKILL)
        if time.monotonic() >= deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True


def kill_session(leader: ProcessIdentity) -> None:
    """Kill a session while its leader lives, the leader last, so that it can vouch until the end."""
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
