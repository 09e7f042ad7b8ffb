"""The object stores of a test run: processes on the loopback interface that end with the run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError

from tests.support.certificates import Certificates
from tests.support.eventually import eventually
from tidemill.dev.ports import LOOPBACK, free_ports

REPOSITORY = Path(__file__).resolve().parents[2]
INSTALLED = REPOSITORY / ".cache" / "stores"

# Azurite's own account, the same on every machine; its key is printed in its manual.
AZURITE_ACCOUNT = "devstoreaccount1"
AZURITE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="

S3_ACCESS_KEY = "tests"
S3_SECRET_KEY = "only-on-loopback"

# Seconds for a server to answer; about one on a quiet machine.
START_SECONDS = 60


@dataclass(frozen=True)
class StoreServer:
    """One running server.

    Args:
        endpoint: Scheme, host and port.
        folder: Folder of the server's objects.
    """

    endpoint: str
    folder: Path


@contextmanager
def azurite(folder: Path, certificates: Certificates | None = None) -> Iterator[StoreServer]:
    """Run Azurite's blob service in memory, because on disk it loses its last seconds when it is killed.

    Without certificates it accepts only the account's key; with them it also accepts Azure tokens.
    """
    start = REPOSITORY / "tests" / "support" / "azurite" / "start.js"
    installed = INSTALLED / "azurite"
    _require(installed / "node_modules")
    options = ("--blobHost", LOOPBACK, "--blobPort", "0", "--inMemoryPersistence")
    quiet = ("--silent", "--skipApiVersionCheck", "--disableTelemetry")
    tokens: tuple[str, ...] = ()
    if certificates is not None:
        files = ("--cert", str(certificates.certificate), "--key", str(certificates.key))
        tokens = (*files, "--oauth", "basic")
    with _server(["node", str(start), str(installed), *options, *quiet, *tokens], folder) as log:
        yield StoreServer(_said_address(log), folder)


@contextmanager
def identity_provider(folder: Path, certificates: Certificates, proof: str) -> Iterator[str]:
    """Yield the address of who gives tokens for `proof`, and for nothing else."""
    files = (str(certificates.certificate), str(certificates.key))
    command = [sys.executable, "-m", "tests.support.identity_provider", *files, proof]
    path = {"PYTHONPATH": os.pathsep.join(sys.path)}
    with _server(command, folder, path) as log:
        yield _said_address(log)


@contextmanager
def s3_server(folder: Path) -> Iterator[StoreServer]:
    """Yield an S3 server over a folder, in which each folder is a bucket."""
    program = INSTALLED / "s3-server"
    _require(program)
    data = folder / "buckets"
    data.mkdir()
    (port,) = free_ports(1)
    variables = {"ROOT_ACCESS_KEY": S3_ACCESS_KEY, "ROOT_SECRET_KEY": S3_SECRET_KEY}
    options = ("--quiet", "--health", "/health", "--port", f"{LOOPBACK}:{port}")
    with _server([str(program), *options, "posix", str(data)], folder, variables) as log:
        endpoint = f"http://{LOOPBACK}:{port}"
        eventually(lambda: _answers(f"{endpoint}/health"), f"the S3 server answers; see {log}", START_SECONDS)
        yield StoreServer(endpoint, data)


@contextmanager
def _server(
    command: Sequence[str], folder: Path, variables: Mapping[str, str] | None = None
) -> Iterator[Path]:
    """Run a process during this block, and yield its log. It also ends if this process is killed."""
    log = folder / "server.log"
    # The shell waits for the end of its input, which comes with the end of this process, however it ends.
    guarded = ["sh", "-c", '"$@" & server=$!; cat > /dev/null; kill $server; wait $server', "sh", *command]
    with log.open("wb") as output:
        process = subprocess.Popen(
            guarded,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env={**os.environ, **(variables or {})},
        )
    try:
        yield log
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.wait()


def _said_address(log: Path) -> str:
    listens = re.compile(rf"listens on (https?://{re.escape(LOOPBACK)}:\d+)")
    found = eventually(lambda: listens.search(log.read_text()), f"a server listens; see {log}", START_SECONDS)
    assert found is not None
    return found[1]


def _require(installed: Path) -> None:
    assert installed.exists(), f"{installed} is missing: make stores"


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=1) as answer:
            return bool(answer.status == 200)
    except (URLError, OSError):
        return False
