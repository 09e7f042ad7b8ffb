"""A fork in place of a new Python process cannot be distinguished from one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.forked_python import ROOM, ForkedProcess, forked, run_forked

# Program that prints what it sees of itself and what other processes see of it.
LOOK = """
import json, os, signal, sys
from pathlib import Path

def words(file):
    return [word for word in Path(f"/proc/self/{file}").read_text().split("\\0") if word]

signals = ("SIGINT", "SIGTERM", "SIGCHLD")
print(json.dumps({
    "arguments": sys.argv, "command": words("cmdline"), "name": __name__, "path": sys.path[:2],
    "variables": dict(os.environ) | {"LC_CTYPE": ""}, "shown": sorted(words("environ")),
    "descriptors": sorted(os.listdir("/proc/self/fd")), "locked": os.fstat(int(sys.argv[1])).st_ino,
    "handlers": [str(signal.getsignal(getattr(signal, name))) for name in signals],
    "folder": os.getcwd(), "leads": os.getsid(0) == os.getpid(), "input": sys.stdin.read(),
    "threads": len(os.listdir("/proc/self/task")),
}))
sys.stdout.flush()
print("as an error", file=sys.stderr)
"""


def looked(start: Callable[..., Any], folder: Path, *program: str) -> dict[str, Any]:
    """Start the program with all options, and return its output."""
    out, err = folder / "out", folder / "err"
    with (folder / "lock").open("w") as lock, out.open("wb") as stdout, err.open("wb") as stderr:
        number = lock.fileno()
        process = start(
            [sys.executable, *program, str(number), "two words"],
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            cwd=folder,
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(folder), "MARK": "ü=1"},
            start_new_session=True,
            pass_fds=[number],
        )
        assert process.wait(60) == 0, err.read_text()
    assert err.read_text() == "as an error\n"
    return dict(json.loads(out.read_text()))


@pytest.mark.parametrize("flag", ["-c", "-m"])
def test_a_fork_is_like_the_process_that_it_stands_for(tmp_path: Path, flag: str) -> None:
    (tmp_path / "looks.py").write_text(LOOK)
    program = (flag, LOOK if flag == "-c" else "looks")
    assert looked(forked, tmp_path, *program) == looked(subprocess.Popen, tmp_path, *program)


@pytest.mark.parametrize(
    "program",
    [
        "pass",
        "import sys; sys.exit(70)",
        "import sys; sys.exit('the reason')",
        "raise ValueError('no')",
        "raise KeyboardInterrupt",
        "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
        "import os; os._exit(9)",
        "import atexit; atexit.register(print, 'at exit'); print('before')",
        "import threading; threading.Timer(0.05, print, ['in a thread']).start()",
        "import os; os.execv('/bin/sh', ['sh', '-c', 'echo $MARK; exit 3'])",
        "import os, sys; os.execv(sys.executable, [sys.executable, '-m', 'json.tool', '--x'])",
    ],
)
def test_a_fork_ends_like_the_process_that_it_stands_for(tmp_path: Path, program: str) -> None:
    command, env = [sys.executable, "-c", program], {"MARK": "mark"}
    real = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, check=False)
    fork = run_forked(command, env=env, cwd=tmp_path)
    assert (fork.returncode, fork.stdout) == (real.returncode, real.stdout)
    assert fork.stderr.splitlines()[-1:] == real.stderr.splitlines()[-1:]


def test_a_signal_reaches_a_fork_and_its_end_is_known(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    os.mkfifo(ready)
    wait = f"import pathlib, signal; pathlib.Path({str(ready)!r}).write_text('x'); signal.pause()"
    process = forked([sys.executable, "-c", wait])
    assert ready.read_text() == "x"
    assert process.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.01)
    process.send_signal(signal.SIGTERM)
    assert (process.wait(30), process.poll()) == (-signal.SIGTERM, -signal.SIGTERM)
    assert not Path(f"/proc/{process.pid}").exists()


def test_a_fork_starts_forks(tmp_path: Path) -> None:
    inner = "from tests.support.forked_python import run_forked; import sys; "
    inner += "print(run_forked([sys.executable, '-c', 'print(1)']).stdout)"
    assert run_forked([sys.executable, "-c", inner], cwd=tmp_path).stdout == "1\n\n"


@pytest.mark.parametrize(
    ("command", "env"),
    [
        (["/bin/sh", "-c", "exit 3"], {}),
        ([sys.executable, "-S", "-c", "import sys; sys.exit(3)"], {}),
        ([sys.executable, "-c", "import sys; sys.exit(3)"], {"LARGE": "x" * ROOM}),
    ],
)
def test_what_no_fork_can_be_is_a_process_as_usual(command: list[str], env: dict[str, str]) -> None:
    process = forked(command, env=env)
    assert not isinstance(process, ForkedProcess)
    assert process.wait(30) == 3
