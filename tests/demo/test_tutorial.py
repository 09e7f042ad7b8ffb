"""The tutorial's commands, in order, in one shell, as a user types them."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable

REPOSITORY = Path(__file__).resolve().parents[2]
PAGE = REPOSITORY / "docs/tutorial.md"

# Code blocks that the page marks as commands to type.
COMMANDS = re.compile(r"<!-- run -->\n```\n(.*?)```", re.DOTALL)

# Five drivers start; each takes up to two minutes on a busy machine.
TIMEOUT_SECONDS = 900


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Yield an empty folder, and stop all drivers of projects in it after the test."""
    yield tmp_path
    subprocess.run(["pkill", "-KILL", "-f", f"--project {tmp_path}"], check=False)


@pytest.mark.timeout(TIMEOUT_SECONDS)
def test_the_tutorials_commands_end_with_each_order_once(folder: Path) -> None:
    blocks = COMMANDS.findall(PAGE.read_text())
    path = f"{REPOSITORY / '.venv/bin'}:{os.environ['PATH']}"

    shell = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", "\n".join(blocks)],
        cwd=folder,
        env={**os.environ, "PATH": path},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )

    assert shell.returncode == 0, shell.stdout
    orders = DeltaTable(folder / "tutorial/.data/tables/bronze/orders").to_pyarrow_table()
    assert sorted(orders["order_id"].to_pylist()) == [1, 2, 3]
    # The outputs that the page quotes.
    assert "1 quarantined, 0 late, 0 without event time, 0 dropped" in shell.stdout
    assert "wrong_type:order_id" in shell.stdout
    assert "killed" in shell.stdout
    assert "batches 1-1 are undone" in shell.stdout
