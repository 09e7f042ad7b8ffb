"""Server of `forked_python`: loads Tidemill once, then forks for each request, which runs one program.

    python -m tests.support.fork_server ADDRESS LISTENER ROOM

LISTENER is the descriptor of a Unix socket that listens at ADDRESS. A request consists of its length, then
JSON, with the descriptors of the standard streams and the inherited ones. The answer is the pid, followed by
the exit code when the fork has ended. The server ends with its standard input. It has only one Python thread,
as required for forking.

ROOM is one long argument, and the variable ROOM has the same length. A fork overwrites them with its own
command line and environment, because `/proc` shows that memory.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import importlib
import json
import os
import runpy
import selectors
import signal
import socket
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import pytest

from tests.support import forked_python
from tests.support.short_waits import shorten
from tidemill.control.local import local_launch

# Imports of most tests' programs. The first two are the programs of a start on this machine.
PRELOADED = (
    "tidemill.control.local.become_driver",
    "tests.support.paper_driver",
    "tests.support.fake_part",
    "tests.support.paper_batches",
    "tidemill.control.game_day.part",
    "tidemill.cli.app",
    "pyarrow",
    "deltalake",
)
# Maximum number of descriptors in one message: three streams, and locks.
MOST_DESCRIPTORS = 16
_own_path = tuple(sys.path)
_exec = os.execv


@dataclass(frozen=True)
class Request:
    """A program to start, with the arguments of `subprocess.Popen`."""

    command: Sequence[str]
    cwd: str
    env: Mapping[str, str]
    session: bool
    # Shells start background jobs with SIGINT ignored, and programs inherit that.
    ignores_sigint: bool
    inherited: Sequence[int]
    descriptors: Sequence[int]


class Server:
    """Accepts requests until its standard input ends."""

    def __init__(self, listener: socket.socket) -> None:
        self.listener = listener
        self.forks: dict[int, socket.socket] = {}
        self.ended, ended = os.pipe()
        os.set_blocking(ended, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(ended)

    def serve(self) -> None:
        with selectors.DefaultSelector() as selector:
            for file in (0, self.ended, self.listener.fileno()):
                selector.register(file, selectors.EVENT_READ)
            while True:
                ready = [key.fd for key, _ in selector.select()]
                if 0 in ready:
                    return
                if self.ended in ready:
                    os.read(self.ended, 4096)
                    self.tell_ends()
                if self.listener.fileno() in ready:
                    self.answer(self.listener.accept()[0])

    def tell_ends(self) -> None:
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                connection = self.forks.pop(ended[0])
                # The process that requested the fork may have ended.
                with suppress(OSError):
                    connection.sendall(forked_python.INTEGER.pack(os.waitstatus_to_exitcode(ended[1])))
                connection.close()

    def answer(self, connection: socket.socket) -> None:
        length, descriptors, _, _ = socket.recv_fds(connection, forked_python.INTEGER.size, MOST_DESCRIPTORS)
        text = connection.recv(*forked_python.INTEGER.unpack(length), socket.MSG_WAITALL)
        pid = os.fork()
        if pid == 0:
            run(Request(**json.loads(text), descriptors=descriptors))
        for descriptor in descriptors:
            os.close(descriptor)
        self.forks[pid] = connection
        with suppress(OSError):
            connection.sendall(forked_python.INTEGER.pack(pid))


def run(request: Request) -> NoReturn:
    """Run the program to its end in this fork."""
    if request.session:
        os.setsid()
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN if request.ignores_sigint else signal.default_int_handler)
    take_descriptors(request)
    os.chdir(request.cwd)
    write_over_own_memory(request.command, request.env)
    os.environ.clear()
    os.environ.update(request.env)
    os.execv = become  # type: ignore[assignment]  # returns as little as the real one
    run_program(request.command)


def take_descriptors(request: Request) -> None:
    """Move the standard streams and the inherited descriptors to their numbers, and close all others."""
    # Above all requested numbers, so that no copy overwrites a descriptor that is not copied yet.
    beyond = max(3, *request.inherited, *request.descriptors) + 1
    moved = [os.dup2(one, beyond + number) for number, one in enumerate(request.descriptors)]
    for place, descriptor in zip((0, 1, 2, *request.inherited), moved, strict=True):
        os.dup2(descriptor, place)
    close_all_but({0, 1, 2, *request.inherited})
    for stream, descriptor, mode in (("stdin", 0, "r"), ("stdout", 1, "w"), ("stderr", 2, "w")):
        errors = "backslashreplace" if descriptor == 2 else "strict"
        file = open(descriptor, mode, encoding="utf-8", errors=errors, closefd=False)  # noqa: SIM115
        setattr(sys, stream, file)
        setattr(sys, f"__{stream}__", file)


def close_all_but(kept: set[int]) -> None:
    for descriptor in [int(name) for name in os.listdir("/proc/self/fd")]:  # noqa: PTH208
        if descriptor not in kept:
            with suppress(OSError):
                os.close(descriptor)


def write_over_own_memory(command: Sequence[str], env: Mapping[str, str]) -> None:
    """Write command line and environment to the memory that `/proc` shows: proc(5), stat fields 48 to 51."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    for begin, end, words in (
        (fields[45], fields[46], command),
        (fields[47], fields[48], [f"{name}={value}" for name, value in env.items()]),
    ):
        room = int(end) - int(begin)
        text = b"".join(os.fsencode(word) + b"\0" for word in words)
        assert len(text) <= room, "the asker looks whether it fits"
        ctypes.memmove(int(begin), text.ljust(room, b"\0"), room)


