"""A driver's heartbeat: read by the process that started it, and written even if nothing else works."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.fake_driver import ROOT
from tidemill.engine import heartbeat
from tidemill.engine.heartbeat import HEARTBEAT_VARIABLE, Heartbeat, read_heartbeat


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "orders.heartbeat"


def test_a_beat_ends_the_silence(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [time.monotonic() - 3600]
    monkeypatch.setattr(heartbeat.time, "monotonic", lambda: clock[0])
    beating = Heartbeat(str(file))
    clock[0] += 900
    seen = read_heartbeat(file)
    assert seen is not None
    assert (seen.silence.total_seconds(), seen.exit_code) == (pytest.approx(900, abs=0.01), None)
    beating.beat()
    seen = read_heartbeat(file)
    assert seen is not None
    assert seen.silence.total_seconds() == pytest.approx(0, abs=0.01)


def test_the_end_is_told_with_its_code_and_error(file: Path) -> None:
    Heartbeat(str(file)).end(69, "TIDE-STOR-003")
    seen = read_heartbeat(file)
    assert seen is not None
    assert (seen.exit_code, seen.error_id) == (69, "TIDE-STOR-003")
    Heartbeat(str(file)).end(0)
    seen = read_heartbeat(file)
    assert seen is not None
    assert (seen.exit_code, seen.error_id) == (0, "")


def test_every_line_has_the_same_length(file: Path) -> None:
    beating = Heartbeat(str(file))
    sizes = {file.stat().st_size}
    for code, error in ((0, ""), (69, "TIDE-STOR-003"), (255, "x" * 100), (255, "TIDE-INT-001")):
        beating.end(code, error)
        sizes.add(file.stat().st_size)
        assert len(file.read_text().splitlines()) == 1
    assert len(sizes) == 1


@pytest.mark.parametrize("content", ["", "\0" * 40, "a b c", "1.0 - -  extra", "1.0", "ä - -"])
def test_a_damaged_heartbeat_says_nothing(file: Path, content: str) -> None:
    file.write_text(content)
    assert read_heartbeat(file) is None


def test_without_a_file_nothing_is_said_and_nothing_fails(file: Path) -> None:
    assert read_heartbeat(file) is None
    Heartbeat(None).end(0)
    Heartbeat(str(file.parent / "missing" / "x")).beat()
    Heartbeat.of_this_process({}).beat()
    assert not file.exists()
    Heartbeat.of_this_process({HEARTBEAT_VARIABLE: str(file)})
    assert read_heartbeat(file) is not None


FILLS_THE_DISK = """
import resource, sys, pathlib
from tidemill.engine.heartbeat import Heartbeat
beating = Heartbeat(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (pathlib.Path(sys.argv[1]).stat().st_size, resource.RLIM_INFINITY))
try:
    pathlib.Path(sys.argv[1] + ".receipt").write_text("x" * 1000)
except OSError:
    beating.end(69, "TIDE-STOR-003")
"""


def test_a_driver_that_can_write_no_receipt_still_says_how_it_ends(file: Path) -> None:
    variables = {"PYTHONPATH": str(ROOT / "spark_apps")}
    subprocess.run([sys.executable, "-c", FILLS_THE_DISK, str(file)], check=True, env=variables)
    seen = read_heartbeat(file)
    assert seen is not None
    assert (seen.exit_code, seen.error_id) == (69, "TIDE-STOR-003")
