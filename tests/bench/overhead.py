"""`make bench-overhead`: Tidemill against hand-written, tuned PySpark that does the same.

Kafka JSON -> typed columns -> Delta, exactly once. Both run in one Spark session with the same settings,
alternately, on the same topics; answers (row count and an order-free hash) are compared before any time
counts. Every tenth round reads a topic in which 1 % of the records are broken. The hand-written job
filters broken records away; Tidemill puts them into quarantine as well.

Printed are medians of paired ratios, time of Tidemill by time of the hand-written job, with a bootstrap
interval. Machines are noisy; only the ratios mean something.
"""

from __future__ import annotations

import argparse
import logging
import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import structlog
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.support.lake import Lake
from tidemill.dev.broker import running_broker
from tidemill.dev.broker_config import BrokerConfig
from tidemill.dev.iot_events import IotSettings
from tidemill.dev.produce import Pace, Target, produce
from tidemill.dev.topics import create_topic
from tidemill.ledger.read import read_commits
from tidemill.testing.session import driver_session

ROOT = Path(__file__).parents[2]
PARTITIONS = 4

# Goals of the issue: arrow and spark writer, for many records and for batches of 1,000 rows.
GOALS = {("arrow", "bulk"): 0.60, ("arrow", "batch"): 0.35, ("spark", "bulk"): 1.05, ("spark", "batch"): 1.05}

FIELDS = ["event_id", "device_id", "temperature", "humidity", "timestamp"]
# First batches of 1,000 rows that do not count: the table is made, and code is compiled.
WARM_BATCHES = 5

HAND_SCHEMA = (
    "event_id string, device_id string, temperature double, humidity double, timestamp timestamp, "
    "_corrupt string"
)
ROW = [*FIELDS, "kafka_partition", "kafka_offset"]


@dataclass(frozen=True)
class Workload:
    """One thing to time.

    Args:
        name: `bulk` or `batch`.
        records: Records in its topics.
        per_batch: Most records in one batch.
        warm_batches: First batches that do not count.
    """

    name: str
    records: int
    per_batch: int
    warm_batches: int


@dataclass(frozen=True)
class Answer:
    """The content of a job's table, and the job's duration."""

    rows: int
    digest: int
    seconds: float


