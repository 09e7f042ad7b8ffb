"""Python programs as forks of one process that has loaded Tidemill: a start takes 20 ms instead of a second.

From outside, a fork looks like the process that `subprocess.Popen` would have created: pid, session, working
directory, descriptors, signals, exit code, and the command line and environment in `/proc`. Each pytest
process starts at most one server, with its first fork. A command that is not a module or program text of this
Python, or is too large for the server, starts the usual way. So does every command outside Linux.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).resolve().parents[2]

# Maximum size of a fork's command line, and of its environment, in bytes. Linux allows 128 KB.
ROOM = 64_000

INTEGER = struct.Struct("i")


@dataclass(frozen=True)
class ForkServer:
    """The process that forks.

    Args:
        address: Address of its socket, in Linux's abstract namespace.
        process: The server; None in its forks, which use it to start further forks.
    """

    address: str
    process: subprocess.Popen[bytes] | None = None

    def start(self, request: Mapping[str, Any], descriptors: Sequence[int]) -> ForkedProcess:
        """Request a fork.

        Args:
            request: Fields of `tests.support.fork_server.Request`.
            descriptors: The standard streams, then the inherited descriptors.
        """
        text = json.dumps(request).encode()
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(f"\0{self.address}")
            socket.send_fds(connection, [INTEGER.pack(len(text))], descriptors)
            connection.sendall(text)
            (pid,) = INTEGER.unpack(connection.recv(INTEGER.size, socket.MSG_WAITALL))
            return ForkedProcess(pid, connection.detach())


# The server of this process. The lock is needed because several threads start drivers.
_servers: list[ForkServer] = []
_starting = threading.Lock()


def use(server: ForkServer) -> None:
    """Start programs through this server from now on."""
    _servers[:] = [server]


def end_server() -> None:
    """End the server of this process; its forks continue."""
    while _servers:
        process = _servers.pop().process
        if process is not None:
            process.communicate()


def forked(  # noqa: PLR0913  # those of Popen
    command: Sequence[str],
    *,
    stdin: IO[Any] | int | None = None,
    stdout: IO[Any] | int | None = None,
    stderr: IO[Any] | int | None = None,
    cwd: str | Path | None = None,
    env: Mapping[str, str] | None = None,
    start_new_session: bool = False,
    pass_fds: Sequence[int] = (),
) -> ForkedProcess | subprocess.Popen[bytes]:
    """Start a program like `subprocess.Popen`, without pipes; fork for a module or text of this Python."""
    variables = dict(os.environ if env is None else env)
    if not _can_be_forked(command, variables):
        return subprocess.Popen(
            command,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            cwd=cwd,
            env=variables,
            start_new_session=start_new_session,
            pass_fds=pass_fds,
        )
    with _starting:
        if not _servers:
            use(_started_server())
    request = {
        "command": list(command),
        "cwd": str(cwd or Path.cwd()),
        "env": variables,
        "session": start_new_session,
        "ignores_sigint": signal.getsignal(signal.SIGINT) == signal.SIG_IGN,
        "inherited": list(pass_fds),
    }
    with ExitStack() as opened:
        out = _descriptor(stdout, 1, opened)
        err = out if stderr == subprocess.STDOUT else _descriptor(stderr, 2, opened)
        return _servers[0].start(request, [_descriptor(stdin, 0, opened), out, err, *pass_fds])


def run_forked(
    command: Sequence[str], timeout: float = 60, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run a program like `subprocess.run`, with the output as text."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        code = forked(command, stdout=out, stderr=err, **options).wait(timeout)
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(command, code, out.read(), err.read())


class ForkedProcess:
    """One fork, with the part of the `subprocess.Popen` interface that tests need."""

    def __init__(self, pid: int, connection: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._connection = connection
        weakref.finalize(self, os.close, connection)

    def poll(self) -> int | None:
        """Return the exit code, negative for a signal; None while it runs."""
        if self.returncode is None and select.select([self._connection], [], [], 0)[0]:
            said = os.read(self._connection, INTEGER.size)
            # A server that has ended cannot report how its forks end.
            self.returncode = INTEGER.unpack(said)[0] if said else -signal.SIGKILL
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end of the fork.

        Raises:
            subprocess.TimeoutExpired: If it takes longer.
        """
        if self.returncode is None:
            select.select([self._connection], [], [], timeout)
        code = self.poll()
        if code is None:
            raise subprocess.TimeoutExpired(f"pid {self.pid}", timeout or 0)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def _can_be_forked(command: Sequence[str], variables: Mapping[str, str]) -> bool:
    words = sum(len(os.fsencode(word)) + 1 for word in command)
    environment = sum(len(os.fsencode(f"{name}={value}")) + 1 for name, value in variables.items())
    is_python = command[0] == sys.executable and command[1] in ("-m", "-c")
    return sys.platform == "linux" and is_python and max(words, environment) <= ROOM


def _started_server() -> ForkServer:
    address = f"tidemill-forks-{os.getpid()}"
    path = os.pathsep.join(str(ROOT / part) for part in ("", "spark_apps", "dags"))
    room = "x" * ROOM
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"\0{address}")
        listener.listen(64)
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.fork_server", address, str(listener.fileno()), room],
            stdin=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path, "ROOM": room},
            pass_fds=[listener.fileno()],
            # CTRL-C in the terminal must reach only pytest.
            start_new_session=True,
        )
    return ForkServer(address, process)


def _descriptor(stream: IO[Any] | int | None, default: int, opened: ExitStack) -> int:
    if stream is None:
        return default
    if stream == subprocess.DEVNULL:
        return opened.enter_context(Path(os.devnull).open("r+b", buffering=0)).fileno()
    return stream if isinstance(stream, int) else stream.fileno()
