"""A driver that is killed at any of Spark's own steps of a batch is followed by one that misses nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.driver_process import drivers_of
from tests.support.jvm_programs import compile_class
from tests.support.kill_points import KillStory, Standing
from tests.support.lake import Lake
from tidemill.errors import InternalError

FILES = 8


@pytest.fixture
def story(tmp_path: Path) -> Iterator[KillStory]:
    # No session of the test run: each driver brings its own.
    lake = Lake(tmp_path / "lake", None)  # type: ignore[arg-type]
    for number in range(FILES):
        lake.land_rows(f"landing/orders/{number}.json", [{"id": number}, {"id": 100 + number}])
    files = {"path": "landing/orders", "format": "json", "schema": "id long", "max_files_per_batch": 1}
    pipeline = lake.pipeline(
        "orders",
        source={"files": files},
        sinks=[{"delta": {"table": "bronze/orders"}}],
        run={"trigger": "0 seconds"},
    )
    classes = compile_class("KillingFileManager", tmp_path / "classes")
    with drivers_of(lake.folder) as drivers:
        yield KillStory(drivers, pipeline, classes, {})


# Steps, each with the state of checkpoint and table after a kill there, and the half-written files.
KILLS = {
    # K1: half of `.1.tmp` is there.
    "offsets/1 writing": (Standing(planned=0, written=0, recorded=0), {"offsets/.1.*.tmp": ["v1"]}),
    # K2: planned, nothing done.
    "offsets/2 renamed": (Standing(planned=2, written=1, recorded=1), {}),
    # K7: the table has the batch, the checkpoint not yet a byte of it.
    "commits/3 opening": (Standing(planned=3, written=3, recorded=2), {}),
    # K8: half of `.4.tmp` is there.
    "commits/4 writing": (Standing(planned=4, written=4, recorded=3), {"commits/.4.*.tmp": ["v2"]}),
    # K9: all is done but the telling.
    "commits/5 renamed": (Standing(planned=5, written=5, recorded=5), {}),
}


@pytest.mark.soak
def test_drivers_after_a_killed_jvm_and_after_a_kill_before_the_end_is_recorded_write_each_row_once(
    story: KillStory,
) -> None:
    # The kernel's OOM killer takes the largest process, the JVM. Python must end then, so that a restart can
    # help.
    receipt = story.kill_jvm_at("offsets/1 renamed")
    assert (receipt.result, receipt.exit_code) == ("failed", InternalError.exit_code)
    assert (receipt.error or {})["id"] == "TIDE-RUN-002"
    assert (receipt.batch_id, receipt.unfinished_batch) == (0, 1)
    story.check_gate()
    kill_at(story, "commits/3 opening")
    (said,) = (line for line in story.last_output.splitlines() if '"event": "last_ending"' in line)
    assert f'"run_id": "{receipt.run_id}"' in said
    check_end(story, last_batch=FILES - 1)


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_a_kill_at_each_step_around_a_batch_loses_and_doubles_nothing(story: KillStory) -> None:
    """One life for each step; that the next one gets to a later batch is the recovery."""
    for step in KILLS:
        kill_at(story, step)
    # Spark's file source notes a file before the batch is planned: the batch that takes the place of the one
    # killed at K1 reads that file and the next one.
    check_end(story, last_batch=FILES - 2)


def kill_at(story: KillStory, step: str) -> None:
    standing, left = KILLS[step]
    assert (step, story.kill_at(step)) == (step, standing)
    assert {pattern: story.files(pattern) for pattern in left} == left
    story.check_gate()


def check_end(story: KillStory, last_batch: int) -> None:
    """Check that a driver that is not killed finishes, and that the table has each row once."""
    assert story.run_to_the_end() == Standing(planned=last_batch, written=last_batch, recorded=last_batch)
    lake = story.pipeline.lake
    ids = sorted(row["id"] for row in lake.rows("bronze/orders"))
    assert ids == [*range(FILES), *range(100, 100 + FILES)]
    batches = [commit.entry.batch_id for commit in lake.ledger("bronze/orders") if commit.entry]
    assert batches == list(range(last_batch, -1, -1))
