"""Progress of file sources: Spark counts ranges of files, but a batch's report has records."""

from __future__ import annotations

from typing import Any

from pyspark.accumulators import Accumulator, AddingAccumulatorParam

from tidemill.engine.file_records import FileRecords


def source(description: str, rows: int, rate: float | None = 2.0) -> dict[str, Any]:
    return {"description": description, "numInputRows": rows, "inputRowsPerSecond": rate}


def progress(batch: int, *sources: dict[str, Any]) -> dict[str, Any]:
    rows = sum(one["numInputRows"] for one in sources)
    return {
        "batchId": batch,
        "numInputRows": rows,
        "inputRowsPerSecond": 2.0,
        "processedRowsPerSecond": 4.0,
        "sources": list(sources),
    }


def counting(**folders: str) -> FileRecords:
    counters = {name: Accumulator(1000 + n, 0, AddingAccumulatorParam(0)) for n, name in enumerate(folders)}
    return FileRecords(counters, folders)


def test_each_batch_tells_its_records_and_their_rates() -> None:
    records = counting(source="/landing")
    for batch, count in enumerate([10, 6]):
        records.counted["source"].add(count)
        records.batch_ended(batch)
    told = [records.in_progress(progress(n, source("FileStreamSource[file:/landing]", 2))) for n in (0, 1, 2)]
    assert [one["numInputRows"] for one in told] == [10, 6, 2]
    assert [one["sources"][0]["numInputRows"] for one in told] == [10, 6, 2]
    assert [one["inputRowsPerSecond"] for one in told] == [10.0, 6.0, 2.0]
    assert [one["processedRowsPerSecond"] for one in told] == [20.0, 12.0, 4.0]


def test_other_sources_keep_their_rows() -> None:
    records = counting(orders="/in/orders", users="/in/users")
    records.counted["orders"].add(100)
    records.counted["users"].add(7)
    records.batch_ended(5)
    told = records.in_progress(
        progress(
            5,
            source("KafkaV2[Subscribe[events]]", 50),
            source("FileStreamSource[file:/in/users]", 1),
            source("FileStreamSource[file:/in/orders]", 3, None),
        )
    )
    assert [one["numInputRows"] for one in told["sources"]] == [50, 7, 100]
    assert told["numInputRows"] == 157


def test_a_batch_without_rows_has_no_rate() -> None:
    records = counting(source="/landing")
    records.batch_ended(0)
    told = records.in_progress(progress(0, source("FileStreamSource[file:/landing]", 0, 0.0)))
    assert (told["numInputRows"], told["processedRowsPerSecond"]) == (0, 0.0)
