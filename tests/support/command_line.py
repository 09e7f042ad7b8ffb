"""The command line as a test uses it: in this process, in one project, its output kept."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tidemill.cli.app import main


class CommandLine:
    """Runs `tidemill` in one project folder."""

    def __init__(self, folder: Path, read_output: Callable[[], Any]) -> None:
        self.folder = folder
        self._read_output = read_output
        self.out = ""
        self.err = ""

    def __call__(self, *arguments: str) -> int:
        """Run a command; returns its exit code."""
        # Discard earlier output of the test, such as a driver's log lines.
        self._read_output()
        exit_code = main(["--project", str(self.folder), "--env", "local", *arguments])
        printed = self._read_output()
        self.out, self.err = printed.out, printed.err
        return exit_code

    def json(self, *arguments: str) -> Any:
        """Return the `--json` output of a command that must succeed."""
        assert self(*arguments, "--json") == 0, self.err
        return json.loads(self.out)
