"""The checks before each query: holds, gate, and the broker's facts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.support.checkpoints import write_checkpoint
from tests.support.commits import CODE
from tests.support.declared import declared
from tidemill.checkpoint.holds import Hold, take_hold
from tidemill.engine.admission import admit
from tidemill.engine.drain import Drain
from tidemill.engine.run_context import RunContext
from tidemill.errors import GateRefusedError, UnavailableError
from tidemill.storage.store import Store


def run_of(folder: Path, mode: Literal["stream", "incremental", "backfill"], **keys: Any) -> RunContext:
    pipeline = declared(folder, sinks=[{"console": {}}], **keys)
    generation = "" if mode == "backfill" else "g0001"
    return RunContext(pipeline, mode, "run-1", Store(pipeline.layout.root), Drain(), CODE, generation, 1)


def refusal_of(run: RunContext) -> str:
    with pytest.raises(GateRefusedError) as refused:
        admit(run)
    return refused.value.error_id


@pytest.mark.parametrize("mode", ["stream", "incremental", "backfill"])
def test_a_hold_keeps_every_mode_from_starting(
    tmp_path: Path, mode: Literal["stream", "incremental", "backfill"]
) -> None:
    run = run_of(tmp_path, mode, source={"rate": {}})
    assert admit(run) == run
    hold = Hold(id="rewind-1", by="anna", why="rewind to 3")
    take_hold(run.store, run.pipeline.layout, run.pipeline.name, hold)
    assert refusal_of(run) == "TIDE-CKPT-029"


def test_a_backfill_that_is_repeated_passes_its_own_hold_and_nobody_elses(tmp_path: Path) -> None:
    run = replace(run_of(tmp_path, "backfill", source={"rate": {}}), own_hold="backfill-1")
    place = (run.store, run.pipeline.layout, run.pipeline.name)
    take_hold(*place, Hold(id="backfill-1", by="backfill", why="fills the tables"))
    assert admit(run) == run
    assert refusal_of(replace(run, own_hold="backfill-2")) == "TIDE-CKPT-029"
    take_hold(*place, Hold(id="rewind-1", by="anna", why="rewind to 3"))
    assert refusal_of(run) == "TIDE-CKPT-029"


def test_a_backfill_does_not_ask_for_a_checkpoint(tmp_path: Path) -> None:
    run = run_of(tmp_path, "backfill", source={"rate": {}})
    folder = Path(run.pipeline.layout.checkpoint("orders", "g0001"))
    write_checkpoint(folder, [0, 1], [0, 1])
    (folder / "metadata").unlink()
    assert admit(run) == run


def test_a_damaged_checkpoint_is_refused_while_the_broker_is_away(tmp_path: Path) -> None:
    run = run_of(tmp_path, "stream")
    folder = Path(run.pipeline.layout.checkpoint("orders", "g0001"))
    write_checkpoint(folder, [0, 1], [0, 1])
    # A broker that is away is a reason to wait.
    with pytest.raises(UnavailableError):
        admit(run)
    (folder / "metadata").unlink()
    assert refusal_of(run) == "TIDE-CKPT-010"
