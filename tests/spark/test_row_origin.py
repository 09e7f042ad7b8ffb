"""Origin of a transform's rows, as Spark's real analysed plan proves it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemill.backfill.row_origin import EventWindow, RowOrigin
from tidemill.engine.row_origin import find_origin

Transform = Callable[[DataFrame], DataFrame]

COLUMNS = """
    event_id string, device_id string, temperature double, timestamp timestamp, sent_at timestamp,
    kafka_topic string, kafka_partition int, kafka_offset long
"""
LINEAGE = ("kafka_topic", "kafka_partition", "kafka_offset")
KEPT = RowOrigin(record={name: name for name in LINEAGE})
MINUTES = timedelta(minutes=1)


@pytest.fixture
def readings(spark: SparkSession, tmp_path: Path) -> DataFrame:
    stream = spark.readStream.schema(COLUMNS).json(str(tmp_path))
    return stream.withWatermark("timestamp", "10 minutes")


@pytest.fixture
def devices(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([("a", "kitchen")], "device_id string, room string")


def found(readings: DataFrame, transform: Transform) -> RowOrigin:
    return find_origin(readings, transform(readings), "timestamp")


def in_windows(*window: str) -> Transform:
    return lambda rows: (
        rows.groupBy(F.window("timestamp", *window), "device_id")
        .agg(F.avg("temperature").alias("avg_temp"))
        .select("device_id", F.col("window.start").alias("from"), F.col("window.end").alias("to"), "avg_temp")
    )


@pytest.mark.parametrize(
    "transform",
    [
        lambda rows: rows,
        lambda rows: rows.where("temperature > 100"),
        lambda rows: rows.withColumn("fahrenheit", F.col("temperature") * 1.8 + 32).drop("sent_at"),
        lambda rows: rows.select(*LINEAGE, F.explode(F.sequence(F.lit(1), F.lit(3))).alias("part")),
        lambda rows: rows.withColumn("timestamp", F.col("sent_at")),
        lambda rows: rows.where("temperature > 0").unionByName(rows.where("temperature < -10")),
        lambda rows: rows.repartition(4, "device_id").hint("rebalance").alias("r"),
        lambda rows: rows.withColumn("window", F.window("timestamp", "10 minutes", "5 minutes")),
    ],
    ids=["same", "filter", "columns", "several", "time", "union", "moved", "windows"],
)
def test_rows_that_are_made_of_one_record_and_name_it(readings: DataFrame, transform: Transform) -> None:
    assert found(readings, transform).model_copy(update={"windows": ()}) == KEPT


def test_the_record_is_named_by_columns_of_other_names(readings: DataFrame) -> None:
    origin = found(
        readings,
        lambda rows: rows.select(
            "kafka_topic", F.col("kafka_partition").alias("p"), F.expr("kafka_offset as o")
        ),
    )
    assert origin.record == {"kafka_topic": "kafka_topic", "kafka_partition": "p", "kafka_offset": "o"}


@pytest.mark.parametrize("how", ["inner", "left", "semi", "anti"])
def test_rows_that_are_joined_with_a_static_table_keep_their_record(
    readings: DataFrame, devices: DataFrame, how: str
) -> None:
    assert found(readings, lambda rows: rows.join(devices, "device_id", how)) == KEPT


@pytest.mark.parametrize(
    ("transform", "reason"),
    [
        (lambda rows: rows.drop("kafka_offset"), "kafka_offset"),
        (lambda rows: rows.withColumn("kafka_offset", F.col("kafka_offset") + 1), "kafka_offset"),
        (lambda rows: rows.withColumn("kafka_partition", F.lit(0)), "kafka_partition"),
        (
            lambda rows: rows.where("temperature > 0").unionByName(rows.withColumn("kafka_offset", F.lit(1))),
            "kafka_offset",
        ),
        (lambda rows: rows.mapInPandas(lambda batches: batches, rows.schema), "MapInPandas"),
    ],
    ids=["dropped", "changed", "invented", "one_branch", "mapped"],
)
def test_rows_that_do_not_name_their_record(readings: DataFrame, transform: Transform, reason: str) -> None:
    origin = found(readings, transform)
    assert (origin.record, origin.window, origin.stateful) == (None, None, False)
    assert reason in origin.reason


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        (("5 minutes",), EventWindow(kind="tumbling", length=5 * MINUTES, slide=5 * MINUTES)),
        (
            ("5 minutes", "5 minutes", "1 minute"),
            EventWindow(kind="tumbling", length=5 * MINUTES, slide=5 * MINUTES, offset=MINUTES),
        ),
        (("10 minutes", "5 minutes"), EventWindow(kind="sliding", length=10 * MINUTES, slide=5 * MINUTES)),
        (
            ("10 minutes", "4 minutes", "30 seconds"),
            EventWindow(kind="sliding", length=10 * MINUTES, slide=4 * MINUTES, offset=MINUTES / 2),
        ),
    ],
    ids=["tumbling", "offset", "sliding", "uneven"],
)
def test_rows_that_are_made_of_windows(
    readings: DataFrame, window: tuple[str, ...], expected: EventWindow
) -> None:
    origin = found(readings, in_windows(*window))
    assert origin.window == expected.model_copy(update={"start_columns": ("from",), "end_columns": ("to",)})
    assert (origin.record, origin.stateful, origin.reason) == (None, True, "")


@pytest.mark.parametrize(
    "transform",
    [
        lambda rows: rows.dropDuplicates(["event_id", "timestamp"]),
        lambda rows: rows.where("temperature > 0").withColumn("temperature", F.round("temperature")),
        lambda rows: rows.where("temperature > 0").unionByName(rows.where("temperature < 0")),
    ],
    ids=["deduplicated", "projected", "united"],
)
def test_windows_of_rows_that_were_prepared(readings: DataFrame, transform: Transform) -> None:
    origin = found(readings, lambda rows: in_windows("5 minutes")(transform(rows)))
    assert origin.window is not None
    assert origin.window.start_columns == ("from",)


def test_windows_are_found_where_their_rows_are_not_proven(readings: DataFrame) -> None:
    origin = found(
        readings,
        lambda rows: in_windows("5 minutes")(rows.dropDuplicatesWithinWatermark(["event_id"])),
    )
    assert (origin.window, origin.windows) == (None, (5 * MINUTES,))
    assert found(readings, lambda rows: rows.dropDuplicatesWithinWatermark(["event_id"])).windows == ()
    assert found(readings, twice).windows == (1 * MINUTES, 5 * MINUTES)
    assert found(readings, in_windows("10 minutes", "5 minutes")).windows == (10 * MINUTES,)


def test_windows_that_are_worked_on_after_their_aggregation(readings: DataFrame, devices: DataFrame) -> None:
    origin = found(
        readings,
        lambda rows: (
            rows.groupBy(F.window("timestamp", "1 hour"), "device_id")
            .count()
            .where("count > 1")
            .join(devices, "device_id", "left")
            .select("window", F.to_date("window.start").alias("day"), F.expr("window.start AS hour"), "room")
        ),
    )
    assert origin.window is not None
    assert (origin.window.start_columns, origin.window.end_columns) == (("hour",), ())
    assert origin.window.struct_columns == ("window",)


def test_sessions_are_told_apart(readings: DataFrame) -> None:
    origin = found(readings, lambda rows: rows.groupBy(F.session_window("timestamp", "5 minutes")).count())
    assert origin.window == EventWindow(kind="session", struct_columns=("session_window",))


def twice(rows: DataFrame) -> DataFrame:
    minutes = rows.groupBy(F.window("timestamp", "1 minute"), "device_id").count()
    return minutes.groupBy(F.window(F.window_time("window"), "5 minutes")).sum("count")


@pytest.mark.parametrize(
    ("transform", "reason"),
    [
        (lambda rows: rows.groupBy("device_id").count(), "without windows"),
        (lambda rows: rows.groupBy(F.date_trunc("hour", "timestamp")).count(), "without windows"),
        (lambda rows: rows.groupBy(F.window("sent_at", "5 minutes")).count(), "without windows"),
        (
            lambda rows: rows.groupBy(F.window("timestamp", "5 minutes").getField("start")).count(),
            "without windows",
        ),
        (lambda rows: rows.dropDuplicates(["event_id"]), "repetitions"),
        (lambda rows: rows.dropDuplicatesWithinWatermark(["event_id"]), "DeduplicateWithinWatermark"),
        (lambda rows: rows.dropDuplicates(["event_id", "timestamp"]), "before its own"),
        (twice, "aggregates aggregates"),
        (
            lambda rows: rows.join(rows.select("event_id", F.col("temperature").alias("t")), "event_id"),
            "twice",
        ),
        (lambda rows: rows.limit(3), "Limit"),
    ],
    ids=[
        "no_window",
        "truncated",
        "other_time",
        "start_only",
        "unbounded",
        "within",
        "deduplicated",
        "twice",
        "self_join",
        "limit",
    ],
)
def test_rows_that_depend_on_others_otherwise_prove_nothing(
    readings: DataFrame, transform: Transform, reason: str
) -> None:
    origin = found(readings, transform)
    assert (origin.record, origin.window) == (None, None)
    assert reason in origin.reason
