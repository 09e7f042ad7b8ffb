"""An operation of the command line, in a separate process, that pauses in a step and continues later."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.support.eventually import eventually
from tests.support.fake_driver import ROOT
from tests.support.forked_python import ForkedProcess, forked

# Waits before it calls a function of Tidemill for the Nth time, until the file `go` exists.
_PROGRAM = """
import importlib, sys, time
from pathlib import Path

module, _, name = sys.argv[1].rpartition(":")
calls_before, folder, arguments = int(sys.argv[2]), Path(sys.argv[3]), sys.argv[4:]
owner = importlib.import_module(module)
*path, last = name.split(".")
for part in path:
    owner = getattr(owner, part)
real, calls = getattr(owner, last), []

def paused(*given, **named):
    calls.append(1)
    if len(calls) == calls_before + 1:
        (folder / "paused").touch()
        while not (folder / "go").exists():
            time.sleep(0.02)
    return real(*given, **named)

setattr(owner, last, paused)
from tidemill.cli.app import main
from tidemill.sources import offsets
offsets.ANSWER_TIMEOUT_SECONDS = 0.1
sys.exit(main(arguments))
"""


@dataclass(frozen=True)
class PausedVerb:
    """A process that waits; `wake` lets it continue to its end."""

    process: ForkedProcess | subprocess.Popen[bytes]
    folder: Path

    def wake(self) -> tuple[int, str]:
        """Return the exit code and the error output."""
        (self.folder / "go").touch()
        return self.process.wait(60), said_by(self.folder)


def said_by(folder: Path) -> str:
    return (folder / "errors").read_text()


def pause_verb(project: Path, folder: Path, at: str, *arguments: str, calls_before: int = 0) -> PausedVerb:
    """Run a command, and wait until it pauses.

    Args:
        project: Project folder.
        folder: Empty, for its signs.
        at: `module:function` or `module:Class.method`, where it stops before a call.
        arguments: Arguments of `tidemill`.
        calls_before: Calls of that function that it does not stop at.
    """
    folder.mkdir()
    words = ["--project", str(project), "--env", "local", *arguments]
    with (folder / "errors").open("wb") as errors:
        process = forked(
            [sys.executable, "-c", _PROGRAM, at, str(calls_before), str(folder), *words],
            stdout=subprocess.DEVNULL,
            stderr=errors,
            cwd=ROOT,
            env={"PYTHONPATH": f"{ROOT / 'spark_apps'}", "HOME": str(folder)},
        )
    eventually(lambda: (folder / "paused").exists() or process.poll() is not None, f"it stops at {at}")
    assert process.poll() is None, said_by(folder)
    return PausedVerb(process, folder)
