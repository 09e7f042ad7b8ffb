"""A query without foreachBatch: Spark writes each row as it arrives, and commits how far it has read.

It serves the triggers `continuous` and `real_time`. The remaining guarantees are the gate before the start,
one driver at a time, a drain, and at-least-once delivery from the newest commit on. There is no ledger, no
quarantine, and there are no counts.

Spark 4.2 does not store the position at which continuous processing begins. A driver that ends before its
first commit would begin at another record, and a reset would be ignored. So this module stores the position
in `sources/0/0`, where Spark's batches also store it, and passes it to Spark until there is a commit.
"""

from __future__ import annotations

import json
import time
from datetime import datetime, timedelta
from typing import Literal

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from tidemill.checkpoint.reading.batches import CheckpointBatches
from tidemill.engine.checked_flow import checked_flow
from tidemill.engine.commit_watch import CommitWatch
from tidemill.engine.flow import Collectors
from tidemill.engine.outputs import build_output
from tidemill.engine.reporter import Reporter
from tidemill.engine.run_context import RunContext
from tidemill.engine.running_query import stop_query
from tidemill.engine.sink_rows import sink_rows
from tidemill.engine.transform import load_code
from tidemill.engine.unfinished_notes import forget_unfinished
from tidemill.errors import SpecError
from tidemill.ledger.entry import Positions
from tidemill.names import SOURCE_NAME, query_name
from tidemill.payload.quarantine import Quarantine
from tidemill.sinks.row_by_row import to_console, to_topic, to_writer
from tidemill.sources.kafka_clients import environment_client
from tidemill.sources.read import read_streams
from tidemill.sources.starting_positions import starting_positions
from tidemill.spec.project import Pipeline
from tidemill.spec.units import format_duration

# Interval at which a drain checks for a new commit, in seconds.
_LOOK_SECONDS = 0.1

# Number of offset files after the newest one that may be for rows that are already written. In real-time
# mode, those of the running batch. In continuous processing, also those that its tasks have reported but that
# it has not yet written down.
_UNDER_WAY = {"continuous": 2, "real_time": 1}


class UnbatchedQuery:
    """A started query whose rows Spark writes itself."""

    def __init__(self, query: StreamingQuery, run: RunContext, watch: CommitWatch) -> None:
        self.query = query
        self._run = run
        self._watch = watch

    @property
    def failure(self) -> BaseException | None:
        """Return None, because the query itself has Spark's error."""
        return None

    def look(self) -> None:
        """Check for a newer driver, and for commits of Spark.

        Raises:
            FencedError: TIDE-RUN-001.
        """
        self._watch.look()

    def drain(self, timeout: timedelta) -> Literal["drained", "forced"]:
        """Let Spark commit all rows that are already written, if there is time; the caller stops the query.

        The next driver writes all rows after the last commit again. With a commit every second these are a
        few rows. If the next commits take longer than a drain may, they are all rows since the last commit.
        """
        self._watch.reporter.state("draining")
        declared = self._run.pipeline.spec.run
        under_way = _UNDER_WAY[declared.trigger_of(self._run.mode)]
        if under_way * declared.trigger >= timeout:
            return "drained"
        deadline = time.monotonic() + timeout.total_seconds()
        offsets = CheckpointBatches(self._run.store, self._run.checkpoint).offset_ids()
        last = max(offsets, default=-1) + under_way
        while self.query.isActive and self._watch.find_commits() < last:
            if time.monotonic() > deadline:
                return "forced"
            time.sleep(_LOOK_SECONDS)
        return "drained"

    def stop(self) -> bool:
        """Stop the query; return False if its thread does not end."""
        return stop_query(self.query)


