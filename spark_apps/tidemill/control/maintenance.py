"""Maintenance of the tables of one environment, for the command line and Airflow."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime

from tidemill.airflow_names import TABLE_MAINTENANCE_DAG_ID
from tidemill.checkpoint.procedure.audit import AuditEntry, write_audit
from tidemill.control.hygiene import may_delete
from tidemill.control.plane import ControlPlane
from tidemill.errors import UsageError
from tidemill.maintenance.maintain import TablePlan, TableReport, maintain, plan_maintenance
from tidemill.maintenance.needs import Maintained, maintained_tables
from tidemill.spec.near_key import near_key
from tidemill.storage.advance import Told, nobody_told


@dataclass(frozen=True)
class Upkeep:
    """The tables of an environment, with their writers and readers.

    Args:
        plane: The control plane.
        known: The declared tables.
    """

    plane: ControlPlane
    known: Maintained

    def there(self) -> list[str]:
        """Return the declared tables that exist."""
        store = self.plane.store
        return sorted(
            name for name, table in self.known.tables.items() if store.list_names(f"{table.path}/_delta_log")
        )

    def check(self, table: str) -> str:
        """Return the name of a table that a declared pipeline writes.

        Raises:
            UsageError: TIDE-TABL-001.
        """
        if table not in self.known.tables:
            near = near_key(table, self.known.tables)
            raise UsageError(
                "TIDE-TABL-001",
                "No pipeline writes such a table.",
                facts={
                    "table": ascii(table[:80]),
                    "known": ", ".join(sorted(self.known.tables)[:20]) or "none",
                },
                fix=f"did you mean {near}?" if near else "name one of these",
            )
        return table

    def plan(self, table: str) -> TablePlan | None:
        """Return the plan; None without the table. Writes nothing."""
        return plan_maintenance(self.plane.environment, self.plane.store, self.known, self.check(table))

    def maintain(
        self, table: str, by: str, *, approved: bool = False, told: Told = nobody_told
    ) -> TableReport:
        """Maintain a table; deletions are audited.

        Args:
            table: Name of the table.
            by: The requester.
            approved: True if this maintenance was approved, in a protected environment.
            told: Called with the current step and its progress.
        """
        self.plane.own()
        begun = datetime.now(UTC)
        report = maintain(
            self.plane.environment,
            self.plane.store,
            self.known,
            self.check(table),
            may_delete=approved or may_delete(self.plane),
            told=told,
        )
        if report.deleted:
            named = hashlib.sha256(table.encode()).hexdigest()[:12]
            entry = AuditEntry(
                verb="maintain",
                request_id=f"maintain-{named}-{begun:%Y%m%dt%H%M%S%f}",
                by=by,
                why=TABLE_MAINTENANCE_DAG_ID,
                at=begun,
                after=report.as_document(),
            )
            write_audit(self.plane.store, self.plane.layout, entry)
        return report


def open_upkeep(plane: ControlPlane) -> Upkeep:
    """Return the tables of an environment, as currently declared."""
    return Upkeep(plane, maintained_tables(plane.environment))