class Bench:
    """A broker with loaded topics, a session, and both jobs."""

    def __init__(self, spark: SparkSession, bootstrap_servers: str, folder: Path) -> None:
        self.spark = spark
        self.servers = bootstrap_servers
        self.folder = folder
        self._number = 0

    def load(self, topic: str, records: int, broken_rate: float) -> None:
        create_topic(self.servers, topic, PARTITIONS, {})
        settings = IotSettings(
            start=datetime(2026, 1, 1, tzinfo=UTC),
            interval=timedelta(milliseconds=20),
            devices=200,
            broken_rate=broken_rate,
        )
        produce(Target(self.servers, topic), settings, Pace(count=records))

    def hand_written(self, topic: str, work: Workload) -> Answer:
        """Run the pipeline that a careful engineer would write: one pass, typed, idempotent by transaction
        id.
        """
        table, checkpoint = self._fresh("hand"), self._fresh("hand-checkpoint")

        def write(frame: DataFrame, batch_id: int) -> None:
            # Spark's JSON reader takes bytes that are not UTF-8 for other characters.
            text = frame.where("value is null or is_valid_utf8(cast(value as string))")
            parsed = text.select(
                F.from_json(
                    F.col("value").cast("string"), HAND_SCHEMA, {"columnNameOfCorruptRecord": "_corrupt"}
                ).alias("r"),
                F.col("key").alias("kafka_key"),
                F.col("topic").alias("kafka_topic"),
                F.col("partition").alias("kafka_partition"),
                F.col("offset").alias("kafka_offset"),
                F.col("timestamp").alias("kafka_timestamp"),
            ).select("r.*", "kafka_key", "kafka_topic", "kafka_partition", "kafka_offset", "kafka_timestamp")
            good = parsed.where("_corrupt is null").dropna(subset=FIELDS).drop("_corrupt")
            (
                good.write.format("delta")
                .mode("append")
                .option("txnAppId", "hand")
                .option("txnVersion", batch_id)
                .save(str(table))
            )

        records = (
            self.spark.readStream.format("kafka")
            .option("kafka.bootstrap.servers", self.servers)
            .option("subscribe", topic)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", work.per_batch)
            .load()
        )
        started = time.perf_counter()
        query = (
            records.writeStream.foreachBatch(write)
            .option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return self._answer(table, work, time.perf_counter() - started)

    def tidemill(self, writer: str, topic: str, work: Workload) -> Answer:
        """Return the same job as a pipeline file."""
        lake = Lake(self._fresh(writer), self.spark, self.servers)
        schema = "iot_event.json"
        shutil.copy(ROOT / "conf/schemas" / schema, lake.folder / "conf/schemas" / schema)
        pipeline = lake.pipeline(
            "overhead",
            source={"kafka": {"topic": topic, "max_offsets_per_batch": work.per_batch}},
            payload={"json": {"schema": schema}},
            sinks=[{"delta": {"table": "bronze/overhead", "writer": writer}}],
            run={"mode": "incremental"},
        )
        started = time.perf_counter()
        pipeline.run_incremental()
        return self._answer(lake.root / "tables/bronze/overhead", work, time.perf_counter() - started)

    def _answer(self, table: Path, work: Workload, seconds: float) -> Answer:
        """Count and hash without regard to order; for small batches, the time between the commits."""
        rows = self.spark.read.format("delta").load(str(table))
        count, digest = rows.agg(F.count("*"), F.sum(F.xxhash64(*ROW).cast("decimal(38,0)"))).first() or (
            0,
            0,
        )
        if work.warm_batches:
            moments = sorted(commit.committed_at for commit in read_commits(str(table)))[work.warm_batches :]
            seconds = (moments[-1] - moments[0]).total_seconds() / (len(moments) - 1)
        return Answer(int(count), int(digest), seconds)

    def _fresh(self, name: str) -> Path:
        self._number += 1
        path = self.folder / f"{name}-{self._number}"
        path.mkdir()
        return path


def compare(bench: Bench, work: Workload, rounds: int) -> dict[str, list[float]]:
    """Return ratios by writer. The order of the three jobs rotates from round to round."""
    ratios: dict[str, list[float]] = {"arrow": [], "spark": []}
    for number in range(rounds):
        broken = number % 10 == 9
        topic = f"{work.name}_broken" if broken else f"{work.name}_clean"
        jobs: dict[str, Callable[[], Answer]] = {
            "hand": lambda t=topic: bench.hand_written(t, work),  # type: ignore[misc]
            "arrow": lambda t=topic: bench.tidemill("arrow", t, work),  # type: ignore[misc]
            "spark": lambda t=topic: bench.tidemill("spark", t, work),  # type: ignore[misc]
        }
        order = [*jobs][number % 3 :] + [*jobs][: number % 3]
        answers = {name: jobs[name]() for name in order}
        if len({(answer.rows, answer.digest) for answer in answers.values()}) != 1:
            raise SystemExit(f"{work.name}: the answers differ, so no time counts: {answers}")
        for writer, found in ratios.items():
            found.append(answers[writer].seconds / answers["hand"].seconds)
        print(
            f"{work.name:5} round {number + 1:2}{' broken 1 %' if broken else '':11} "
            f"rows {answers['hand'].rows:>9,}  hand {answers['hand'].seconds:7.3f} s  "
            + "  ".join(f"{writer} {found[-1]:.3f}" for writer, found in ratios.items()),
            flush=True,
        )
        _clear(bench.folder)
    return ratios


def bootstrap_interval(values: list[float], draws: int = 2000) -> tuple[float, float]:
    """Return the 95 % interval of the median."""
    chance = random.Random(0)
    medians = sorted(statistics.median(chance.choices(values, k=len(values))) for _ in range(draws))
    return medians[int(draws * 0.025)], medians[int(draws * 0.975)]


def _clear(folder: Path) -> None:
    for path in _job_folders(folder):
        shutil.rmtree(path, ignore_errors=True)


def _job_folders(folder: Path) -> Iterator[Path]:
    return (path for path in folder.iterdir() if path.name.split("-")[0] in ("hand", "arrow", "spark"))


def run(workloads: list[Workload], rounds: int) -> dict[str, dict[str, list[float]]]:
    """Load topics, warm up and compare; return ratios by workload and writer."""
    folder = Path(tempfile.mkdtemp(prefix="tidemill-overhead-"))
    try:
        with running_broker(BrokerConfig(folder / "broker")) as broker:
            bench = Bench(driver_session(folder), broker.bootstrap_servers, folder)
            warm_up = Workload("warm", 20_000, 10_000, 0)
            bench.load("warm", warm_up.records, 0.0)
            for _ in range(2):
                bench.hand_written("warm", warm_up)
                bench.tidemill("arrow", "warm", warm_up)
                bench.tidemill("spark", "warm", warm_up)
            for work in workloads:
                bench.load(f"{work.name}_clean", work.records, 0.0)
                bench.load(f"{work.name}_broken", work.records, 0.01)
            results = {work.name: compare(bench, work, rounds) for work in workloads}
            bench.spark.stop()
            return results
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    """Read the command line, run, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--workload", choices=["bulk", "batch"], help="one of the two; both if not given")
    parser.add_argument("--rounds", type=int, default=10, help="rounds of each; every tenth is broken")
    parser.add_argument("--records", type=int, default=1_000_000, help="records of the bulk workload")
    parser.add_argument("--batches", type=int, default=20, help="batches of 1,000 rows that count")
    arguments = parser.parse_args()
    # A line per batch would drown the rounds.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    bulk = Workload("bulk", arguments.records, 250_000, 0)
    batch = Workload("batch", (arguments.batches + WARM_BATCHES) * 1000, 1000, WARM_BATCHES)
    chosen = [work for work in (bulk, batch) if arguments.workload in (None, work.name)]
    results = run(chosen, arguments.rounds)
    print("\nTime of Tidemill by time of hand-written, tuned PySpark (median, 95 % interval; goal):")
    for work in chosen:
        what = f"{work.records:,} records" if work is bulk else "a batch of 1,000 rows"
        for writer, ratios in results[work.name].items():
            low, high = bootstrap_interval(ratios)
            goal = GOALS[writer, work.name]
            print(f"  {what:21} {writer} {statistics.median(ratios):.3f} ({low:.3f}-{high:.3f}; goal {goal})")


if __name__ == "__main__":
    main()
