"""The guide's examples of monitoring, patterns, a whole pipeline and tests."""

from __future__ import annotations

import json
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Any

from examples.proofs import transactions as t
from examples.proofs.activity import FILES, stream_1p
from examples.proofs.example import Example, Result
from examples.proofs.times import at, by_window, moment
from tests.support.model_registry import model_registry
from tests.support.saved_models import LINE

if TYPE_CHECKING:
    from examples.proofs.stage import Stage

EXAMPLES_FOLDER = Path(__file__).parents[1]

EVENTS = [
    {
        "event_id": f"i{number}",
        "device_id": device,
        "temperature": degrees,
        "humidity": humidity,
        "timestamp": at(clock),
    }
    for number, (device, degrees, humidity, clock) in enumerate(
        [
            ("d1", 99.0, 40.0, "12:00:00"),
            ("d1", 103.0, 45.5, "12:04:59"),
            ("d2", 20.0, 50.0, "12:01:00"),
            ("d2", 21.0, 30.0, "12:06:00"),
            ("d1", 20.0, 30.0, "13:00:00"),
        ]
    )
]
FIRST = [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]
MODEL = ("fraud", "models:/fraud_detection/Production", "1")
SECOND = [{"id": 3, "name": "c", "score": 0.5}]


def status_of_a_query(stage: Stage) -> Sequence[Result]:
    """Compare the output of `queries` with the running driver."""
    told = stream_1p(stage)
    progress = told["query"]["last_progress"]
    listed = {
        one["pipeline"]: one["active"] for one in json.loads(stage.tidemill("queries", "--all", "--json")[1])
    }
    names = stage.pipeline("stream_1p").resolved.environment.project.pipeline_names()
    return [
        Result("last progress", [(progress["name"], progress["batchId"])], [("stream_1p", FILES - 1)]),
        Result("status", [listed["stream_1p"]], [told["active"]]),
        Result("all queries", list(listed), names),
    ]


def scored_by_a_model(stage: Stage) -> Sequence[Result]:
    """Apply a registered Spark ML model, which is in production, to the guide's transactions."""
    t.send_transactions(stage)
    with model_registry() as registry:
        registry.versions["fraud_detection"] = [LINE]
        registry.stages["fraud_detection", "Production"] = 1
        stage.models_from("transactions_scored", registry.url)
        stage.run("transactions_scored")
    columns = ("event_id", "amount", "prediction")
    found = [
        (one, amount, round(score, 6))
        for one, amount, score in stage.rows("silver/transactions_scored", *columns)
    ]
    (commit,) = stage.lake.ledger("silver/transactions_scored")
    used = {} if commit.entry is None else commit.entry.code.models or {}
    wanted = [(sent["event_id"], sent["amount"], 3 * sent["amount"]) for sent in t.TRANSACTIONS]
    return [
        Result("scores", found, wanted),
        Result("model in the ledger", [(name, one.uri, one.version) for name, one in used.items()], [MODEL]),
    ]


def each_once(stage: Stage) -> Sequence[Result]:
    """Sent twice, there once."""
    t.send_transactions(stage)
    stage.run("distinct_transactions")
    seen = stage.rows("silver/distinct_transactions", "event_id", "user_id", "amount")
    return [Result("silver/distinct_transactions", seen, t.distinct())]


def sessions(stage: Stage) -> Sequence[Result]:
    """Sessions that are over."""
    t.send_transactions(stage)
    stage.run("user_sessions")
    seen = stage.rows("gold/user_sessions", "user_id", "session_start", "events")
    return [Result("gold/user_sessions", seen, t.sessions())]


def iot(stage: Stage) -> Sequence[Result]:
    """Averages and peaks of windows that are over, and an alert."""
    for topic in ("iot_events", "iot_alerts"):
        stage.topic(topic)
    stage.send("iot_events", EVENTS)
    stage.run("repository/iot_device_windows")
    expected = _windows()
    columns = ("device_id", "window_start", "avg_temp", "max_humidity")
    alerts = [key for key, _ in stage.received("iot_alerts")]
    return [
        Result("silver/iot_device_windows", stage.rows("silver/iot_device_windows", *columns), expected),
        Result(
            "silver/iot_alerts",
            stage.rows("silver/iot_alerts", *columns),
            [row for row in expected if row[2] > 100],
        ),
        Result("topic iot_alerts", alerts, [row[0] for row in expected if row[2] > 100]),
    ]


