"""Bytes that a backfill reads and writes, from the file sizes of tables and folders.

No record is read. Exact and estimated values are separate, because a topic does not report bytes, and the
number of rows of a transform is known only afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tidemill.backfill.plan import BackfillPlan
from tidemill.checkpoint.cleaning.stored import stored_files
from tidemill.ledger.read import open_table, row_count
from tidemill.spec.project import Pipeline
from tidemill.spec.readable import readable_size


@dataclass(frozen=True)
class TableSize:
    """A table as it is now.

    Args:
        table: Its name.
        rows: Number of its rows; None if its files do not record it.
        size: Size of its data files, in bytes.
    """

    table: str
    rows: int | None
    size: int

    @property
    def row_bytes(self) -> float | None:
        """Return the average bytes of a row in a file."""
        return self.size / self.rows if self.rows else None


@dataclass(frozen=True)
class Volume:
    """Bytes of a plan.

    Args:
        read: Bytes of the source, of which the plan may need a part; None if the source does not report them.
        records: Records to read, if known and if each may become a row; None if rows are made of several,
            such as those of a window.
        tables: The tables that are written.
    """

    read: int | None
    records: int | None
    tables: tuple[TableSize, ...]

    def lines(self) -> list[str]:
        """Return readable lines."""
        lines = (
            []
            if self.read is None
            else [f"  bytes     read: {readable_size(self.read)} at most, the whole source"]
        )
        return lines + [f"  bytes     write: {self._written(table)}" for table in self.tables]

    def _written(self, table: TableSize) -> str:
        each = table.row_bytes
        if each is None:
            return f"{table.table}: unknown, it has no rows yet"
        if self.records is None:
            return f"{table.table}: {readable_size(table.size)} for all of its {table.rows} rows now"
        expected = readable_size(self.records * each)
        return f"{table.table}: about {expected}, estimated: a row of {readable_size(each)} for each record"

    def as_document(self) -> dict[str, Any]:
        """Return plain data; `row_bytes` and `write_bytes_estimate` are estimates, the others exact."""
        written = [table.row_bytes for table in self.tables]
        known = self.records is not None and written and all(each is not None for each in written)
        return {
            "read_bytes_at_most": self.read,
            "tables": {
                each.table: {"rows": each.rows, "bytes": each.size, "row_bytes": each.row_bytes}
                for each in self.tables
            },
            "write_bytes_estimate": round(sum(each or 0 for each in written) * (self.records or 0))
            if known
            else None,
        }


def volume_of(pipeline: Pipeline, plan: BackfillPlan) -> Volume:
    """Return the volume, from the files of source and tables.

    Args:
        pipeline: The pipeline to process again.
        plan: Its plan.
    """
    sizes = [_size(sink.table, pipeline.layout.table(sink.table)) for sink in pipeline.spec.delta_sinks]
    records = plan.records if plan.by == "record" else None
    return Volume(_read(pipeline), records, tuple(sizes))


def _read(pipeline: Pipeline) -> int | None:
    source, layout = pipeline.spec.source, pipeline.layout
    if source.delta is not None:
        return _size(source.delta.table, layout.table(source.delta.table)).size
    if source.files is None:
        return None
    # None if only Spark can list the folder, which needs other credentials.
    stored = stored_files(layout, source.files.path)
    if stored is None:
        return None
    return sum(file.size for file in {**stored.archived, **stored.there}.values())


def _size(name: str, path: str) -> TableSize:
    table = open_table(path)
    if table is None:
        return TableSize(name, None, 0)
    files = table.get_add_actions(flatten=True)
    sizes: Any = files.column("size_bytes").to_pylist()
    return TableSize(name, row_count(table), sum(sizes))
