"""A stop that is asked for: the running batch ends, the next does not start, nothing is repeated."""

from __future__ import annotations

import pytest

from tests.support.lake import Lake, LakePipeline
from tests.support.writer_cases import CrashedError
from tidemill.engine.drain import Drain

FILES = 5


@pytest.fixture
def stream(lake: Lake) -> LakePipeline:
    for number in range(FILES):
        lake.land_rows(f"landing/orders/{number}.json", [{"id": number}])
    source = {"path": "landing/orders", "format": "json", "schema": "id long", "max_files_per_batch": 1}
    return lake.pipeline(
        "orders",
        source={"files": source},
        sinks=[{"delta": {"table": "bronze/orders"}}],
        run={"trigger": "0 seconds"},
    )


def ids(lake: Lake) -> list[int]:
    return sorted(row["id"] for row in lake.rows("bronze/orders"))


def test_a_drain_in_a_batch_ends_after_it_and_the_next_run_goes_on(lake: Lake, stream: LakePipeline) -> None:
    drain = Drain()

    def stop_in_second_batch(step: str) -> None:
        if step == "files_written" and len(lake.ledger("bronze/orders")) == 1:
            drain.request()

    ending, reporter = stream.run_stream(drain, stop_in_second_batch)
    assert ending == "drained"
    assert ids(lake) == [0, 1]
    # Spark has recorded the end of the batch, so the next start does not repeat it.
    assert (stream.checkpoint / "commits/1").exists()
    assert (reporter.status.batch_id, reporter.last_progress) == (1, 1)
    stream.run_incremental()
    assert ids(lake) == list(range(FILES))
    assert len(lake.ledger("bronze/orders")) == FILES


def test_a_drain_between_two_batches_starts_no_further_one(lake: Lake, stream: LakePipeline) -> None:
    drain = Drain()

    def stop_after_second_batch(step: str) -> None:
        if step == "committed" and len(lake.ledger("bronze/orders")) == 2:
            drain.request()

    ending, _ = stream.run_stream(drain, stop_after_second_batch)
    assert (ending, ids(lake)) == ("drained", [0, 1])


def test_a_drain_before_the_start_runs_no_batch(lake: Lake, stream: LakePipeline) -> None:
    drain = Drain()
    drain.request()
    ending, _ = stream.run_stream(drain)
    assert ending == "drained"
    assert not (lake.root / "tables/bronze/orders").exists()


def test_a_drain_of_an_incremental_run_stops_it_between_batches(lake: Lake, stream: LakePipeline) -> None:
    drain = Drain()

    def stop(step: str) -> None:
        if step == "committed":
            drain.request()

    stream.run_incremental(stop, drain)
    assert ids(lake) == [0]
    stream.run_incremental()
    assert ids(lake) == list(range(FILES))


def test_a_batch_that_fails_while_draining_is_no_clean_stop(lake: Lake, stream: LakePipeline) -> None:
    drain = Drain()

    def fail_while_draining(step: str) -> None:
        drain.request()
        raise CrashedError(step)

    with pytest.raises(CrashedError):
        stream.run_stream(drain, fail_while_draining)
    stream.run_incremental()
    assert ids(lake) == list(range(FILES))
