"""The task that emits an asset event for the commits of each stream's table, and none without commits."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import deltalake
import pyarrow
import pytest

from tests.support.commits import commit_of
from tests.support.small_project import STREAM, SmallProject, small_project

NOON = datetime(2026, 11, 23, 12, 0, tzinfo=UTC)
EVERY = timedelta(minutes=15)


class Events:
    """Events of one asset, as a task asks for them.

    Args:
        extras: Contents of the asset events, oldest first.
    """

    def __init__(self, extras: list[dict[str, Any]]) -> None:
        self.extras = extras

    def ascending(self, ascending: bool) -> Events:
        return self if ascending else Events(self.extras[::-1])

    def limit(self, limit: int) -> Events:
        return Events(self.extras[:limit])

    def __iter__(self) -> Iterator[Any]:
        return iter(SimpleNamespace(extra=extra) for extra in self.extras)


class Task:
    """The task over two streams, run again and again; Airflow keeps its events.

    Args:
        project: Project of the streams.
    """

    def __init__(self, project: SmallProject) -> None:
        self.project = project
        self.events: dict[str, list[dict[str, Any]]] = {"bronze/orders": [], "bronze/visits": []}

    def commit(self, pipeline: str, batch_id: int) -> None:
        entry = commit_of(batch_id, pipeline=pipeline).entry.model_copy(update={"rows": 2})
        deltalake.write_deltalake(
            self.project.environment.layout.table(f"bronze/{pipeline}"),
            pyarrow.table({"value": [1, 2]}),
            mode="append",
            commit_properties=deltalake.CommitProperties(custom_metadata={"userMetadata": entry.to_text()}),
        )

    def run(self, at: datetime) -> list[str]:
        """Run the task, and return the tables for which it emitted an event."""
        from airflow.sdk.exceptions import AirflowSkipException

        from tidemill_airflow.bounded_operators import table_asset
        from tidemill_airflow.stream_assets import STREAMED, StreamTable, TellStreamAssets

        told: dict[str, dict[str, Any]] = {}
        operator = TellStreamAssets(
            task_id="tell",
            place=SimpleNamespace(open=self.project.plane, beside=""),  # type: ignore[arg-type]
            tables=[StreamTable(table.partition("/")[2], table, EVERY) for table in self.events],
        )
        context: Any = {
            "dag_run": SimpleNamespace(run_after=at),
            "inlet_events": {table_asset(table): Events(extras) for table, extras in self.events.items()},
            "outlet_events": {
                STREAMED: SimpleNamespace(add=lambda asset, extra: told.update({asset.name: extra}))
            },
        }
        try:
            returned = operator.execute(context)
        except AirflowSkipException:
            returned = []
        assert returned == list(told.values())
        for table, extra in told.items():
            self.events[table].append(extra)
        return sorted(told)


@pytest.fixture
def task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Task]:
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "airflow"))
    with small_project(tmp_path / "project") as project:
        for name in ("orders", "visits"):
            project.declare(name, STREAM)
        yield Task(project)


def test_each_table_is_told_once_and_after_a_missed_run_with_all_that_came_meanwhile(task: Task) -> None:
    assert task.run(NOON) == []
    task.commit("orders", 0)
    assert task.run(NOON + EVERY) == ["bronze/orders"]
    assert task.run(NOON + 2 * EVERY) == []
    for batch_id in (1, 2):
        task.commit("orders", batch_id)
        task.commit("visits", batch_id)
    # Backfills and other tasks emit events of the table as well.
    task.events["bronze/orders"].append({"mode": "backfill", "version": 99})
    assert task.run(NOON + 9 * EVERY) == ["bronze/orders", "bronze/visits"]
    told = task.events["bronze/orders"][-1]
    assert (told["version"], told["after_version"], told["rows"], told["batches"]) == (2, 0, 4, 2)
    assert told["sources"]["source"] == {"start": {"orders": {"0": 10}}, "end": {"orders": {"0": 30}}}


def test_a_table_is_told_no_more_often_than_it_declares(task: Task) -> None:
    task.commit("orders", 0)
    task.run(NOON)
    task.commit("orders", 1)
    assert task.run(NOON + EVERY / 3) == []
    assert task.run(NOON + EVERY) == ["bronze/orders"]


def test_a_table_that_cannot_be_read_is_told_later_and_holds_up_no_other(task: Task) -> None:
    for name in ("orders", "visits"):
        task.commit(name, 0)
    log = Path(task.project.environment.layout.table("bronze/orders")) / "_delta_log"
    (file,) = log.glob("*.json")
    content = file.read_text()
    file.write_text("damaged")
    assert task.run(NOON) == ["bronze/visits"]
    file.write_text(content)
    assert task.run(NOON + EVERY) == ["bronze/orders"]
