"""In-memory tables of drivers on this machine, read through the drivers' ports."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidemill.control.plane import ControlPlane
from tidemill.control.queries import QueryState, query_of
from tidemill.errors import SpecError, UsageError
from tidemill.ledger.table_query import MEMORY
from tidemill.names import MEMORY_PATH, NEWEST_BATCH

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable

# Maximum seconds for an answer; a table has at most `max_rows` rows, and its driver is on this machine.
ANSWER_SECONDS = 30.0

# Only drivers on this machine are called, because their addresses come from a file that others may write.
_HERE = "http://127.0.0.1:"


@dataclass(frozen=True)
class MemoryRows:
    """The rows of an in-memory table.

    Args:
        plane: Control plane of the drivers.
        name: Name of the table.
        pipelines: Pipelines that declare a table of this name.
    """

    plane: ControlPlane
    name: str
    pipelines: tuple[str, ...]

    def newest_batch(self) -> int | None:
        """Return the newest batch; None if no running driver has the table yet."""
        holders = self._holders()
        rows = _ask(holders[0], self.name) if holders else None
        return None if rows is None else _batch_of(rows)

    def copy_into(self, folder: str) -> tuple[DeltaTable, int] | None:
        """Return a table with the rows, and the newest batch.

        Raises:
            UsageError: TIDE-QUERY-009, if no driver has the table, -010 if several have one of this name.
        """
        from deltalake import DeltaTable, write_deltalake

        holders = self._holders()
        facts = {"table": f"{MEMORY}{self.name}", "pipelines": ", ".join(self.pipelines)}
        if len(holders) > 1:
            raise UsageError(
                "TIDE-QUERY-010",
                "Several drivers that run have a table in memory of this name.",
                facts=facts,
                fix="give the tables different names, or stop all drivers but one",
            )
        rows = _ask(holders[0], self.name) if holders else None
        if rows is None:
            raise UsageError(
                "TIDE-QUERY-009",
                "No driver that runs here has this table: a table in memory is gone when its driver ends.",
                facts=facts,
                fix=f"start one, and wait for its first batch: tidemill start {self.pipelines[0]}; "
                "to keep the rows, write a Delta table",
            )
        write_deltalake(folder, rows)
        return DeltaTable(folder), _batch_of(rows)

    def _holders(self) -> list[str]:
        """Return the addresses of the drivers that may have the table."""
        queries = (query_of(self.plane, pipeline) for pipeline in self.pipelines)
        return [address for query in queries if (address := _address(query))]


def memory_tables(plane: ControlPlane, pipelines: Iterable[str] | None = None) -> dict[str, MemoryRows]:
    """Return the in-memory tables that pipelines declare, by default all, by their names in a query.

    Invalid pipeline files are skipped.
    """
    project = plane.environment.project
    found: dict[str, list[str]] = {}
    for pipeline in project.pipeline_names() if pipelines is None else pipelines:
        with suppress(SpecError):
            for sink in project.load_pipeline(pipeline).sinks:
                if sink.memory is not None:
                    found.setdefault(sink.memory.name, []).append(pipeline)
    return {f"{MEMORY}{name}": MemoryRows(plane, name, tuple(by)) for name, by in found.items()}


def _address(query: QueryState) -> str:
    if query.driver is None or query.report is None or not query.report.http.startswith(_HERE):
        return ""
    return query.report.http


def _ask(address: str, name: str) -> pa.Table | None:
    """Return the rows of a table; None if the driver does not have it or has ended."""
    import pyarrow as pa

    try:
        # A loopback address, checked by `_address`.
        with urllib.request.urlopen(f"{address}{MEMORY_PATH}{name}", timeout=ANSWER_SECONDS) as answer:  # noqa: S310
            return pa.ipc.open_stream(answer.read()).read_all()
    except OSError:
        return None


def _batch_of(rows: pa.Table) -> int:
    return int((rows.schema.metadata or {}).get(NEWEST_BATCH, b"-1"))
