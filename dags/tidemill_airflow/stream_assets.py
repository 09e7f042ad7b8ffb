"""The task that emits asset events for the commits of streams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset, AssetAlias, BaseOperator
from airflow.sdk.exceptions import AirflowSkipException

from tidemill_airflow.bounded_operators import table_asset
from tidemill_airflow.place import Place

if TYPE_CHECKING:
    from airflow.sdk import Context

    from tidemill.control.stream_events import StreamEvent, Told

# The tables with new commits are known only at run time. All environments share this alias; each asset
# belongs to one environment.
STREAMED = AssetAlias("tidemill_streamed")

# Maximum number of events to search for the last stream event of a table; the others are from backfills.
SEARCHED_EVENTS = 50

# Number of tables read in parallel. Reading takes milliseconds, or seconds if the log is long.
AT_ONCE, EACH_SECONDS, ALL_SECONDS = 8, 60, 600


@dataclass(frozen=True)
class StreamTable:
    """A table whose stream emits asset events.

    Args:
        pipeline: The stream.
        table: The table.
        every: Minimum time between two events.
    """

    pipeline: str
    table: str
    every: timedelta


class TellStreamAssets(BaseOperator):
    """Emit one event for each table with commits since its last event.

    The last event is the only state. The event and its content are one record in Airflow's database, so a
    worker that dies cannot lose or duplicate an event.

    Args:
        place: Project and environment.
        tables: The tables to report.
    """

    def __init__(self, *, place: Place, tables: Sequence[StreamTable], **arguments: Any) -> None:
        inlets = [table_asset(each.table, place.beside) for each in tables]
        super().__init__(inlets=inlets, outlets=[STREAMED], **arguments)
        self.place = place
        self.tables = list(tables)

    def execute(self, context: Context) -> list[dict[str, Any]]:
        """Read the tables that are due and return the events; skipped if there are none."""
        now = context["dag_run"].run_after
        told = {each.table: self._last_told(context, each) for each in self.tables}
        due = [each for each in self.tables if _is_due(told[each.table], each, now)]
        documents = [event.as_document(now) for event in self._look(due, told)]
        for document in documents:
            context["outlet_events"][STREAMED].add(self._asset(document["table"]), extra=document)
            self.log.info("%(table)s: version %(version)s, %(batches)s batches, %(rows)s rows", document)
        if not documents:
            raise AirflowSkipException("no stream has committed anything new")
        return documents

    def _asset(self, table: str) -> Asset:
        return table_asset(table, self.place.beside)

    def _last_told(self, context: Context, each: StreamTable) -> Told | None:
        from tidemill.control.stream_events import last_told

        events = context["inlet_events"][self._asset(each.table)].ascending(False).limit(SEARCHED_EVENTS)
        return last_told([event.extra or {} for event in events])

    def _look(self, due: Sequence[StreamTable], told: Mapping[str, Told | None]) -> list[StreamEvent]:
        """Return the event of each table; a table that cannot be read is reported later."""
        from tidemill.control.decide.side_by_side import Limits, side_by_side
        from tidemill.control.stream_events import look

        layout = self.place.open().layout
        by_table = {each.table: each for each in due}

        def act(table: str, _is_late: object) -> tuple[StreamEvent | None, Exception | None]:
            try:
                return look(layout, by_table[table].pipeline, table, told[table]), None
            except Exception as error:  # noqa: BLE001  # in a thread; the error is logged below
                return None, error

        found = []
        for table, answer in side_by_side(by_table, act, Limits(AT_ONCE, EACH_SECONDS, ALL_SECONDS)):
            event, error = answer or (None, TimeoutError(f"no answer within {EACH_SECONDS} seconds"))
            if error is not None:
                self.log.error("%s is told later: %s", table, error)
            if event is not None:
                found.append(event)
        return sorted(found, key=lambda event: event.table)


def _is_due(told: Told | None, each: StreamTable, now: datetime) -> bool:
    return told is None or told.is_due(each.every, now)
