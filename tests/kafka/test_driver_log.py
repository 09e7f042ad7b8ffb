"""A driver's process, including its JVM, prints nothing of a record."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.support.driver_process import DriverProcess, drivers_of
from tests.support.kafka import Kafka, Record
from tests.support.lake import Lake
from tidemill.engine import session
from tidemill.errors import DataError

MARK = "payload-7c1e"
PROPERTIES = {"id": {"type": "integer"}, "note": {"type": "string"}}

# Seconds for a driver to find the records that make its transform fail. It takes 30 next to other sessions.
END_TIMEOUT_SECONDS = 300

# At 1 in Java, at 2 in Python.
FAILS = """
from pyspark.sql import functions as F

@F.udf("int")
def parsed(note):
    return int(note)

def only(number):
    return F.when(F.col("id") == number, F.col("note")).otherwise("1")

def transform(readings):
    number = only(1).cast("int")
    return readings.withColumn("java", number).withColumn("python", parsed(only(2)))
"""


@pytest.mark.soak
def test_a_driver_prints_nothing_of_a_record_good_broken_or_poison(
    kafka: Kafka, topic: str, tmp_path: Path
) -> None:
    lake = Lake(tmp_path / "lake", None, kafka.bootstrap_servers)  # type: ignore[arg-type]  # drivers have their own
    declaration = {
        "source": {"kafka": {"topic": topic}},
        "payload": {"json": {"schema": lake.schema("reading.json", PROPERTIES)}},
        "transform": lake.transform("fails", FAILS),
        "sinks": [{"delta": {"table": "bronze/readings"}}],
    }
    numbers: tuple[int | str, ...] = (*range(4), MARK)
    values = [json.dumps({"id": number, "note": f"{MARK} {number}"}).encode() for number in numbers]
    # The last one is cut off.
    kafka.send(topic, [Record(value, MARK.encode(), partition=0) for value in [*values, values[0][:-1]]])
    with drivers_of(lake.folder) as drivers:
        lake.pipeline("readings", **declaration)
        failing = drivers.start("readings", "incremental")
        assert failing.wait(END_TIMEOUT_SECONDS) == DataError.exit_code, failing.output
        lake.pipeline("readings", **declaration, run={"on_poison": "quarantine"})
        searching = drivers.start("readings", "incremental")
        assert searching.wait(END_TIMEOUT_SECONDS) == 0, searching.output

    assert sorted(row["id"] for row in lake.rows("bronze/readings")) == [0, 3]
    assert {row["note"][: len(MARK)] for row in lake.rows("bronze/readings")} == {MARK}
    reasons = sorted(row["reason"].partition(":")[0] for row in lake.quarantined("readings"))
    assert reasons == ["malformed_json", "transform_failed", "transform_failed", "wrong_type"]
    assert "batch" in {line["event"] for line in lines_of(searching)}
    assert [line for line in (failing.output + searching.output).splitlines() if MARK in line] == []
    assert [str(file) for file in told_by(lake) if MARK.encode() in file.read_bytes()] == []
    # The log has the facts that help: conditions, classes, and the lines of the transform.
    file = lake.folder / "spark_apps/transforms/fails.py"
    (failed,) = (line for line in lines_of(failing) if line["event"] == "failed")
    assert failed["facts"]["reason"] in (
        f"ValueError at {file}:6 in parsed",
        f"[CAST_INVALID_INPUT] at {file}:12",
    )
    assert "org.apache.spark.SparkNumberFormatException: [CAST_INVALID_INPUT]\n" in searching.output
    assert f'  File "{file}", line 6, in parsed\nValueError\n' in searching.output
    assert f'"cast" was called from\n{file}:12\n' in searching.output


def told_by(lake: Lake) -> list[Path]:
    """Return all files of the pipeline except its rows and its quarantine, and its recorded facts."""
    state = lake.root / "state"
    files = [file for file in state.rglob("*") if file.is_file() and "poison" not in file.parts]
    assert {"status.json", "query.json"} <= {file.name for file in files}
    return files


def lines_of(driver: DriverProcess) -> list[dict[str, Any]]:
    """Return the driver's own lines, without Java's."""
    return [json.loads(line) for line in driver.output.splitlines() if line.startswith("{")]


AT = "\tat org.apache.spark.rdd.RDD.iterator(RDD.scala:338)"

# Log lines, and the part of each that is printed.
TEXTS = {
    "Exception in task 0.0 in stage 3.0": "Exception in task 0.0 in stage 3.0",
    f"Lost task (executor 1): java.lang.NumberFormatException: For input string: {MARK}\n{AT}": (
        f"Lost task (executor 1): java.lang.NumberFormatException\n{AT}"
    ),
    f"Failed\norg.acme.BadReading: {MARK}\n{AT}": f"Failed\n{AT}",
    f"scala.MatchError: [{MARK},1] (of class Row)\r\n{AT}": f"scala.MatchError\n{AT}",
    f"a.B$CException: [A_B.OF_1] one\u2028{MARK}\n\n{AT}\n\tat {MARK} (x)\nCaused by: {MARK}\n{AT}": (
        f"a.B$CException: [A_B.OF_1]\n{AT}\n{AT}"
    ),
    f"q\n\tSuppressed: a.CError: {MARK}\nCaused by: java.io.IOException: no\n\t... 3 more\nAError: {MARK}": (
        "q\n\tSuppressed: a.CError\nCaused by: java.io.IOException: no\n\t... 3 more\nAError"
    ),
    f"java.io.IOException: of a.b.CError: {MARK}": "java.io.IOException: of a.b.CError",
    "org.apache.kafka.common.errors.TimeoutException: no metadata of 'events' within 60000 ms": (
        "org.apache.kafka.common.errors.TimeoutException: no metadata of 'events' within 60000 ms"
    ),
    "scala.MatchError: [DE89MARK0440532013000] (of class Row)": "scala.MatchError",
    "spark.sql.ansi.failOnError is set to false": "spark.sql.ansi.failOnError is set to false",
    "java.net.URISyntaxException: MARK": "java.net.URISyntaxException",
    "org.apache.kafka.common.errors.SerializationException: Can't convert MARK": (
        "org.apache.kafka.common.errors.SerializationException"
    ),
    "io.netty.channel.AbstractChannel$AnnotatedConnectException: refused: executor/10.0.0.7:7078": (
        "io.netty.channel.AbstractChannel$AnnotatedConnectException: refused: executor/10.0.0.7:7078"
    ),
    "java.lang.OutOfMemoryError: Java heap space": "java.lang.OutOfMemoryError: Java heap space",
}


def test_of_an_error_class_condition_and_places_are_printed(spark: SparkSession) -> None:
    jvm: Any = spark._jvm
    core = jvm.org.apache.logging.log4j.core
    context = core.LoggerContext("test")
    context.setConfigLocation(jvm.java.net.URI(f"file://{session.LOG_CONFIGURATION}"))
    context.start()
    layout = context.getConfiguration().getAppender("stderr").getLayout()
    printed = {}
    for text in TEXTS:
        message = jvm.org.apache.logging.log4j.message.SimpleMessage(text)
        event = core.impl.Log4jLogEvent.newBuilder().setLoggerName("a.Task").setMessage(message).build()
        printed[text] = layout.toSerializable(event).partition(" Task: ")[2]
    context.stop()
    assert printed == {text: f"{expected}\n" for text, expected in TEXTS.items()}
