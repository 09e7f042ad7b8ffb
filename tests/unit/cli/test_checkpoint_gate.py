from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.checkpoints import write_checkpoint
from tests.support.command_line import CommandLine
from tests.support.conf_project import ConfProject
from tests.support.delta_logs import LogCommit, write_log
from tidemill.checkpoint.holds import Hold, take_hold
from tidemill.names import transaction_id
from tidemill.storage.store import Store

TABLE = "bronze/orders"


@pytest.fixture
def ran(project: ConfProject) -> Path:
    """Run two batches of `orders`, and return its checkpoint. No broker answers."""
    layout = project.resolve().layout
    checkpoint = Path(layout.checkpoint("orders", "g0001"))
    write_checkpoint(checkpoint, [0, 1], [0, 1])
    app_id = transaction_id("orders", "g0001", TABLE)
    write_log(layout.table(TABLE), [LogCommit(transaction=(app_id, batch_id)) for batch_id in (0, 1)])
    return checkpoint


def test_a_healthy_pipeline_may_start(tidemill: CommandLine, ran: Path) -> None:
    answer = tidemill.json("checkpoint", "gate", "orders")
    assert (answer["may_start"], answer["findings"], answer["running_driver"]) == (True, [], None)
    assert (answer["generation"], answer["planned_batch"], answer["committed_batch"]) == ("g0001", 1, 1)
    assert answer["tables"] == {TABLE: 1}


def test_a_broker_that_is_away_is_said_and_refuses_nothing(tidemill: CommandLine, ran: Path) -> None:
    assert tidemill("checkpoint", "gate", "orders") == 0
    assert "The broker was not asked: TIDE-SRC-001" in tidemill.out
    assert tidemill.out.splitlines()[-1] == "orders may start: g0001 batch 1 planned, 1 finished"


def test_everything_that_speaks_against_a_start_is_told_at_once(
    tidemill: CommandLine, project: ConfProject, ran: Path
) -> None:
    layout = project.resolve().layout
    hold = Hold(id="by-anna", by="anna", why="looking at rows")
    take_hold(Store(layout.root), layout, "orders", hold)
    for name in ("metadata", "offsets/1", "commits/1"):
        (ran / name).unlink()
    assert tidemill("checkpoint", "gate", "orders", "--json") == 1
    found = json.loads(tidemill.out)["findings"]
    assert [finding["id"] for finding in found] == ["TIDE-CKPT-029", "TIDE-CKPT-010", "TIDE-CKPT-004"]
    assert tidemill("checkpoint", "gate", "orders") == 1
    assert "checkpoint release orders by-anna" in tidemill.out
    assert tidemill.out.splitlines()[-1] == "orders must not start: g0001 batch 0 planned, 0 finished"


def test_a_pipeline_that_never_ran_may_start(tidemill: CommandLine, project: ConfProject) -> None:
    project.write("conf/pipelines/clock.yaml", CLOCK)
    assert tidemill("checkpoint", "gate", "clock") == 0
    assert tidemill.out == "clock may start: g0001 has never run\n"


CLOCK = """
description: Rows made from the clock.
owner: tests
source: {rate: {}}
sinks:
  - delta: {table: bronze/clock}
"""
