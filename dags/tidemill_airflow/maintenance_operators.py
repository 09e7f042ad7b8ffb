"""The tasks of `table_maintenance`: a list of existing tables, one task for each, and the report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from tidemill_airflow.advance_log import AdvanceLog
from tidemill_airflow.asker import asked_by
from tidemill_airflow.place import Place
from tidemill_airflow.upkeep import told_by

if TYPE_CHECKING:
    from airflow.sdk import Context


class TablesThere(BaseOperator):
    """List the declared tables that exist.

    Args:
        place: Project and environment.
    """

    def __init__(self, *, place: Place, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.place = place

    def execute(self, context: Context) -> list[str]:  # noqa: ARG002  # Airflow's signature
        """Return the names of the tables."""
        from tidemill.control.maintenance import open_upkeep

        return open_upkeep(self.place.open()).there()


class MaintainTable(BaseOperator):
    """Compact small files of one table and delete unneeded files while its stream runs.

    Args:
        place: Project and environment.
        table: The table.
    """

    template_fields = ("table",)

    def __init__(self, *, place: Place, table: str, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.place = place
        self.table = table

    def execute(self, context: Context) -> dict[str, Any]:
        """Maintain the table and return the actions, done and skipped."""
        from tidemill.control.maintenance import open_upkeep

        upkeep = open_upkeep(self.place.open())
        report = upkeep.maintain(self.table, asked_by(context), told=AdvanceLog(self.log.info).tell)
        for line in report.lines():
            self.log.info("%s", line)
        if not report.failed:
            return report.as_document()
        context["ti"].xcom_push(key="return_value", value=report.as_document())
        raise AirflowException("\n".join(report.failed))


class MaintenanceReport(BaseOperator):
    """Report the results of all tasks; fail if one has failed, so that the DAG run fails.

    Args:
        place: Project and environment.
    """

    def __init__(self, *, place: Place, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.place = place

    def execute(self, context: Context) -> dict[str, Any]:
        """Return the summary."""
        tables = context["ti"].xcom_pull(task_ids="tables")
        if tables is None:
            raise AirflowFailException("The tables are not known; see the task `tables`.")
        told = {report["table"]: report for report in told_by(context, "maintain")}
        lines = [f"{name}: {text}" for name, report in told.items() for text in report["done"]]
        self.log.info("%s", "\n".join(lines) or "There are no tables yet.")
        wrong = [f"{name}: {text}" for name, report in told.items() for text in report["failed"]]
        wrong += [f"{name}: its task has told nothing; see its log" for name in tables if name not in told]
        summary = {"tables": len(tables), "deleted": sum(r["deleted"] for r in told.values()), "done": lines}
        if wrong:
            context["ti"].xcom_push(key="return_value", value=summary)
            raise AirflowFailException("\n".join(["These tables need a human.", *wrong]))
        return summary
