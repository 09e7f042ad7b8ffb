"""The tasks of `table_maintenance` on real tables: one is red for its own table, the report for all."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.small_files import SmallFiles
from tidemill.control.plane import open_control_plane
from tidemill.errors import DataError


class Run:
    """One run of the DAG, task by task; keeps what they return."""

    def __init__(self, orders: SmallFiles) -> None:
        self.kept: dict[str, Any] = {"maintain": []}
        self.place: Any = SimpleNamespace(open=lambda: open_control_plane(orders.environment, {}))

    def context(self) -> Any:
        def push(key: str, value: Any) -> None:  # Airflow's signature
            self.kept["maintain"].append(value)

        def pull(task_ids: str | list[str]) -> Any:
            # Return what Airflow returns: a list for a list of tasks, a single value for one task.
            return self.kept.get(task_ids) if isinstance(task_ids, str) else self.kept["maintain"]

        ti = SimpleNamespace(xcom_push=push, xcom_pull=pull)
        return {"ti": ti, "dag_run": SimpleNamespace(run_id="scheduled-1")}

    def tables(self) -> list[str]:
        from tidemill_airflow.maintenance_operators import TablesThere

        self.kept["tables"] = TablesThere(task_id="tables", place=self.place).execute(self.context())
        return list(self.kept["tables"])

    def maintain(self, table: str) -> None:
        from tidemill_airflow.maintenance_operators import MaintainTable

        task = MaintainTable(task_id="maintain", place=self.place, table=table)
        self.kept["maintain"].append(task.execute(self.context()))

    def report(self) -> dict[str, Any]:
        from tidemill_airflow.maintenance_operators import MaintenanceReport

        return MaintenanceReport(task_id="report", place=self.place).execute(self.context())


@pytest.fixture
def orders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SmallFiles:
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "airflow"))
    made = SmallFiles(tmp_path / "project")
    made.write(20)
    return made


def test_each_table_that_there_is_has_its_task_and_the_report_sums_up(orders: SmallFiles) -> None:
    run = Run(orders)
    assert run.tables() == ["bronze/orders"]
    run.maintain("bronze/orders")
    summary = run.report()
    assert (summary["tables"], summary["deleted"]) == (1, 0)
    assert "bronze/orders: small files: 20 put together into 1" in summary["done"]
    assert orders.ids() == list(range(20))


def test_a_damaged_table_turns_its_own_task_red_and_the_report(orders: SmallFiles) -> None:
    from airflow.sdk.exceptions import AirflowFailException

    orders.declare("torn", "{kafka: {topic: orders}}", "bronze/torn")
    log = Path(orders.layout.table("bronze/torn")) / "_delta_log"
    log.mkdir(parents=True)
    (log / f"{0:020}.json").write_text("{")
    run = Run(orders)
    assert run.tables() == ["bronze/orders", "bronze/torn"]
    run.maintain("bronze/orders")
    with pytest.raises(DataError, match="TIDE-LEDG-001"):
        run.maintain("bronze/torn")
    with pytest.raises(AirflowFailException, match="bronze/torn: its task has told nothing"):
        run.report()
