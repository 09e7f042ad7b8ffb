"""The session of a driver."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from py4j.java_gateway import JavaPackage, JVMView
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import QueryProgressEvent, QueryStartedEvent

from tidemill.engine.in_session import new_reporter
from tidemill.names import query_name
from tidemill.storage.store import Store


def test_what_is_asked_of_the_jvm_at_each_event_is_looked_up_once(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_up: list[str] = []

    def noting(look_up: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
        return lambda place, name: looked_up.append(name) or look_up(place, name)

    for place in (JVMView, JavaPackage):
        monkeypatch.setattr(place, "__getattr__", noting(place.__getattr__))

    def ask() -> None:
        durations = spark._jvm.java.util.HashMap()
        durations["addBatch"] = 7
        # Read the whole map as pyspark does, up to the exception at its end.
        assert dict(durations) == {"addBatch": 7}
        assert spark._jvm.PythonSQLUtils is not None

    ask()
    looked_up.clear()
    ask()
    assert looked_up == []


def test_a_reporter_hears_of_a_batch_without_pysparks_copy_of_the_event(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy takes some hundred calls into the JVM."""
    for event in (QueryStartedEvent, QueryProgressEvent):
        monkeypatch.delattr(event, "fromJObject")
    reporter = new_reporter(Store(str(tmp_path)), f"{tmp_path}/status.json", "orders", "stream", "run-1")
    spark.streams.addListener(reporter)
    try:
        rates = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 7).load()
        query = rates.writeStream.queryName(query_name("orders")).format("noop").trigger(once=True).start()
        query.awaitTermination()
        spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    finally:
        spark.streams.removeListener(reporter)
    assert (reporter.last_progress, reporter.status.rows) == (0, 7)
