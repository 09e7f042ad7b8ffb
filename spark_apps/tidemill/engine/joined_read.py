"""The contents of joined tables and folders with which a batch was computed.

Delta takes the newest version when Spark plans the batch. For a folder, the files are those that the query
has listed. Both are in the plan, and the ledger keeps them. So a later driver that has to finish the batch
joins the same rows (`half_written.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tidemill.engine.half_written import QueryStart, StartAgainError
from tidemill.engine.joined_files import listings_now, source_of
from tidemill.engine.scala import items
from tidemill.engine.state_operators import running_execution
from tidemill.ledger.entry import FilesRead, Joined
from tidemill.sources.file_listing import listing_of
from tidemill.spec.project import Pipeline
from tidemill.spec.transform_rules import wrong_call
from tidemill.storage.store import Store

# Class in a plan for the files of a Delta table at a pinned version (delta-spark 4.4).
_CHOSEN = "PreparedDeltaFileIndex"


class JoinedRead:
    """Reads the plan of the running batch.

    Args:
        spark: The session that started the query.
        pipeline: The pipeline.
        store: Store of the folder listings.
        start: Start of the query.
    """

    def __init__(self, spark: SparkSession, pipeline: Pipeline, store: Store, start: QueryStart) -> None:
        self._spark = spark
        self._pipeline = pipeline
        self._store = store
        self._start = start
        # Spark lists a scan once, when the query starts.
        self._listed: dict[str, FilesRead] = {}

    def of(self, frame: DataFrame) -> Joined:
        """Return the contents that a batch reads, except sources from which the result needs no row.

        Raises:
            SpecError: TIDE-PLAN-001, if the transform has cached a table, which would never be updated.
        """
        leaves = _leaves(running_execution(self._spark, frame).optimizedPlan())
        if any(_is(leaf, "InMemoryRelation") for leaf in leaves):
            raise wrong_call("cache", {"pipeline": self._pipeline.name, "tables": self._pipeline.spec.joined})
        relations = list(_relations(leaves))
        return Joined(tables=self._versions(relations), files=self._files(relations))

    def check_newest(self, read: Joined, batch_id: int | None) -> None:
        """Check that a batch reads the current files.

        If the query was started again for a batch, the batch reads the files that this start has listed. So a
        folder that changes constantly delays each batch by at most one start and blocks none. A batch that is
        finished or repeated reads its own files.

        Raises:
            StartAgainError: If a folder has other files.
            AbsentError: TIDE-JOIN-001, if a folder has none.
        """
        if not read.files or batch_id == self._start.settled_for:
            return
        now = listings_now(self._spark, self._pipeline)
        if any(now[name].read != files for name, files in read.files.items()):
            raise StartAgainError(QueryStart(listed_for=batch_id))

    def _versions(self, relations: list[Any]) -> dict[str, int]:
        indexes = (relation.location() for relation in relations)
        chosen = (index for index in indexes if _is(index, _CHOSEN))
        found = {_plain(i.path().toString()): i.preparedScan().version() for i in chosen}
        layout = self._pipeline.layout
        paths = {name: _plain(layout.table(table)) for name, table in self._pipeline.spec.tables.items()}
        return {name: found[path] for name, path in paths.items() if path in found}

    def _files(self, relations: list[Any]) -> dict[str, FilesRead]:
        if not self._pipeline.joined_files:
            return {}
        found = {name: relation for relation in relations if (name := source_of(relation)) is not None}
        for name in found.keys() - self._listed.keys():
            listing = listing_of(self._spark, found[name].location())
            listing.keep(self._store, self._pipeline.layout, self._pipeline.name)
            self._listed[name] = listing.read
        return {name: self._listed[name] for name in sorted(found)}


def _leaves(plan: Any) -> list[Any]:
    """Return the leaves of a plan and its subqueries."""
    return [leaf for part in (plan, *items(plan.subqueriesAll())) for leaf in items(part.collectLeaves())]


def _relations(leaves: list[Any]) -> Iterator[Any]:
    """Yield the file relations of leaves: of Delta tables and of joined folders."""
    for leaf in leaves:
        relation = leaf.relation() if _is(leaf, "LogicalRelation") else None
        if relation is not None and _is(relation, "HadoopFsRelation"):
            yield relation


def _is(part: Any, name: str) -> bool:
    found: str = part.getClass().getSimpleName()
    return found == name


def _plain(path: str) -> str:
    """Return a path in one notation: Hadoop shows `/data` and `file:///data` as `file:/data`."""
    return "/" + path.removeprefix("file:").lstrip("/") if path.startswith("file:") else path
