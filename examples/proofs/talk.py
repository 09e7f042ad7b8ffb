"""The talk's examples: from a topic to Parquet."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from examples.proofs.example import Example, Result

if TYPE_CHECKING:
    from examples.proofs.stage import Stage

COLUMNS = ("kafka_key", "kafka_value", "kafka_topic", "kafka_partition", "kafka_offset", "kafka_timestamp")
POSITION = ("kafka_topic", "kafka_partition", "kafka_offset")
FIRST = datetime(2024, 5, 1, 6, tzinfo=UTC)
READINGS = [
    {
        "data": {
            "timestamp": int((FIRST + timedelta(hours=12 * number)).timestamp()),
            "device": f"d{number % 2}",
        }
    }
    for number in range(8)
]
# Two days before the last reading.
RECENT = FIRST + timedelta(hours=12 * 7) - timedelta(hours=48)


def flat(since: datetime = FIRST) -> list[tuple[Any, ...]]:
    """Readings since a moment: time, device and date."""
    rows = [row["data"] for row in READINGS]
    times = [(datetime.fromtimestamp(int(row["timestamp"]), tz=UTC), row["device"]) for row in rows]
    return [(time, device, time.date()) for time, device in times if time >= since]


def nested_json(stage: Stage) -> Sequence[Result]:
    """All of it, and the last 48 hours, for which only the files of those days are opened."""
    stage.topic("nested_readings")
    stage.send("nested_readings", READINGS)
    stage.run("readings_by_date")
    place, columns = "exports/readings_by_date", ("timestamp", "device", "date")
    frame = stage.spark.read.parquet(str(stage.lake.root / place))
    since = f"date >= date'{RECENT:%Y-%m-%d}' AND timestamp >= timestamp'{RECENT:%Y-%m-%d %H:%M:%S}Z'"
    recent = frame.where(since).select(*columns)
    rows = [tuple(row) for row in recent.collect()]
    files = recent._jdf.queryExecution().executedPlan().collectLeaves().apply(0)
    opened = files.metrics().apply("numFiles").value()
    days = [date for date in {row[2] for row in flat()} if date >= RECENT.date()]
    return [
        Result(place, stage.exported(place, *columns), flat()),
        Result("the last 48 hours", rows, flat(RECENT)),
        Result("files that were opened for them", [opened], [len(days)]),
    ]


def ways_to_subscribe(stage: Stage) -> Sequence[Result]:
    """The list begins at the topics' ends, the pattern at their beginnings, the assignment at offsets."""
    sent = {"talk_one": (3, 2), "talk_two": (2,)}
    for topic, counts in sent.items():
        stage.topic(topic, len(counts))
        for partition, count in enumerate(counts):
            stage.send(topic, [b"before"] * count, partition)
    stage.run("topics_by_list")
    for topic in sent:
        stage.send(topic, [b"after"])
    for name in ("topics_by_list", "topics_by_pattern", "topics_by_assignment"):
        stage.run(name)
    new = [(topic, 0, counts[0]) for topic, counts in sent.items()]
    old = [
        (topic, partition, offset)
        for topic, counts in sent.items()
        for partition, count in enumerate(counts)
        for offset in range(count)
    ]
    assigned = [place for place in old + new if place[0] == "talk_one" and place != ("talk_one", 0, 0)]
    columns = sorted(stage.lake.rows("bronze/topics_by_list")[0])
    return [
        Result("columns", columns, sorted(COLUMNS)),
        Result("topics_by_list", stage.rows("bronze/topics_by_list", *POSITION), new),
        Result("topics_by_pattern", stage.rows("bronze/topics_by_pattern", *POSITION), old + new),
        Result("topics_by_assignment", stage.rows("bronze/topics_by_assignment", *POSITION), assigned),
    ]


EXAMPLES = [
    Example(
        36,
        "talk",
        "JSON files as a batch, and as a stream",
        ("strong_signals", "strong_signals_live"),
        note="the same as (1) and (2)",
    ),
    Example(
        37,
        "talk",
        "nested JSON with epoch seconds from Kafka, flattened, as Parquet by date; the last 48 hours",
        ("readings_by_date",),
        note="records that do not fit the schema go to the quarantine; `from_json` would return nulls",
        proof=nested_json,
    ),
    Example(
        38,
        "talk",
        "topics by list, pattern and assignment; starting offsets as JSON; the six columns",
        ("topics_by_list", "topics_by_pattern", "topics_by_assignment"),
        refused={"topics_by_pattern": "TIDE-SPEC-003"},
        note="the default of `starting_offsets` is `earliest`, Spark's is `latest`. To Spark, the talk's "
        "pattern `topic*` is a regular expression: `topi` and any number of `c`",
        proof=ways_to_subscribe,
    ),
]
