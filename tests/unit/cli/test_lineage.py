"""`tidemill lineage`: events made again from ledger and receipts, shown or sent."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import CommandLine
from tests.support.conf_project import ENVIRONMENT, ConfProject
from tests.support.eventually import eventually
from tests.support.lineage_service import LineageService, lineage_service
from tests.support.openlineage_rules import check_event
from tests.support.paper_batches import PaperBatches
from tidemill.checkpoint.receipts import Receipt, write_receipt
from tidemill.checkpoint.status import Status, write_status
from tidemill.engine.batch_writer import BatchResult
from tidemill.engine.lineage_sender import open_lineage
from tidemill.sinks.batch_commit import Written

LONG_AGO = ("--since", "2026-01-01")
TABLE = "bronze/orders"


@pytest.fixture
def service() -> Iterator[LineageService]:
    with lineage_service() as found:
        yield found


@pytest.fixture
def batches(project: ConfProject, service: LineageService) -> PaperBatches:
    lineage = f"catalog: lake\nlineage: {{url: '{service.url}', every: 0 seconds}}\n"
    project.write("conf/environments/local.yaml", ENVIRONMENT + lineage)
    return PaperBatches(project.resolve())


def begun(batches: PaperBatches, run_id: str) -> Status:
    now = datetime.now(UTC)
    status = Status(
        pipeline="orders", mode="stream", state="running", run_id=run_id, started_at=now, updated_at=now
    )
    write_status(batches.store, batches.pipeline.layout.status("orders"), status)
    return status


def ended(batches: PaperBatches, status: Status, **keys: Any) -> Receipt:
    receipt = Receipt(
        pipeline="orders",
        run_id=status.run_id,
        mode=status.mode,
        started_at=status.started_at,
        stopped_at=datetime.now(UTC),
        **{"result": "clean", "exit_code": 0, **keys},
    )
    write_receipt(batches.store, batches.pipeline.layout, receipt)
    return receipt


def by_time(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(events, key=lambda event: str(event["eventTime"]))


def test_what_is_sent_afterwards_is_what_the_driver_sent(
    tidemill: CommandLine, batches: PaperBatches, service: LineageService
) -> None:
    status = begun(batches, "run-1")
    sender = open_lineage(batches.pipeline)
    assert sender is not None
    sender.begins(status)
    for number in range(2):
        batches.run("run-1")
        sender.wrote(BatchResult(number, {TABLE: Written(True, 10, number + 1)}, 0))
        eventually(lambda sent=number + 2: len(service.events) == sent, "the batch is told")  # type: ignore[misc]
    sender.ends(ended(batches, status))
    live = list(service.events)
    assert service.types == ["START", "RUNNING", "RUNNING", "COMPLETE"]
    assert tidemill("lineage", "emit", "orders", *LONG_AGO) == 0
    assert service.events[4:] == live
    assert tidemill.out.splitlines()[-1] == f"4 events sent to {service.url}"
    assert tidemill.json("lineage", "show", "orders", *LONG_AGO) == live
    assert [check_event(event)["eventType"] for event in live] == service.types[:4]


def test_lost_events_are_shown_and_sent_from_a_moment_on(
    tidemill: CommandLine, batches: PaperBatches, service: LineageService
) -> None:
    # None of these runs sent an event: an old driver, a killed one, and one that is running.
    batches.run("old")
    middle = datetime.now(UTC)
    # A batch of before the moment, that the log of Delta dates to the millisecond.
    eventually(lambda: datetime.now(UTC) > middle + timedelta(milliseconds=2), "the clock goes on")
    since = ("--since", datetime.now(UTC).isoformat())
    batches.run("killed")
    failed = begun(batches, "failed")
    error = {"id": "TIDE-SINK-001", "problem": "Other columns."}
    ended(batches, failed, result="failed", exit_code=65, error=error)
    begun(batches, "at-work")
    batches.run("at-work")
    assert tidemill("lineage", "emit", "orders", *since) == 0
    assert [check_event(event)["eventType"] for event in service.events] == [
        *("RUNNING", "START", "FAIL", "START", "RUNNING"),
    ]
    assert tidemill("lineage", "show", "orders", *since) == 0
    assert ["lake.bronze.orders v2" in tidemill.out, "lake.bronze.orders v1" in tidemill.out] == [True, False]
    assert tidemill("lineage", "show", "orders", *LONG_AGO) == 0
    assert "lake.bronze.orders v1" in tidemill.out


def test_ledger_and_status_show_a_table_by_its_name_in_the_catalog(
    tidemill: CommandLine, batches: PaperBatches, project: ConfProject
) -> None:
    batches.run()
    assert [commit["table"] for commit in tidemill.json("ledger", "orders")] == ["lake.bronze.orders"]
    assert tidemill.json("status", "orders")[0]["tables"] == ["lake.bronze.orders"]
    project.write("conf/environments/local.yaml", ENVIRONMENT)
    assert [commit["table"] for commit in tidemill.json("ledger", "orders")] == [TABLE]
    assert tidemill.json("status", "orders")[0]["tables"] == [TABLE]


def test_a_table_that_two_pipelines_write_tells_each_its_own(
    tidemill: CommandLine, project: ConfProject, batches: PaperBatches
) -> None:
    text = (project.folder / "conf/pipelines/orders.yaml").read_text()
    project.write("conf/pipelines/returns.yaml", text)
    PaperBatches(project.resolve("returns")).run("r")
    batches.run("o")
    for name, version in (("orders", "2"), ("returns", "1")):
        (event,) = tidemill.json("lineage", "show", name, *LONG_AGO)
        assert event["job"]["name"] == name
        assert event["outputs"][0]["facets"]["version"]["datasetVersion"] == version


def test_a_damaged_log_is_told_as_such(tidemill: CommandLine, batches: PaperBatches) -> None:
    batches.run("run-1")
    for file in Path(batches.pipeline.layout.table(TABLE)).glob("_delta_log/*.json"):
        file.write_text("torn")
    assert tidemill("lineage", "show", "orders", *LONG_AGO) == 1
    assert "TIDE-LEDG-001" in tidemill.err


def test_a_service_that_is_down_fails_the_command_with_the_reason(
    tidemill: CommandLine, batches: PaperBatches, service: LineageService
) -> None:
    batches.run("run-1")
    service.answer = 401
    assert tidemill("lineage", "emit", "orders", *LONG_AGO) == 1
    assert "TIDE-LINE-001" in tidemill.err
    assert "401" in tidemill.err
    service.stop()
    assert tidemill("lineage", "emit", "orders", *LONG_AGO) == 1
    assert "TIDE-LINE-001" in tidemill.err


def test_a_moment_and_a_service_are_needed(tidemill: CommandLine, project: ConfProject) -> None:
    assert tidemill("lineage", "emit", "orders", *LONG_AGO) == 2
    assert "TIDE-LINE-004" in tidemill.err
    assert tidemill("lineage", "show", "orders", "--since", "yesterday") == 2
    assert "TIDE-LINE-003" in tidemill.err
    # `show` needs no service, and a pipeline that never ran has no events.
    assert tidemill.json("lineage", "show", "orders", *LONG_AGO) == []
