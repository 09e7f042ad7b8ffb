"""A commit that landed though its writer never heard so; for the spark writer, where Delta itself commits."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.altered_driver import altered, altered_driver_command
from tests.support.driver_process import START_TIMEOUT_SECONDS, DriverProcess, Drivers, drivers_of
from tests.support.jvm_programs import compile_class
from tests.support.lake import Lake
from tidemill.errors import TidemillError

FILES = 6
SETTINGS = {"spark.delta.logStore.file.impl": "LostAnswerLogStore"}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    # No session of the test run: each driver brings its own.
    lake = Lake(tmp_path / "lake", None)  # type: ignore[arg-type]
    for number in range(FILES):
        lake.land_rows(f"landing/orders/{number}.json", [{"id": number}, {"id": 100 + number}])
    files = {"path": "landing/orders", "format": "json", "schema": "id long", "max_files_per_batch": 1}
    lake.pipeline(
        "orders",
        source={"files": files},
        sinks=[{"delta": {"table": "silver/orders", "writer": "spark"}}],
        run={"mode": "incremental"},
    )
    return lake


@pytest.mark.soak
def test_a_commit_whose_answer_is_lost_is_in_the_table_once(lake: Lake, tmp_path: Path) -> None:
    classes = compile_class("LostAnswerLogStore", tmp_path / "classes")

    def run(drivers: Drivers, lost: str) -> DriverProcess:
        variables = altered(classes, SETTINGS, TIDEMILL_TEST_LOST_ANSWER=lost)
        driver = replace(drivers, variables=variables, command=altered_driver_command).start(
            "orders", "incremental"
        )
        driver.wait(START_TIMEOUT_SECONDS)
        return driver

    # Version 0 makes the table, so version N + 1 is batch N.
    with drivers_of(lake.folder) as drivers:
        # The store does not answer: this driver ends, the next one finds the batch in the table.
        assert run(drivers, "2 timeout").process.returncode == TidemillError.exit_code
        assert batches(lake) == [("run-1", 1), ("run-1", 0)]
        # The client asked again and met its own file: Delta takes it for another writer's.
        second = run(drivers, "4 exists")
        assert second.process.returncode == 0, second.output[-3000:]
        assert "TIDE-CKPT-008" in second.output

    assert batches(lake) == [*(("run-2", batch) for batch in (5, 4, 3, 2)), ("run-1", 1), ("run-1", 0)]
    ids = sorted(row["id"] for row in lake.rows("silver/orders"))
    assert ids == [*range(FILES), *range(100, 100 + FILES)]


def batches(lake: Lake) -> list[tuple[str, int | None]]:
    """Return run id and batch of the ledger's entries, newest first."""
    commits = lake.ledger("silver/orders")
    return [(commit.entry.run_id, commit.entry.batch_id) for commit in commits if commit.entry]
