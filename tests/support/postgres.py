"""A real PostgreSQL for the run, from the archive that set-up has fetched."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg

from tests.support.eventually import eventually
from tidemill.dev.ports import LOOPBACK, free_ports
from tidemill.jars import jars_folder

# A password with characters that are special in a connection string.
PASSWORD = "p@ss/w:rd '%&"

# PostgreSQL refuses to run as root; in a container the tests often are.
_NOBODY = 65534


@dataclass
class PostgresServer:
    """A server in a folder.

    Args:
        folder: Folder with `bin`, which has the programs, and `data`.
        port: On the loopback interface.
    """

    folder: Path
    port: int
    process: subprocess.Popen[bytes] | None = None

    @property
    def connection_string(self) -> str:
        """Return the connection string that a secret would hold."""
        return f"postgresql://postgres:{quote(PASSWORD, safe='')}@{LOOPBACK}:{self.port}/postgres"

    def start(self) -> None:
        """Start the server with its existing data, and wait until it answers."""
        options = ["-D", self.folder / "data", "-p", str(self.port), "-k", "", "-h", LOOPBACK, "-F"]
        with (self.folder / "log").open("ab") as log:
            command = [self.folder / "bin/postgres", *options]
            self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder, **_as_user())
        eventually(self._answers, "PostgreSQL answers")

    def stop(self) -> None:
        """Stop it at once, as a crash does: open transactions are lost, committed ones are not."""
        if self.process is not None:
            self.process.send_signal(3)  # SIGQUIT, its "immediate shutdown"
            self.process.wait(timeout=30)
            self.process = None

    def run(self, *statements: str) -> list[tuple[Any, ...]]:
        """Run statements in one transaction; the rows of the last."""
        with psycopg.connect(self.connection_string) as connection:
            for statement in statements:
                done = connection.execute(statement)  # type: ignore[call-overload]  # texts of the tests
            return done.fetchall() if done.description else []

    def _answers(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, (self.folder / "log").read_text()
        try:
            psycopg.connect(self.connection_string, connect_timeout=5).close()
        except psycopg.OperationalError:
            return False
        return True


@contextmanager
def running_postgres() -> Iterator[PostgresServer]:
    """Yield a server in a temporary folder, which is removed with it."""
    # Use a folder outside of pytest's, because another user cannot read pytest's folder.
    folder = Path(tempfile.mkdtemp(prefix="tidemill-postgres-"))
    folder.chmod(0o755)
    server = PostgresServer(folder, free_ports(1)[0])
    try:
        _unpack(folder)
        _make_data(folder)
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder)


def _unpack(folder: Path) -> None:
    (jar,) = jars_folder("postgres").glob("*.jar")
    with zipfile.ZipFile(jar) as files:
        (name,) = (name for name in files.namelist() if name.endswith(".txz"))
        with tarfile.open(fileobj=io.BytesIO(files.read(name)), mode="r:xz") as programs:
            programs.extractall(folder, filter="tar")


def _make_data(folder: Path) -> None:
    data, password = folder / "data", folder / "password"
    data.mkdir()
    password.write_text(PASSWORD)
    if os.geteuid() == 0:
        os.chown(data, _NOBODY, _NOBODY)
    login = ["-U", "postgres", "-A", "scram-sha-256", f"--pwfile={password}"]
    command = [folder / "bin/initdb", "-D", data, *login, "-E", "UTF8", "--locale=C", "--no-sync"]
    subprocess.run(command, check=True, capture_output=True, cwd=folder, **_as_user())


def _as_user() -> dict[str, Any]:
    if os.geteuid() != 0:
        return {}
    return {"user": _NOBODY, "group": _NOBODY, "extra_groups": []}
