"""Lineage of a running driver: no batch waits for it, and missed events come from the ledger."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.support.conf_project import ENVIRONMENT, ConfProject
from tests.support.eventually import eventually
from tests.support.lineage_service import LineageService, lineage_service
from tests.support.openlineage_rules import check_event
from tests.support.paper_batches import PaperBatches
from tidemill.checkpoint.receipts import Receipt
from tidemill.checkpoint.status import Status
from tidemill.engine.batch_writer import BatchResult
from tidemill.engine.lineage_sender import LineageSender, open_lineage
from tidemill.sinks.batch_commit import Written

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
RUN = "run-1"
STATUS = Status(pipeline="orders", mode="stream", state="starting", run_id=RUN, started_at=AT, updated_at=AT)
RECEIPT = Receipt(
    pipeline="orders",
    run_id=RUN,
    mode="stream",
    result="clean",
    exit_code=0,
    started_at=AT,
    stopped_at=AT + timedelta(days=1),
)
TABLE = "bronze/orders"


@pytest.fixture
def project(tmp_path: Any) -> ConfProject:
    return ConfProject(tmp_path / "project")


@pytest.fixture
def service() -> Any:
    with lineage_service() as found:
        yield found


def declare(project: ConfProject, service: LineageService, keys: str = "every: 0 seconds") -> PaperBatches:
    lineage = f"lineage: {{url: '{service.url}', {keys}}}\n"
    project.write("conf/environments/local.yaml", ENVIRONMENT + lineage)
    return PaperBatches(project.resolve())


def sender_of(batches: PaperBatches) -> LineageSender:
    sender = open_lineage(batches.pipeline)
    assert sender is not None
    return sender


def write(batches: PaperBatches, sender: LineageSender, run_id: str = RUN) -> int:
    number = batches.run(run_id)
    sender.wrote(BatchResult(number, {TABLE: Written(True, 10, 0)}, 0))
    return number


def batches_told(service: LineageService) -> list[int]:
    facets = (event["run"].get("facets", {}).get("tidemill_batch") for event in service.events)
    return [facet["batchId"] for facet in facets if facet is not None]


def test_a_run_is_told_from_its_start_to_its_end(project: ConfProject, service: LineageService) -> None:
    batches = declare(project, service)
    sender = sender_of(batches)
    sender.begins(STATUS)
    for number in range(2):
        write(batches, sender)
        eventually(lambda told=number: told in batches_told(service), "the batch is told")  # type: ignore[misc]
    sender.ends(RECEIPT)
    assert service.types == ["START", "RUNNING", "RUNNING", "COMPLETE"]
    assert len({check_event(event)["run"]["runId"] for event in service.events}) == 1
    written = [event["outputs"][0]["facets"] for event in service.events[1:3]]
    # Version 0 made the table.
    assert [facets["version"]["datasetVersion"] for facets in written] == ["1", "2"]
    assert [field["name"] for field in written[0]["schema"]["fields"]] == ["id"]


def test_of_batches_within_the_interval_the_first_and_the_last_are_told(
    project: ConfProject, service: LineageService
) -> None:
    batches = declare(project, service, "every: 1 hour")
    sender = sender_of(batches)
    sender.begins(STATUS)
    write(batches, sender)
    eventually(lambda: batches_told(service) == [0], "the first batch is told")
    for _ in range(3):
        write(batches, sender)
    sender.ends(RECEIPT)
    assert batches_told(service) == [0, 3]
    assert service.types[-1] == "COMPLETE"


def test_a_batch_that_others_wrote_or_that_is_at_work_is_not_told(
    project: ConfProject, service: LineageService
) -> None:
    batches = declare(project, service)
    sender = sender_of(batches)
    sender.begins(STATUS)
    batches.run("run-0")
    # This driver found it written.
    sender.wrote(BatchResult(0, {TABLE: Written(False)}, 0))
    write(batches, sender)
    # Only this table of the next batch is written so far.
    batches.write(batches.plan(), TABLE)
    sender.wrote(BatchResult(1, {TABLE: Written(True, 10, 2)}, 0))
    sender.ends(RECEIPT)
    assert set(batches_told(service)) == {1}


def test_a_silent_service_delays_no_batch_and_the_end_not_for_long(
    project: ConfProject, service: LineageService
) -> None:
    batches = declare(project, service)
    service.open.clear()
    sender = sender_of(batches)
    sender.begins(STATUS)
    eventually(lambda: service.events, "the first event is on its way")
    # Each call returns while the service still holds the first event.
    for _ in range(3):
        write(batches, sender)
    with capture_logs() as logs:
        sender.ends(RECEIPT, wait_seconds=0.01)
    assert service.types == ["START"]
    assert [line["event"] for line in logs] == ["lineage_not_sent"]
    service.open.set()
    eventually(lambda: "COMPLETE" in service.types, "what is left is told, while the process lives")


def test_a_service_that_refuses_is_logged_when_that_changes_and_told_again_later(
    project: ConfProject, service: LineageService
) -> None:
    batches = declare(project, service)
    service.answer = 503
    with capture_logs() as logs:
        sender = sender_of(batches)
        sender.begins(STATUS)
        eventually(lambda: len(service.events) == 1, "it was tried once")
        for tries in (2, 3):
            write(batches, sender)
            eventually(lambda tries=tries: len(service.events) == tries, "it was tried again")  # type: ignore[misc]
        service.answer = 201
        write(batches, sender)
        eventually(lambda: "RUNNING" in service.types, "it is told")
        sender.ends(RECEIPT)
    assert service.types == [*["START"] * 4, "RUNNING", "COMPLETE"]
    assert batches_told(service) == [2]
    told = [line for line in logs if line["event"].startswith("lineage")]
    assert [line["event"] for line in told] == ["lineage_unavailable", "lineage_available"]
    assert told[0]["error"]["id"] == "TIDE-LINE-001"
    assert "503" in told[0]["error"]["facts"]["reason"]


def test_a_table_that_cannot_be_read_stops_no_driver(project: ConfProject, service: LineageService) -> None:
    batches = declare(project, service)
    sender = sender_of(batches)
    with capture_logs() as logs:
        sender.begins(STATUS)
        write(batches, sender)
        for file in (project.folder / f".data/tables/{TABLE}/_delta_log").glob("*.json"):
            file.write_text("torn")
        write_nothing = BatchResult(1, {TABLE: Written(True, 0, 1)}, 0)
        sender.wrote(write_nothing)
        sender.ends(RECEIPT)
    assert [line["event"] for line in logs if line["log_level"] == "warning"] == ["lineage_unavailable"]


def test_the_key_is_sent_as_a_bearer_token_and_stands_nowhere_else(
    project: ConfProject, service: LineageService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEMILL_SECRET_LINEAGE_KEY", "c4n4ry")
    batches = declare(project, service, "api_key: lineage-key")
    sender = sender_of(batches)
    sender.begins(STATUS)
    sender.ends(RECEIPT)
    assert service.keys == ["Bearer c4n4ry"] * 2
    assert "c4n4ry" not in str(service.events)


@pytest.mark.parametrize(("value", "error"), [("", "TIDE-SPEC-030"), ("c4n\n4ry", "TIDE-LINE-002")])
def test_a_key_that_cannot_be_used_turns_lineage_off_and_stops_nothing(
    project: ConfProject,
    service: LineageService,
    monkeypatch: pytest.MonkeyPatch,
    value: str,
    error: str,
) -> None:
    monkeypatch.setenv("TIDEMILL_SECRET_LINEAGE_KEY", value)
    batches = declare(project, service, "api_key: lineage-key")
    with capture_logs() as logs:
        assert open_lineage(batches.pipeline) is None
    assert [(line["event"], line["error"]["id"]) for line in logs] == [("lineage_off", error)]
    assert "c4n" not in str(logs)


def test_a_key_that_this_process_may_not_read_stops_nothing(
    project: ConfProject, service: LineageService, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tidemill.engine.lineage_sender.endpoint_of", refuses)
    with capture_logs() as logs:
        assert open_lineage(declare(project, service, "api_key: lineage-key").pipeline) is None
    assert [(line["event"], line["error"]) for line in logs] == [
        ("lineage_off", "PermissionError: [Errno 13] Permission denied")
    ]


def test_without_a_service_nothing_is_told(project: ConfProject) -> None:
    assert open_lineage(project.resolve()) is None


def test_a_driver_that_never_began_has_nothing_to_end(project: ConfProject, service: LineageService) -> None:
    sender_of(declare(project, service)).ends(RECEIPT)
    assert service.events == []