def _windows() -> list[tuple[Any, ...]]:
    found = []
    for start, rows in by_window(EVENTS, lambda row: moment(row["timestamp"]), 5, t.WATERMARK).items():
        for device in {row["device_id"] for row in rows}:
            own = [row for row in rows if row["device_id"] == device]
            temperature = mean(row["temperature"] for row in own)
            found.append((device, start, temperature, max(row["humidity"] for row in own)))
    return found


def rows_in_memory(stage: Stage) -> Sequence[Result]:
    """The test of `examples/tests`, as pytest runs it."""
    sys.path.append(str(EXAMPLES_FOLDER / "spark_apps"))
    try:
        tests = runpy.run_path(str(EXAMPLES_FOLDER / "tests/test_large_amounts.py"))
    finally:
        sys.path.remove(str(EXAMPLES_FOLDER / "spark_apps"))
    tests["test_amounts_above_100_are_kept"](stage.spark)
    rows = stage.spark.createDataFrame(tests["ROWS"], tests["COLUMNS"])
    return [Result("count", [tests["transform"](rows).count()], [2])]


def broker_and_memory(stage: Stage) -> Sequence[Result]:
    """A broker of the test's own, records, a table in memory."""
    stage.topic("test_topic")
    messages = [b"first", b"second", b"third"]
    stage.send("test_topic", messages)
    stage.run("topic_in_memory")
    seen = stage.spark.table("test_query").select("value").collect()
    return [
        Result("memory test_query", [row["value"] for row in seen], [value.decode() for value in messages])
    ]


def added_columns(stage: Stage) -> Sequence[Result]:
    """The table was made without the column that the second file has."""
    from examples.proofs.stage import printed

    file = stage.lake.folder / "spark_apps/transforms/more_columns.sql"
    second = file.read_text()
    stage.land("landing/growing/1.json", FIRST)
    file.write_text(second.replace(", score", ""))
    with printed():
        stage.run("more_columns")
    file.write_text(second)
    stage.land("landing/growing/2.json", SECOND)
    with printed() as console:
        stage.run("more_columns")
    expected = [(row["id"], row["name"], row.get("score")) for row in [*FIRST, *SECOND]]
    seen = [(row["id"], row["name"], row.get("score")) for row in stage.lake.rows("bronze/growing")]
    return [
        Result("bronze/growing", seen, expected),
        Result("console", ["|3  |c   |0.5  |" in console.getvalue()], [True]),
    ]


EXAMPLES = [
    Example(
        27,
        "guide",
        "`status`, `lastProgress`, active streams",
        ("stream_1p",),
        proof=status_of_a_query,
    ),
    Example(
        28,
        "guide",
        "`dropDuplicates` by id and time within 10 minutes",
        ("distinct_transactions",),
        proof=each_once,
    ),
    Example(
        29,
        "guide",
        "session windows of 5 minutes by user",
        ("user_sessions",),
        refused={"user_sessions": "TIDE-PLAN-013"},
        note="Spark 4.2 refuses it in append mode, because no session ends without a watermark",
        proof=sessions,
    ),
    Example(
        30,
        "guide",
        "`mlflow.spark.load_model`: a model as a transform",
        ("transactions_scored",),
        note="the ledger names the version and its digest. Stages such as `Production` are deprecated since "
        "MLflow 2.9; aliases (`models:/fraud_detection@champion`) replace them",
        proof=scored_by_a_model,
    ),
    Example(
        32,
        "guide",
        "IoT end to end: Kafka, averages and peaks of 5 minutes, Delta, alerts above 100",
        ("repository/iot_device_windows",),
        note="uses append, because the guide's complete mode would keep every window in the state. Alerts go "
        "to a table and a topic, and `console: {where: avg_temp > 100}` shows them",
        proof=iot,
    ),
    Example(
        33,
        "guide",
        "a test with rows in memory: two rows, count 2",
        ("large_amounts",),
        note="PySpark has no `MemoryStream`; [a test](tests/test_large_amounts.py) calls the transform, "
        "which is a function",
        proof=rows_in_memory,
    ),
    Example(
        34,
        "guide",
        "a test with a Kafka broker and a table in memory: more than 0 rows",
        ("topic_in_memory",),
        note="`tidemill dev broker` is the broker",
        proof=broker_and_memory,
    ),
    Example(
        35,
        "guide",
        "console without truncation, `mergeSchema`",
        ("more_columns",),
        refused={"merge_schema": "TIDE-SPEC-003"},
        note="the console never truncates; `schema_evolution: add_columns` is the equivalent key of the sink",
        proof=added_columns,
    ),
]
