"""Which version of each joined table a batch was made with.

Delta takes the newest version when Spark plans the batch. The plan tells which one that was, and the ledger
keeps it: a batch that a later driver has to finish is joined with the same rows (`half_written.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tidemill.engine.scala import items
from tidemill.engine.state_operators import running_execution
from tidemill.spec.project import Pipeline
from tidemill.spec.transform_rules import wrong_call

# What stands in a plan for the files of a Delta table whose version is chosen (delta-spark 4.4).
_CHOSEN = "PreparedDeltaFileIndex"


@dataclass(frozen=True)
class TablesRead:
    """Looks into the plan of the running batch.

    Args:
        spark: The session that started the query.
        pipeline: What runs.
    """

    spark: SparkSession
    pipeline: Pipeline

    def __call__(self, frame: DataFrame) -> dict[str, int]:
        """Version by name of the source; without tables of which the result needs no row.

        Raises:
            SpecError: TIDE-PLAN-001, if the transform has cached a table, which would stay as it was.
        """
        leaves = _leaves(running_execution(self.spark, frame).optimizedPlan())
        if any(_is(leaf, "InMemoryRelation") for leaf in leaves):
            raise wrong_call(
                "cache", {"pipeline": self.pipeline.name, "tables": list(self.pipeline.spec.tables)}
            )
        found = {_plain(i.path().toString()): i.preparedScan().version() for i in _indexes(leaves)}
        layout = self.pipeline.layout
        paths = {name: _plain(layout.table(table)) for name, table in self.pipeline.spec.tables.items()}
        return {name: found[path] for name, path in paths.items() if path in found}


def _leaves(plan: Any) -> list[Any]:
    """What a plan and its subqueries read."""
    return [leaf for part in (plan, *items(plan.subqueriesAll())) for leaf in items(part.collectLeaves())]


def _indexes(leaves: list[Any]) -> Iterator[Any]:
    """The file indexes of the tables whose version is chosen."""
    for leaf in leaves:
        relation = leaf.relation() if _is(leaf, "LogicalRelation") else None
        if relation is not None and _is(relation, "HadoopFsRelation") and _is(relation.location(), _CHOSEN):
            yield relation.location()


def _is(part: Any, name: str) -> bool:
    found: str = part.getClass().getSimpleName()
    return found == name


def _plain(path: str) -> str:
    """A path as both sides write it: Hadoop shows `/data` and `file:///data` as `file:/data`."""
    return "/" + path.removeprefix("file:").lstrip("/") if path.startswith("file:") else path
