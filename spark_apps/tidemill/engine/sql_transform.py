"""A transform that is a SQL query; the sources are temporary views."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tidemill.engine.scala import items

_PLANS = "org.apache.spark.sql.catalyst.plans.logical"


def sql_transform(file: Path) -> Callable[..., DataFrame]:
    """Return the function that runs the query of a file.

    The function raises Spark's errors, which name line and column, and a ValueError if the text is not a
    query.
    """

    @cache
    def query() -> str:
        """Return the text, read once; a change of the file applies to the next driver."""
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
            # The plan is analysed, so the names are not looked up again.
            for name in sources:
                session.catalog.dropTempView(name)

    return transform


def _check_is_query(session: SparkSession, text: str) -> None:
    """Refuse statements that Spark would execute at once, such as INSERT."""
    jvm: Any = session._jvm
    plan = session._jsparkSession.sessionState().sqlParser().parsePlan(text)
    commands = [jvm.java.lang.Class.forName(f"{_PLANS}.{name}") for name in ("Command", "ParsedStatement")]
    for node in _nodes(plan):
        # EXECUTE IMMEDIATE contains its statement as text, which the parser does not check.
        hidden = node.getClass().getSimpleName() == "UnresolvedExecuteImmediate"
        if hidden or any(command.isInstance(node) for command in commands):
            raise ValueError(f"a transform is one query; this is {node.nodeName()}")


def _nodes(plan: Any) -> Iterator[Any]:
    yield plan
    for child in items(plan.children()):
        yield from _nodes(child)