def start_unbatched(spark: SparkSession, run: RunContext, reporter: Reporter) -> UnbatchedQuery:
    """Build the flow, check that Spark can run it, and start its query.

    Raises:
        SpecError: TIDE-PLAN-…, TIDE-SINK-… or TIDE-RUN-006, before anything is started.
    """
    pipeline = run.pipeline
    forget_unfinished(run)
    check_cores(run, spark.sparkContext.defaultParallelism)
    is_continuous = pipeline.spec.run.trigger_of(run.mode) == "continuous"
    start = beginning(run) if is_continuous else None
    # The quarantine stays empty, because no record can be set aside.
    quarantine = Quarantine.at(spark.sparkContext, pipeline.layout.quarantine(pipeline.name), run.run_id)
    flow = checked_flow(run, read_streams(spark, pipeline, start), Collectors(quarantine))
    build_output(pipeline, flow, 0).check()
    rows = sink_rows(pipeline, 0, flow.frame).of(flow.frame)
    output, writer = _written(pipeline, rows)
    interval = format_duration(pipeline.spec.run.trigger)
    trigger = {"continuous": interval} if is_continuous else {"realTime": interval}
    query = (
        writer.queryName(query_name(pipeline.name))
        .outputMode(pipeline.spec.output_mode)
        .option("checkpointLocation", run.checkpoint)
        .trigger(**trigger)
        .start()
    )
    return UnbatchedQuery(query, run, CommitWatch(run, reporter, output))


def check_cores(run: RunContext, cores: int) -> None:
    """Check that there is a core for each partition of the source.

    A task reads each partition and never ends, or ends with the batch. With too few cores, continuous
    processing reads only some partitions and never commits; real-time mode reads some of them a whole batch
    later.

    Raises:
        SpecError: TIDE-RUN-006.
    """
    ends = [topics.ends for topics in run.topics.values()]
    partitions = sum(len(offsets) for topics in ends for offsets in topics.values())
    if partitions <= cores:
        return
    raise SpecError(
        "TIDE-RUN-006",
        "This trigger reads each partition of the source by a task that does not end, and there are fewer "
        "cores than partitions: some would not be read, or much later. Nothing was started.",
        facts={
            "pipeline": run.pipeline.name,
            "trigger": run.pipeline.spec.run.trigger_of(run.mode),
            "partitions": partitions,
            "cores": cores,
        },
        fix="name a `run.size` with a core for each partition; or use `trigger: 0 seconds`",
    )


def beginning(run: RunContext) -> Positions | None:
    """Return the start of a continuous query that has no commit yet; None if its checkpoint has the position.

    The start is stored before the query starts, so that each start before the first commit begins there.
    """
    batches = CheckpointBatches(run.store, run.checkpoint)
    if batches.last_committed() is not None or not run.pipeline.spec.source.is_kafka:
        return None
    if batches.initial_offset() is None:
        found = starting_positions(run.pipeline, _declared_start(run.pipeline))[SOURCE_NAME]
        # The format of Spark's KafkaSourceInitialOffsetWriter: a NUL, the version, then the offsets.
        content = b"\0v1\n" + json.dumps(found, separators=(",", ":")).encode()
        run.store.create(f"{run.checkpoint}/sources/0/0", content)
    kept: Positions | None = batches.initial_offset()
    return kept


def _declared_start(pipeline: Pipeline) -> str:
    start = pipeline.spec.source.chosen.starting_offsets
    if isinstance(start, datetime):
        return start.isoformat()
    return start if isinstance(start, str) else json.dumps(start)


def _written(pipeline: Pipeline, rows: DataFrame) -> tuple[str, DataStreamWriter]:
    """Return the name of the only output, as in a report of the query, and its writer."""
    sink = pipeline.spec.sinks[0]
    if sink.kafka is not None:
        client = environment_client(pipeline.environment)
        return sink.output, to_topic(rows, sink.kafka, client)
    if sink.foreach is not None:
        writer = load_code(pipeline, sink.foreach.writer)
        return sink.output, to_writer(rows, writer)
    return sink.output, to_console(rows, sink.chosen)
