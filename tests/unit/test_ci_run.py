"""The real script `.ci/run`, with fake programs that only record their arguments."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / ".ci" / "run"

# Records its arguments, prints pytest's output, and fails if it is asked to.
PROGRAM = """#!/bin/bash
echo "$(basename "$0") $*" >> "$CALLS"
[ "$*" = env ] && exec echo "export PATH='$PATH' STORAGE_DRIVER=overlay"
echo "1 passed in 0.1s ($(basename "$0") $*)"
[[ "$(basename "$0") $*" != $FAILING ]]
"""


@dataclass(frozen=True)
class Checkout:
    """A folder with the script, and programs in the place of all that it calls."""

    folder: Path
    programs: Path

    def run(self, failing: str = "", **more: str) -> subprocess.CompletedProcess[str]:
        """Run it with `more` variables; a program fails if its call matches the pattern `failing`."""
        variables = {
            "PATH": f"{self.programs}{os.pathsep}{os.environ['PATH']}",
            "CALLS": str(self.folder / "calls"),
            "FAILING": failing,
            # On the way of programs; the real one is where a test cannot put another.
            "CHROMIUM": str(self.programs / "chromium"),
            **more,
        }
        return subprocess.run(
            [str(self.folder / "repository" / ".ci" / "run")],
            env=variables,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    @property
    def calls(self) -> list[str]:
        return (self.folder / "calls").read_text().splitlines()

    def add_cluster(self) -> None:
        write_program(self.folder / "shared" / "cluster" / "cluster")


def write_program(file: Path, text: str = PROGRAM) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    file.chmod(0o755)


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    programs = tmp_path / "programs"
    for name in ("make", "helm", "chromium"):
        write_program(programs / name)
    # Report as much free disk as the images need.
    write_program(programs / "df", "#!/bin/bash\necho Avail\necho ${DISK:-100}\n")
    (tmp_path / "repository" / ".ci").mkdir(parents=True)
    shutil.copy(SCRIPT, tmp_path / "repository" / ".ci" / "run")
    return Checkout(tmp_path, programs)


TIERS = [
    "check",
    "test",
    "test-stores",
    "test-monitoring",
    "soak-kills ROUNDS=5",
    "test-demo",
    "test-helm",
    "test-browser",
]


def test_all_tiers_run_and_the_closing_line_of_make_test_comes_last(checkout: Checkout) -> None:
    checkout.add_cluster()
    done = checkout.run()
    assert done.returncode == 0, done.stdout + done.stderr
    made = [call.removeprefix("make ") for call in checkout.calls if call.startswith("make ")]
    beside = [call.split()[0] for call in made if call.startswith(("stores", "images IMAGE_LOAD"))]
    assert beside == ["stores", "images"]
    assert [call for call in made if call.split()[0] not in beside] == ["setup-tests", *TIERS, "e2e-core"]
    assert [call for call in checkout.calls if call.startswith("cluster ")] == [
        "cluster up", "cluster env", "cluster base"]  # fmt: skip
    assert done.stdout.splitlines()[-1] == "1 passed in 0.1s (make test)"


def test_the_time_of_each_tier_stands_beside_its_budget(checkout: Checkout) -> None:
    checkout.add_cluster()
    lines = checkout.run().stdout.splitlines()
    table = lines[
        lines.index(next(line for line in lines if line.split() == ["tier", "minutes", "budget"])) :
    ]
    found = {line.split()[0]: line.split()[1:3] for line in table[1:-1]}
    assert found["test"] == ["0.0", "16"]
    assert found["e2e-core"] == ["0.0", "12"]
    assert sum(int(budget) for _, budget in found.values()) <= 60


@pytest.mark.parametrize(
    "failing", ["cluster up", "cluster base", "make stores", "make images*", "make e2e-core"]
)
def test_what_does_not_come_up_where_a_cluster_can_be_had_is_a_failure(
    checkout: Checkout, failing: str
) -> None:
    checkout.add_cluster()
    done = checkout.run(failing)
    assert done.returncode != 0
    assert "FAILED" in done.stdout


def test_the_cluster_tool_of_the_variable_is_used(checkout: Checkout) -> None:
    write_program(checkout.folder / "elsewhere")
    done = checkout.run(CLUSTER_TOOL=str(checkout.folder / "elsewhere"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "elsewhere up" in checkout.calls


def test_too_little_disk_where_a_cluster_can_be_had_is_a_failure(checkout: Checkout) -> None:
    checkout.add_cluster()
    write_program(checkout.programs / "df", "#!/bin/bash\necho Avail\necho 3\n")
    done = checkout.run()
    assert done.returncode != 0
    assert "images need 15 GB of disk with the storage driver overlay" in done.stdout


def test_without_a_cluster_it_says_in_words_what_was_not_run(checkout: Checkout) -> None:
    done = checkout.run()
    assert done.returncode == 0, done.stdout + done.stderr
    assert checkout.calls == [f"make {target}" for target in ["setup-tests", *TIERS]]
    assert "NOT RUN: make e2e-core. There is no cluster" in done.stdout
    assert done.stdout.splitlines()[-1] == "1 passed in 0.1s (make test)"


def test_without_a_browser_that_can_be_had_it_says_that_the_page_was_not_run(checkout: Checkout) -> None:
    (checkout.programs / "chromium").unlink()
    write_program(checkout.programs / "apt-get", "#!/bin/bash\nexit 1\n")
    done = checkout.run()
    assert "make test-browser" not in checkout.calls
    assert "NOT RUN: make test-browser. There is no" in done.stdout


@pytest.mark.parametrize("failing", ["check", "test", "test-demo", "test-helm", "test-browser"])
def test_a_tier_that_fails_ends_the_run_and_is_named(checkout: Checkout, failing: str) -> None:
    done = checkout.run(f"make {failing}")
    assert done.returncode != 0
    (row,) = [line for line in done.stdout.splitlines() if line.endswith("FAILED")]
    assert row.split()[0] == failing
