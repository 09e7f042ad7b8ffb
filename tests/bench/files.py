"""`make bench-files`: files through Tidemill's decoders against Spark's own readers, as ratios of time.

Each measurement is a separate process with a driver's settings. It reads four files of 250,000 records,
after a small folder that warms it up, and hands the rows on as a writer takes them: `spark` takes them into
the JVM, `arrow` takes Arrow batches in Python. Rounds alternate. The number of rows and the sum of a column
are compared before any time counts. Ratios below 1 mean that Tidemill is faster.

Spark's JSON reader checks less: it gives no reason for a broken record and does not keep it.
"""

from __future__ import annotations

import gzip
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

FILES, RECORDS, WARM_RECORDS, ROUNDS = 4, 250_000, 2_000, 3
DDL = (
    "id long, device string, at timestamp, temperature double, ok boolean, site string, floor int, "
    "note string, x double, y double"
)
NAMES = [column.split()[0] for column in DDL.split(", ")]
CASES = ("json", "csv", "csv quoted", "json.gz", "parquet", "text")


def record(number: int) -> list[Any]:
    note = f"note {number % 100}"
    times = f"2026-01-01T{number % 24:02}:00:00Z"
    place = [number % 2 == 0, "north", number % 7, note, number / 8, number / 4]
    return [number, f"device-{number % 1000:04}", times, number % 1200 / 10, *place]


def line(case: str, number: int) -> str:
    values = record(number)
    if case.startswith("json"):
        return json.dumps(dict(zip(NAMES, values, strict=True)))
    quoted = [f'"{value}"' if isinstance(value, str) and case == "csv quoted" else value for value in values]
    return ",".join(
        "true" if value is True else "false" if value is False else str(value) for value in quoted
    )


def land(folder: Path, case: str, files: int, records: int) -> None:
    folder.mkdir(parents=True)
    for file in range(files):
        numbers = range(file * records, (file + 1) * records)
        if case == "parquet":
            columns = dict(zip(NAMES, zip(*map(record, numbers), strict=True), strict=True))
            table = pa.table({name: list(values) for name, values in columns.items()})
            at = table["at"].cast(pa.timestamp("us", "UTC"))
            table = table.set_column(2, "at", at).set_column(6, "floor", table["floor"].cast(pa.int32()))
            pq.write_table(table, folder / f"{file}.parquet")
            continue
        header = [",".join(NAMES)] if case.startswith("csv") else []
        content = "\n".join([*header, *(line(case, number) for number in numbers), ""]).encode()
        ending = case.partition(" ")[0]
        (folder / f"{file}.{ending}").write_bytes(
            gzip.compress(content, 1) if case.endswith("gz") else content
        )


def source(case: str) -> dict[str, Any]:
    file_format = case.partition(" ")[0].partition(".")[0]
    if file_format == "text":
        return {"format": "text"}
    options = {"header": True} if file_format == "csv" else {}
    return {"format": file_format, "schema": DDL, "options": options}


def measure(root: str, who: str, case: str, writer: str) -> None:
    """Print seconds, rows and a sum; runs in a separate process."""
    from pyspark.sql import DataFrame
    from pyspark.sql import functions as F

    from tests.support.read_files import files_pipeline
    from tidemill.engine.flow import Collectors, decoded_rows
    from tidemill.engine.session import start_session
    from tidemill.payload.quarantine import Quarantine
    from tidemill.sources.read import Past, read_batch

    environment = {"sizes": {"small": {"driver": {"cores": 2, "memory": "1g"}}}}
    pipeline = files_pipeline(Path(root), source(case), environment=environment)
    spark = start_session(pipeline, mode="incremental")
    value = F.length("value") if case == "text" else F.col("id")

    def rows_of(folder: str) -> DataFrame:
        path = pipeline.layout.folder(folder)
        if who == "spark":
            reader = spark.read.format(source(case)["format"]).options(**source(case).get("options", {}))
            return (reader if case == "text" else reader.schema(DDL)).load(path)
        files = pipeline.spec.source.chosen.model_copy(update={"path": folder})
        there = replace(
            pipeline,
            spec=pipeline.spec.model_copy(
                update={"source_": pipeline.spec.source.model_copy(update={"files": files})}
            ),
        )
        quarantine = Quarantine.at(spark.sparkContext, f"{root}/quarantine", "bench")
        return decoded_rows(there, read_batch(spark, there, Past()), Collectors(quarantine))

    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = sum(len(batch) for batch in batches)
        yield pa.RecordBatch.from_pydict({"rows": [rows]})

    def seconds(rows: DataFrame) -> float:
        begin = time.perf_counter()
        if writer == "spark":
            rows.write.format("noop").mode("overwrite").save()
        else:
            rows.mapInArrow(count, "rows long").collect()
        return time.perf_counter() - begin

    seconds(rows_of("warm"))
    took = seconds(rows_of("landing"))
    found = rows_of("landing").agg(F.count("*").alias("n"), F.sum(value).alias("sum")).collect()[0]
    print(json.dumps({"seconds": took, "rows": found["n"], "sum": found["sum"]}))
    spark.stop()


def measured(root: str, who: str, case: str, writer: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.bench.files", "--measure", root, who, case, writer]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(done.stderr[-2000:])
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main(*wanted: str) -> None:
    for case in wanted or CASES:
        with tempfile.TemporaryDirectory() as root:
            land(Path(root) / "data/warm", case, 2, WARM_RECORDS)
            land(Path(root) / "data/landing", case, FILES, RECORDS)
            for writer in ("arrow", "spark"):
                pairs = []
                for _ in range(ROUNDS):
                    ours, theirs = (measured(root, who, case, writer) for who in ("tidemill", "spark"))
                    if (ours["rows"], ours["sum"]) != (theirs["rows"], theirs["sum"]):
                        raise SystemExit(f"{case}: other rows, {ours} and {theirs}")
                    pairs.append((ours["seconds"], theirs["seconds"]))
                ratios = sorted(mine / other for mine, other in pairs)
                rate = FILES * RECORDS / statistics.median(mine for mine, _ in pairs) / 1000
                print(
                    f"{case:12s} {writer:6s} {statistics.median(ratios):5.2f} x the time of Spark's reader "
                    f"({ratios[0]:.2f} to {ratios[-1]:.2f}), {rate:5.0f} k records/s",
                    flush=True,
                )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        measure(*sys.argv[2:])
    else:
        main(*sys.argv[1:])
