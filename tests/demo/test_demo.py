"""`make demo` and `make demo-stop` as a user runs them, and their output."""

from __future__ import annotations

import os
import re
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from tests.support.eventually import eventually
from tidemill.dev.airflow_api import log_in
from tidemill.dev.broker import find_broker
from tidemill.dev.demo import STREAMS, Demo
from tidemill.dev.demo_view import look
from tidemill.spec.project_folder import Project

REPOSITORY = Path(__file__).resolve().parents[2]
DEMO = Demo(Project(REPOSITORY))

# Every process of the demo inherits it, also those that outlive `make`.
MARK = f"TIDEMILL_TEST_OF_DEMO={uuid4().hex}"

# Maximum time for the demo to start, show its first windows and stop, on a busy machine.
TIMEOUT_SECONDS = 600


def make(target: str) -> subprocess.CompletedProcess[str]:
    """Run a target with no terminal, as CI and a script do."""
    name, _, value = MARK.partition("=")
    return subprocess.run(
        ["make", "--no-print-directory", target],
        cwd=REPOSITORY,
        env={**os.environ, name: value},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=TIMEOUT_SECONDS,
    )


def processes() -> list[str]:
    """Return the command line of each process that the demo has started."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if MARK.encode() in (process / "environ").read_bytes().split(b"\0"):
                found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue  # The process has ended, or belongs to another user.
    return found


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=10):  # the demo's own Airflow
            return True
    except urllib.error.URLError:
        return False


@pytest.fixture
def ended() -> Iterator[None]:
    """Stop everything that the test has started, whatever its result, but nothing else."""
    assert find_broker(DEMO.folder / "broker") is None, "a demo runs in this folder: end it by make demo-stop"
    yield
    make("demo-stop")


@pytest.mark.timeout(3 * TIMEOUT_SECONDS)
@pytest.mark.usefixtures("ended")
def test_a_person_sees_windows_and_alerts_and_ends_all_of_it() -> None:
    before = look(DEMO.plane()).rows if DEMO.environment_file.exists() else {}

    begun = make("demo")
    assert begun.returncode == 0, begun.stdout
    assert re.search(r"^broker      \S+:\d+$", begun.stdout, re.MULTILINE), begun.stdout
    address = re.search(r"^airflow     (\S+)  user (\S+)  password (\S+)$", begun.stdout, re.MULTILINE)
    page = re.search(r"^page        (\S+)$", begun.stdout, re.MULTILINE)
    assert address, begun.stdout
    assert page, begun.stdout
    assert re.search(r"^rows \d+  windows [1-9]\d*  alerts \d+ ", begun.stdout, re.MULTILINE), begun.stdout
    assert re.search(r"^first windows are committed: [1-9]\d*; all goes on", begun.stdout, re.MULTILINE)

    # The demo continues without a terminal: users can log in to the page, and each table gets new rows.
    assert answers(page[1])
    assert {f"stream__{name}" for name in STREAMS} <= set(log_in(*address.groups()).dag_ids())
    plane = DEMO.plane()
    streamed = ("bronze/iot_events", "silver/iot_device_windows", "silver/iot_alerts")

    def all_have_more() -> bool:
        rows = look(plane).rows
        return all(rows[table] > before.get(table, 0) for table in streamed)

    eventually(all_have_more, "each table has new rows", 180, 1)
    running = processes()
    for what in ("kafka.Kafka", "produce iot_events", *(f"--pipeline {name}" for name in STREAMS)):
        assert any(what in process for process in running), (what, running)

    ended = make("demo-stop")
    assert ended.returncode == 0, ended.stdout
    for line in (
        "airflow     stopped",
        *(f"stream      {n} drained" for n in STREAMS),
        "broker      stopped",
    ):
        assert line in ended.stdout.splitlines()
    assert processes() == []
    assert not answers(page[1])
    kept = look(plane)
    assert all(kept.rows[table] > before.get(table, 0) for table in streamed)
    assert [status.state for status in kept.statuses.values() if status] == ["stopped"] * len(STREAMS)
