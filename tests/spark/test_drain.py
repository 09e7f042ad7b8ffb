"""A stop that is asked for: the running batch ends, the next does not start, nothing is repeated."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest

from tests.support.eventually import eventually
from tests.support.lake import Lake, LakePipeline
from tests.support.writer_cases import CrashedError
from tidemill.checkpoint.current import read_or_create_current
from tidemill.checkpoint.epochs import claim_epoch
from tidemill.engine.drain import Drain
from tidemill.engine.in_session import new_reporter
from tidemill.engine.run_context import RunContext
from tidemill.engine.running_query import RunningQuery, drain_queries
from tidemill.engine.session_conf import STOP_TIMEOUT_SECONDS
from tidemill.engine.streaming import start_query
from tidemill.ledger.code import code_of
from tidemill.sinks.batch_commit import nothing_more

FILES = 5
TIMEOUT_SECONDS = 60.0
STOP_TIMEOUT = "spark.sql.streaming.stopTimeout"


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


def test_a_batch_that_hangs_beyond_the_deadline_is_cut_off_and_repeated_by_the_next_start(
    lake: Lake, stream: LakePipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    grace_period = stream.resolved.environment.spec.grace_period
    monkeypatch.setattr("tidemill.spec.environment.WAY_OUT", grace_period - timedelta(seconds=0.2))
    lake.spark.conf.set(STOP_TIMEOUT, "500ms")
    drain, released = Drain(), threading.Event()

    def hang_in_second_batch(step: str) -> None:
        if step == "files_written" and len(lake.ledger("bronze/orders")) == 1:
            drain.request()
            released.wait(TIMEOUT_SECONDS)
            raise CrashedError(step)

    try:
        ending, _ = stream.run_stream(drain, hang_in_second_batch)
    finally:
        # In a real driver, the process would end now and with it the hung batch.
        released.set()
        eventually(lambda: not lake.spark.streams.active, "the cut-off query ends", TIMEOUT_SECONDS)
        lake.spark.conf.set(STOP_TIMEOUT, f"{STOP_TIMEOUT_SECONDS}s")
    assert (ending, ids(lake)) == ("forced", [0])
    stream.run_incremental()
    assert ids(lake) == list(range(FILES))
    assert len(lake.ledger("bronze/orders")) == FILES


def start(pipeline: LakePipeline, drain: Drain) -> RunningQuery:
    """Return a query of a driver that runs several."""
    spark, resolved, store = pipeline.lake.spark, pipeline.resolved, pipeline.lake.store
    generation = read_or_create_current(store, resolved.layout, pipeline.name).generation
    epoch = claim_epoch(store, resolved.layout, pipeline.name, "several")
    run = RunContext(resolved, "stream", "several", store, drain, code_of(resolved), generation, epoch)
    path = resolved.layout.status(pipeline.name)
    reporter = new_reporter(store, path, pipeline.name, run.mode, run.run_id)
    spark.streams.addListener(reporter)
    return start_query(spark, run, reporter, nothing_more)


def test_several_queries_of_one_driver_end_clean_within_one_deadline(lake: Lake) -> None:
    drain = Drain()
    names = ("first", "second")
    pipelines = [
        lake.pipeline(
            name,
            source={"rate_per_batch": {"rows_per_batch": 10}},
            sinks=[{"delta": {"table": f"bronze/{name}"}}],
            run={"trigger": "0 seconds"},
        )
        for name in names
    ]
    running = [start(pipeline, drain) for pipeline in pipelines]
    try:
        eventually(
            lambda: all(query.processor.last_finished is not None for query in running),
            "both write",
            TIMEOUT_SECONDS,
        )
        drain.request()
        assert drain_queries(running, timedelta(seconds=90)) == "drained"
        assert [query.stop() for query in running] == [True, True]
    finally:
        drain.request()
        for query in running:
            query.stop()
            lake.spark.streams.removeListener(query.reporter)
    for pipeline, query in zip(pipelines, running, strict=True):
        newest = query.processor.last_finished
        assert (pipeline.checkpoint / f"commits/{newest}").exists()
        assert next(c.entry.batch_id for c in lake.ledger(f"bronze/{pipeline.name}") if c.entry) == newest
        assert query.reporter.status.state == "draining"
