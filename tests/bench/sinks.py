"""`make bench-sinks`: one read for several sinks, compared with a separate pipeline for each sink.

Kafka JSON is read, decoded and written, in one Spark session, the two ways alternately and on the same topic.
The separate pipelines run one after the other, so the comparison is of work and not of machines. The
tables' rows (number and an order-free hash) are compared before any time counts.

Printed are medians of paired ratios, time of one read by time of the separate pipelines, with a bootstrap
interval; below 1 one read is quicker.
"""

from __future__ import annotations

import argparse
import logging
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import structlog
from pyspark.sql import functions as F

from tests.bench.overhead import ROOT, ROW, Bench, bootstrap_interval
from tests.support.lake import Lake
from tidemill.dev.broker import running_broker
from tidemill.dev.broker_config import BrokerConfig
from tidemill.dev.topics import create_topic
from tidemill.testing.session import driver_session

SCHEMA = "iot_event.json"
TOPIC = "events"
TABLES = [
    {"delta": {"table": "bronze/all"}},
    {"delta": {"table": "silver/warm", "where": "temperature > 22"}},
    {"delta": {"table": "silver/humid", "where": "humidity > 50"}},
    {"delta": {"table": "silver/rest", "where": "temperature <= 22"}},
]
SINKS: dict[str, list[dict[str, Any]]] = {
    "2 tables": TABLES[:2],
    "4 tables": TABLES,
    "table, topic, files": [
        TABLES[0],
        {"kafka": {"topic": "copies", "where": "temperature > 22"}},
        {"files": {"path": "exports", "format": "parquet"}},
    ],
}

Answer = dict[str, tuple[int, int]]


class SinksBench:
    """A loaded topic, and both ways of writing it to several sinks."""

    def __init__(self, bench: Bench, per_batch: int) -> None:
        self._bench = bench
        self._source = {"kafka": {"topic": TOPIC, "max_offsets_per_batch": per_batch}}

    def one_read(self, sinks: Sequence[dict[str, Any]]) -> tuple[float, Answer]:
        """Return all sinks in one pipeline."""
        return self._run([list(sinks)])

    def separate(self, sinks: Sequence[dict[str, Any]]) -> tuple[float, Answer]:
        """Return a pipeline for each sink, one after the other."""
        return self._run([[sink] for sink in sinks])

    def _run(self, pipelines: Sequence[list[dict[str, Any]]]) -> tuple[float, Answer]:
        folder = Path(tempfile.mkdtemp(dir=self._bench.folder))
        lake = Lake(folder, self._bench.spark, self._bench.servers)
        shutil.copy(ROOT / "conf/schemas" / SCHEMA, lake.folder / "conf/schemas" / SCHEMA)
        declared = [
            lake.pipeline(
                f"p{number}",
                source=self._source,
                payload={"json": {"schema": SCHEMA}},
                sinks=sinks,
                run={"mode": "incremental"},
            )
            for number, sinks in enumerate(pipelines)
        ]
        started = time.perf_counter()
        for pipeline in declared:
            pipeline.run_incremental()
        seconds = time.perf_counter() - started
        answer = self._answer(lake)
        shutil.rmtree(folder)
        return seconds, answer

    def _answer(self, lake: Lake) -> Answer:
        found = {}
        for log in (lake.root / "tables").glob("*/*/_delta_log"):
            rows = self._bench.spark.read.format("delta").load(str(log.parent))
            count, digest = rows.agg(F.count("*"), F.sum(F.xxhash64(*ROW).cast("decimal(38,0)"))).first() or (
                0,
                0,
            )
            found[log.parent.name] = int(count), int(digest or 0)
        return found


def compare(bench: SinksBench, name: str, rounds: int) -> list[float]:
    """Return ratios of one set of sinks. The order of the two ways alternates from round to round."""
    ratios = []
    for number in range(rounds):
        ways: dict[str, Callable[[Sequence[dict[str, Any]]], tuple[float, Answer]]] = {
            "one read": bench.one_read,
            "separate": bench.separate,
        }
        order = list(ways) if number % 2 else list(reversed(ways))
        done = {way: ways[way](SINKS[name]) for way in order}
        if done["one read"][1] != done["separate"][1]:
            raise SystemExit(f"{name}: the rows differ, so no time counts: {done}")
        seconds = {way: found[0] for way, found in done.items()}
        ratios.append(seconds["one read"] / seconds["separate"])
        print(
            f"{name:20} round {number + 1:2}  one read {seconds['one read']:7.3f} s  "
            f"separate {seconds['separate']:7.3f} s  ratio {ratios[-1]:.3f}",
            flush=True,
        )
    return ratios


def main() -> None:
    """Read the command line, run, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--records", type=int, default=500_000, help="records of the topic")
    parser.add_argument("--per-batch", type=int, default=100_000, help="most records in one batch")
    parser.add_argument("--rounds", type=int, default=6, help="rounds of each set of sinks")
    arguments = parser.parse_args()
    # A line per batch would drown the rounds.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    folder = Path(tempfile.mkdtemp(prefix="tidemill-sinks-"))
    try:
        with running_broker(BrokerConfig(folder / "broker")) as broker:
            bench = Bench(driver_session(folder), broker.bootstrap_servers, folder)
            bench.load(TOPIC, arguments.records, 0.0)
            create_topic(broker.bootstrap_servers, "copies", 1, {})
            both = SinksBench(bench, arguments.per_batch)
            for sinks in SINKS.values():
                # Read once without measuring, because code is compiled.
                both.one_read(sinks)
            results = {name: compare(both, name, arguments.rounds) for name in SINKS}
            bench.spark.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print("\nTime of one read by time of a pipeline for each sink (median, 95 % interval):")
    for name, ratios in results.items():
        low, high = bootstrap_interval(ratios)
        print(f"  {name:20} {statistics.median(ratios):.3f} ({low:.3f}-{high:.3f}); {len(SINKS[name])} sinks")


if __name__ == "__main__":
    main()
