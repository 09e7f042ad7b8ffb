"""Set-up on machines that lack something: one line, and the command that installs it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# Programs that set-up looks for, as stubs that do nothing; the fake Java prints a version like the real one.
TOOLS = ("make", "git", "mvn", "javac", "cc")
JAVA = """#!/bin/sh
echo 'openjdk version "{version}" 2025-04-15' >&2
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return the files that set-up reads, without anything that it has made."""
    folder = tmp_path / "checkout"
    shutil.copytree(ROOT / "docker", folder / "docker")
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """Return a folder for PATH with everything that set-up needs."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for tool in TOOLS:
        write_program(folder / tool, "#!/bin/sh\n")
    write_program(folder / "java", JAVA.format(version="17.0.15"))
    write_program(folder / "python3", f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    (folder / "dirname").symlink_to(str(shutil.which("dirname")))
    return folder


def write_program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def set_up(checkout: Path, programs: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    command = ["/bin/sh", str(checkout / "docker" / "setup.sh")]
    variables = {"PATH": str(programs), **environment}
    return subprocess.run(command, env=variables, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("tool", "package"),
    [
        ("java", "openjdk-17-jdk-headless"),
        ("javac", "openjdk-17-jdk-headless"),
        ("cc", "gcc"),
        ("mvn", "maven"),
        ("make", "make"),
        ("git", "git"),
        ("python3", "python3-venv"),
    ],
)
def test_a_missing_tool_is_told_in_one_line_with_the_command_that_installs_it(
    checkout: Path, programs: Path, tool: str, package: str
) -> None:
    (programs / tool).unlink()
    told = set_up(checkout, programs)
    assert told.returncode == 1
    assert told.stdout == ""
    (line,) = told.stderr.splitlines()
    assert "is missing" in line
    assert "apt-get install" in line
    assert package in line


def test_every_missing_tool_is_told_before_anything_is_made(checkout: Path, programs: Path) -> None:
    for tool in ("java", "javac", "mvn"):
        (programs / tool).unlink()
    told = set_up(checkout, programs)
    assert len(told.stderr.splitlines()) == 3
    assert not (checkout / ".venv").exists()


@pytest.mark.parametrize("version", ["1.8.0_402", "11.0.22", "25.0.1"])
def test_a_java_that_spark_does_not_run_on_is_refused(checkout: Path, programs: Path, version: str) -> None:
    write_program(programs / "java", JAVA.format(version=version))
    told = set_up(checkout, programs)
    assert told.returncode == 1
    assert f"found {version.split('.')[0]}" in told.stderr


def test_the_java_of_java_home_counts_as_it_does_for_spark(
    checkout: Path, programs: Path, tmp_path: Path
) -> None:
    home = tmp_path / "java-11"
    (home / "bin").mkdir(parents=True)
    write_program(home / "bin" / "java", JAVA.format(version="11.0.22"))
    write_program(home / "bin" / "javac", "#!/bin/sh\n")
    told = set_up(checkout, programs, JAVA_HOME=str(home))
    assert "found 11" in told.stderr


def test_a_python_that_is_too_old_is_told_in_one_line(checkout: Path, programs: Path) -> None:
    # An old Python answers the question for its version with 1.
    write_program(programs / "python3", "#!/bin/sh\nexit 1\n")
    told = set_up(checkout, programs)
    assert told.returncode == 1
    assert len(told.stderr.splitlines()) == 1


def test_set_up_of_this_checkout_is_done_and_needs_no_network() -> None:
    # A registry that cannot be reached: set-up must not even ask.
    nowhere = "http://127.0.0.1:9"
    environment = {**os.environ, "UV_INDEX_URL": nowhere, "PIP_INDEX_URL": nowhere, "HTTPS_PROXY": nowhere}
    command = ["/bin/sh", str(ROOT / "docker" / "setup.sh")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
