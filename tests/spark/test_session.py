"""The session of a driver."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from py4j.java_gateway import JavaPackage, JVMView
from pyspark.sql import SparkSession


def test_what_is_asked_of_the_jvm_at_each_event_is_looked_up_once(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    durations = spark._jvm.java.util.HashMap()
    durations["addBatch"] = 7
    looked_up: list[str] = []

    def noting(look_up: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
        return lambda place, name: looked_up.append(name) or look_up(place, name)

    for place in (JVMView, JavaPackage):
        monkeypatch.setattr(place, "__getattr__", noting(place.__getattr__))
    # As pyspark reads each map of an event, to its end and the exception there.
    assert dict(durations) == {"addBatch": 7}
    assert spark._jvm.PythonSQLUtils is not None
    # A whole name is found at once; a part of one is looked for in every jar.
    assert [name for name in looked_up if "." not in name] == []
