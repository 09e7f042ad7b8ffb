"""A real MLflow server on loopback, with a database and files in a folder of the test.

`make mlflow` installs it into a separate environment, from the pins in `mlflow/`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.eventually import eventually
from tidemill.dev.ports import LOOPBACK, free_ports

PROGRAM = Path(__file__).parents[2] / ".cache/mlflow/bin/mlflow"

# It makes its database first.
START_TIMEOUT_SECONDS = 120


@dataclass(frozen=True)
class MlflowServer:
    """The server."""

    url: str

    def ask(self, what: str, given: Mapping[str, Any]) -> tuple[int, dict[str, Any]]:
        """Status and document, as the client of MLflow asks: the newest versions by POST, the rest by GET."""
        address = f"{self.url}/api/2.0/mlflow/{what}"
        if what == "registered-models/get-latest-versions":
            body, headers = json.dumps(dict(given)).encode(), {"Content-Type": "application/json"}
            request = urllib.request.Request(address, body, headers)
        else:
            request = urllib.request.Request(f"{address}?{urllib.parse.urlencode(given)}")
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def is_up(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/health", timeout=10):
                return True
        except OSError:
            return False


@contextmanager
def mlflow_server(folder: Path) -> Iterator[MlflowServer]:
    """Yield a server during a `with` block."""
    assert PROGRAM.is_file(), f"{PROGRAM} is missing: make mlflow"
    folder.mkdir()
    (port,) = free_ports(1)
    server = MlflowServer(f"http://{LOOPBACK}:{port}")
    command = [
        *(str(PROGRAM), "server", "--host", LOOPBACK, "--port", str(port), "--workers", "1"),
        *("--backend-store-uri", f"sqlite:///{folder}/registry.db"),
        *("--artifacts-destination", str(folder / "artifacts")),
    ]
    # Neither our packages nor our servers; and no jobs, whose seven processes a registry does without.
    variables = {n: v for n, v in os.environ.items() if not n.startswith(("MLFLOW_", "PYTHON"))}
    variables |= {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    with (folder / "server.log").open("wb") as log:
        # Use a separate session, because the workers are its children.
        process = subprocess.Popen(
            command, cwd=folder, env=variables, stdout=log, stderr=log, start_new_session=True
        )
    try:
        eventually(server.is_up, f"the server answers; see {folder}/server.log", START_TIMEOUT_SECONDS, 0.5)
        yield server
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
