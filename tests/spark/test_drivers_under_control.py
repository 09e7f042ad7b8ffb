"""The real driver under the local runtime: what the Airflow tier's fake driver stands for."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from tests.support.eventually import eventually
from tests.support.lake import Lake
from tidemill.checkpoint.receipts import newest_receipt
from tidemill.control.bounded_run import finish_of, start_bounded, tables_written
from tidemill.control.driver_command import DriverRun
from tidemill.control.goal import prove
from tidemill.control.plane import ControlPlane, open_control_plane
from tidemill.control.proof import Proof
from tidemill.control.runtime import StartedDriver
from tidemill.control.stream_request import StreamRequest, Verb, carry_out
from tidemill.control.streams import reconcile_streams
from tidemill.spec.project import Project, load_environment

# A driver's first batch takes 20 s on two busy cores.
TIMEOUT_SECONDS = 180.0


@pytest.fixture
def plane(lake: Lake) -> Iterator[ControlPlane]:
    plane = open_control_plane(load_environment(Project(lake.folder), "local", {}))
    yield plane
    for name in plane.runtime.running_pipelines():
        if (driver := plane.running(name)) is not None:
            plane.runtime.kill(driver)


def ask(plane: ControlPlane, verb: Verb) -> Proof:
    now = datetime.now(UTC)
    request = StreamRequest("ticks", verb, f"{verb}-{now:%H%M%S%f}", now, "tests")
    return carry_out(plane, request, TIMEOUT_SECONDS, lambda _: None)


def ended(plane: ControlPlane, driver: StartedDriver) -> Proof:
    """Wait for the end of a bounded run."""
    goal = finish_of(driver)
    return eventually(
        lambda: proof if (proof := prove(plane, goal)).state != "pending" else None,
        "the run ends",
        TIMEOUT_SECONDS,
    )


def test_a_stream_is_started_once_proven_restarted_and_drained(lake: Lake, plane: ControlPlane) -> None:
    lake.pipeline(
        "ticks",
        source={"rate_per_batch": {"rows_per_batch": 10}},
        sinks=[{"delta": {"table": "bronze/ticks"}}],
        run={"mode": "stream", "trigger": "1 second"},
    )

    assert [outcome.decision.action for outcome in reconcile_streams(plane)] == ["start"]
    first = plane.running("ticks")
    assert first is not None
    assert ask(plane, "start").state == "done"
    assert [outcome.decision.action for outcome in reconcile_streams(plane)] == ["leave"]
    again = plane.running("ticks")
    assert (again and again.run_id) == first.run_id

    assert ask(plane, "restart").state == "done"
    second = plane.running("ticks")
    assert second is not None
    assert second.run_id != first.run_id

    assert ask(plane, "stop").state == "done"
    assert plane.running("ticks") is None
    receipt = newest_receipt(plane.store, plane.layout, "ticks")
    assert receipt is not None
    assert (receipt.result, receipt.exit_code, receipt.run_id) == ("clean", 0, second.run_id)
    values = [row["value"] for row in lake.rows("bronze/ticks")]
    assert sorted(values) == list(range(len(values)))
    batches = [c.entry.batch_id for c in lake.ledger("bronze/ticks") if c.entry]
    assert batches == list(range(len(values) // 10 - 1, -1, -1))
    epochs = {c.entry.epoch for c in lake.ledger("bronze/ticks") if c.entry}
    assert epochs == {1, 2}


def test_a_bounded_run_ends_with_a_receipt_and_its_commits_in_the_ledger(
    lake: Lake, plane: ControlPlane
) -> None:
    lake.pipeline(
        "lines",
        source={"files": {"path": "landing", "format": "text"}},
        sinks=[{"delta": {"table": "bronze/lines"}}],
        run={"mode": "incremental"},
    )
    (lake.root / "landing").mkdir(parents=True)
    (lake.root / "landing" / "a.txt").write_text("one\ntwo\n")

    driver = start_bounded(plane, DriverRun("lines", "incremental", "run-1"))
    assert ended(plane, driver).state == "done"
    assert start_bounded(plane, DriverRun("lines", "incremental", "run-1")).started_at == driver.started_at
    (result,) = tables_written(plane, "lines", "run-1")
    assert (result.table, result.rows, result.batch_ids) == ("bronze/lines", 2, [0])


def test_an_incremental_run_that_is_stopped_half_way_is_not_finished_and_its_retry_goes_on(
    lake: Lake, plane: ControlPlane
) -> None:
    lake.pipeline(
        "lines",
        source={"files": {"path": "landing", "format": "text", "max_files_per_batch": 1}},
        sinks=[{"delta": {"table": "bronze/lines"}}],
        run={"mode": "incremental"},
    )
    # Half a second each: there is work left when the first one is in the table.
    names = [f"{number:02}" for number in range(40)]
    for name in names:
        lake.land(f"landing/{name}.txt", f"{name}\n")
    run = DriverRun("lines", "incremental", "run-1")

    driver = start_bounded(plane, run)
    eventually(lambda: tables_written(plane, "lines", "run-1"), "a batch is in the table", TIMEOUT_SECONDS)
    assert plane.runtime.drain(driver)
    proof = ended(plane, driver)
    assert (proof.state, proof.evidence["result"], proof.evidence["retry"]) == ("failed", "clean", True)
    assert 0 < len(lake.rows("bronze/lines")) < len(names)

    again = start_bounded(plane, run)
    assert again.started_at > driver.started_at
    assert ended(plane, again).state == "done"
    assert sorted(row["value"] for row in lake.rows("bronze/lines")) == names