def become(program: str, command: Sequence[str]) -> NoReturn:
    """Replace `os.execv`: run a program of this Python here, without starting a new interpreter."""
    if program != sys.executable or command[1] not in ("-m", "-c"):
        _exec(program, command)
    close_all_but({fd for fd in map(int, os.listdir("/proc/self/fd")) if is_inherited(fd)})  # noqa: PTH208
    write_over_own_memory(command, os.environ)
    run_program(command)


def is_inherited(descriptor: int) -> bool:
    with suppress(OSError):
        return os.get_inheritable(descriptor)
    return False


def run_program(command: Sequence[str]) -> NoReturn:
    """Run `-m MODULE …` or `-c PROGRAM …`, and end as Python does."""
    _, flag, program, *arguments = command
    more = [place for place in os.environ.get("PYTHONPATH", "").split(os.pathsep) if place]
    here = str(Path.cwd()) if flag == "-m" else ""
    sys.path[:] = [here, *more, *_own_path]
    sys.argv[:] = [flag, *arguments]
    try:
        if flag == "-m":
            # Run the module as if it were not loaded yet.
            sys.modules.pop(program, None)
            runpy.run_module(program, run_name="__main__", alter_sys=True)
        else:
            main = type(sys)("__main__")
            sys.modules["__main__"] = main
            exec(compile(program, "<string>", "exec"), main.__dict__)
        code = 0
    except SystemExit as asked:
        code = exit_code(asked.code)
    except BaseException as error:  # noqa: BLE001  # shown, as Python does
        sys.excepthook(type(error), error, error.__traceback__)
        code = -signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1
    end(code)


def exit_code(asked: Any) -> int:
    if asked is None or isinstance(asked, int):
        return (asked or 0) & 0xFF
    sys.stderr.write(f"{asked}\n")
    return 1


def end(code: int) -> NoReturn:
    """Do what Python does at its exit, without freeing every object."""
    with suppress(BaseException):
        threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


def main() -> None:
    for module in PRELOADED:
        importlib.import_module(module)
    # A fork would not have the other threads, but would have their locks. Arrow and jemalloc support forks.
    assert threading.active_count() == 1
    # Otherwise the first garbage collection in each fork would copy all loaded memory.
    gc.collect()
    gc.freeze()
    shorten(pytest.MonkeyPatch().setattr)
    forked_python.use(forked_python.ForkServer(sys.argv[1]))
    local_launch.Popen = forked_python.forked
    Server(socket.socket(fileno=int(sys.argv[2]))).serve()


if __name__ == "__main__":
    main()
