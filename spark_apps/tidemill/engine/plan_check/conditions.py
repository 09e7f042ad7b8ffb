"""A check by Spark's analysed plan that a condition on a table's rows depends on each row alone."""

from __future__ import annotations

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType

from tidemill.engine.plan_check.analysed import classes_in, node_of, plan_of
from tidemill.engine.scala import items

# Kinds of nodes that a condition on one row may have: the rows, and the projection with the condition.
_OF_ONE_ROW = ("Project", "LocalRelation", "LogicalRDD")
_CLOCKS = ("CurrentBatchTimestamp", "CurrentDate", "CurrentTime", "CurrentTimestamp", "LocalTimestamp", "Now")


def why_not_of_one_row(rows: DataFrame, condition: str) -> str:
    """Return why a condition does not depend on each row alone, or is not repeatable; empty if it is valid.

    Args:
        rows: A frame without rows, with the columns.
        condition: SQL.
    """
    try:
        asked = rows.select(F.expr(condition).alias("expected"))
    except (AnalysisException, ParseException) as error:
        return str(error).strip().partition("\n")[0]
    kind = asked.schema["expected"].dataType
    if not isinstance(kind, BooleanType):
        return f"it is {kind.simpleString()}, not a condition"
    plan = plan_of(asked)
    root = node_of(plan)
    others = sorted({node.kind for node in root.walk()} - set(_OF_ONE_ROW))
    if others:
        return f"it is not of one row: {', '.join(others)}"
    found = [name for name, _ in classes_in([v for key, v in root.fields.items() if key != "class"])]
    clocks = [name for name in found if name in _CLOCKS]
    if clocks:
        return f"it asks for the current time, {clocks[0]}: a repeated batch would decide otherwise"
    if any(name.endswith("Subquery") or name == "Exists" for name in found):
        return "it is not of one row: a subquery"
    if not all(expression.deterministic() for expression in items(plan.projectList())):
        return "it is not deterministic: a repeated batch would decide otherwise"
    return ""
