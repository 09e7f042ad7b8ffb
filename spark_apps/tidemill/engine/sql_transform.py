"""A transform that is a query: the sources are views of its names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tidemill.engine.scala import items

_PLANS = "org.apache.spark.sql.catalyst.plans.logical"


def sql_transform(file: Path) -> Callable[..., DataFrame]:
    """The function that runs the query of a file.

    It raises Spark's own errors, which name line and column, and a ValueError for what is no query.
    """

    @cache
    def query() -> str:
        """Read once: a change of the file is for the next driver."""
        return file.read_text(encoding="utf-8")

    def transform(**sources: DataFrame) -> DataFrame:
        text = query()
        session = next(iter(sources.values())).sparkSession
        _check_is_query(session, text)
        for name, rows in sources.items():
            rows.createOrReplaceTempView(name)
        try:
            return session.sql(text)
        finally:
            # The plan is analysed; nothing looks for the names again.
            for name in sources:
                session.catalog.dropTempView(name)

    return transform


def _check_is_query(session: SparkSession, text: str) -> None:
    """Refuse what Spark would carry out at once, such as INSERT."""
    jvm: Any = session._jvm
    plan = session._jsparkSession.sessionState().sqlParser().parsePlan(text)
    commands = [jvm.java.lang.Class.forName(f"{_PLANS}.{name}") for name in ("Command", "ParsedStatement")]
    for node in _nodes(plan):
        # What it executes is text, which the parser does not look into.
        hidden = node.getClass().getSimpleName() == "UnresolvedExecuteImmediate"
        if hidden or any(command.isInstance(node) for command in commands):
            raise ValueError(f"a transform is one query; this is {node.nodeName()}")


def _nodes(plan: Any) -> Iterator[Any]:
    yield plan
    for child in items(plan.children()):
        yield from _nodes(child)
