"""A wrong transform spoils table and state; after a rewind and a replay they are as if it had never run."""

from __future__ import annotations

import pytest

from tests.support.lake import Lake
from tests.support.pipelines_on_disk import Killed
from tests.support.rewinds import TRANSFORMS, declare, land_events, mend, newest_batch, rewind, rows_of, spoil
from tidemill.control.procedures.plan_words import rewind_lines
from tidemill.control.spark_part import restoring
from tidemill.ledger.read import read_commits
from tidemill.ledger.table_restore import TableRestore

# The case `windows` also has rows without duplicates.
LONGER = ("stateless", "dedup", "joined")
KINDS = [pytest.param(kind, marks=pytest.mark.soak) if kind in LONGER else kind for kind in TRANSFORMS]


@pytest.mark.parametrize("kind", KINDS)
def test_a_rewound_and_replayed_pipeline_equals_one_that_was_never_spoiled(lake: Lake, kind: str) -> None:
    land_events(lake, 0, 4)
    pipeline = declare(lake, kind, kind, files=2)
    pipeline.run_incremental()
    good = newest_batch(pipeline)
    spoil(pipeline, kind)
    land_events(lake, 4, 8)
    pipeline.run_incremental()
    spoiled, newest = set(rows_of(pipeline)), newest_batch(pipeline)
    plan = rewind(pipeline, good)
    assert plan["batches_undone"] == [good + 1, newest]
    assert any("where records arrived late" in line for line in rewind_lines(plan)) == (kind != "stateless")
    mend(pipeline, kind)
    # Other batches than before: the result must not depend on them.
    replayed = declare(lake, kind, kind, files=3)
    replayed.run_incremental()
    control = declare(lake, "control", kind, files=4)
    control.run_incremental()
    assert rows_of(replayed) == rows_of(control)
    assert spoiled - set(rows_of(control))


@pytest.mark.soak
def test_killed_at_every_step_and_repeated_a_rewind_ends_the_same(lake: Lake) -> None:
    land_events(lake, 0, 4)
    # Clustered: a table that only Spark can restore.
    pipeline = declare(lake, "windows", "windows", files=4, cluster_by=["window_start"])
    pipeline.run_incremental()
    good = newest_batch(pipeline)
    land_events(lake, 4, 8)
    pipeline.run_incremental()
    expected = rows_of(pipeline)
    assert len(expected) > 0
    for step in ("write checkpoint", "table silver/windows", "switch generation", "verify"):
        with pytest.raises(Killed):
            rewind(pipeline, good, kill_at=step)
    table = rewind(pipeline, good)["tables"]["silver/windows"]
    commits = read_commits(table["path"])
    assert [commit.operation for commit in commits].count("RESTORE") == 1
    # The command line starts a process for such a table; it finds that nothing is left to do.
    newest = next(commit.entry for commit in commits if commit.is_by_verb and commit.entry)
    wanted = TableRestore(table["path"], table["to"], table["version"], newest, tuple(table["closes"]))
    restoring(pipeline.resolved)(wanted)
    assert read_commits(table["path"]) == commits
    pipeline.run_incremental()
    assert rows_of(pipeline) == expected
