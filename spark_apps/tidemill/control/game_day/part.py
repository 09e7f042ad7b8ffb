"""`python -m tidemill.control.game_day.part --pipeline NAME …`: a game day in a pod of the drivers' image.

The copy's drivers are processes of this pod. It calls no Kubernetes API, and everything ends with the pod.
"""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from tidemill.control.game_day.play import rehearse
from tidemill.control.procedures.run import Asking
from tidemill.engine.part_process import run_process
from tidemill.spec.pod import POD_VARIABLES
from tidemill.spec.project import Pipeline


def main() -> int:
    """Run the game day of the arguments; the answer is the `GameDay`."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--request", required=True)
    parser.add_argument("--by", required=True)
    parser.add_argument("--drill", action="append", required=True)
    return run_process(parser, _play)


def _play(pipeline: Pipeline, arguments: argparse.Namespace) -> dict[str, Any]:
    # A terminating pod removes the copy first, within its grace period.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    for name in POD_VARIABLES:
        # The copy's drivers must not use the identity of this pod.
        os.environ.pop(name, None)
    with tempfile.TemporaryDirectory() as folder:
        environment = replace(pipeline.environment, run_root=Path(folder))
        here = replace(pipeline, environment=environment)
        asking = Asking("fork", (), arguments.by, _command, reason="game day", request_id=arguments.request)
        day = rehearse(here, asking, arguments.drill, _tell)
    return day.as_document()


def _tell(step: str) -> None:
    sys.stdout.write(f"{step}\n")
    sys.stdout.flush()


def _command(*words: str) -> str:
    return shlex.join(["tidemill", *words])


if __name__ == "__main__":
    sys.exit(main())
