"""The real driver under the local runtime, which the fake driver replaces in the Airflow tier."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml

from tests.support.eventually import eventually
from tests.support.lake import Lake
from tests.support.stream_requests import AT_ONCE, by_name, impatient, settled
from tidemill.checkpoint.receipts import newest_receipt
from tidemill.control.ask.bounded_run import finish_of, start_bounded, tables_written
from tidemill.control.ask.goal import Goal, prove
from tidemill.control.ask.proof import Proof
from tidemill.control.ask.stream_request import StreamRequest, Verb, carry_out
from tidemill.control.ask.takeover import plan_takeover, take_over
from tidemill.control.decide.all_streams import reconcile_streams
from tidemill.control.driver_command import DriverRun
from tidemill.control.local.process_identity import ProcessIdentity
from tidemill.control.local.process_session import session_members
from tidemill.control.plane import ControlPlane, open_control_plane
from tidemill.control.runtime import StartedDriver
from tidemill.errors import FencedError, GateRefusedError
from tidemill.spec.project import load_environment
from tidemill.spec.project_folder import Project

# A driver's first batch takes 20 s on two busy cores.
TIMEOUT_SECONDS = 180.0


@pytest.fixture
def plane(lake: Lake) -> Iterator[ControlPlane]:
    plane = open_control_plane(load_environment(Project(lake.folder), "local", {}))
    yield plane
    for name in plane.held_pipelines():
        if (driver := plane.running(name)) is not None:
            plane.runtime.kill(driver)


def ask(plane: ControlPlane, verb: Verb) -> Proof:
    now = datetime.now(UTC)
    request = StreamRequest("ticks", verb, f"{verb}-{now:%H%M%S%f}", now, "tests")
    return carry_out(plane, request, TIMEOUT_SECONDS, lambda _: None)


@contextmanager
def another_checkout(lake: Lake, folder: Path) -> Iterator[ControlPlane]:
    """Return a separate control plane on the same root."""
    shutil.copytree(lake.folder / "conf", folder / "conf")
    environment = folder / "conf/environments/local.yaml"
    document = {**yaml.safe_load(environment.read_text()), "root": str(lake.root)}
    environment.write_text(yaml.safe_dump(document))
    plane = open_control_plane(load_environment(Project(folder), "local", {}))
    try:
        yield plane
    finally:
        if (driver := plane.running("ticks")) is not None:
            plane.runtime.kill(driver)


def ended(plane: ControlPlane, driver: StartedDriver) -> Proof:
    """Wait for the end of a bounded run."""
    goal = finish_of(driver)
    return eventually(
        lambda: proof if (proof := prove(plane, goal)).state != "pending" else None,
        "the run ends",
        TIMEOUT_SECONDS,
    )


def replaced_because_it_hangs(
    lake: Lake, plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> StartedDriver:
    """SIGSTOP the driver with its JVM and workers: it holds its place and gives no sign of life.

    Returns:
        The driver that has taken its place, with a batch committed.
    """
    driver = plane.running("ticks")
    assert driver is not None
    leader = ProcessIdentity.of(int(driver.process.split()[1]))
    for process in (leader, *session_members(leader)):
        process.signal(signal.SIGSTOP)
    patient = impatient(plane)

    def until(action: str) -> None:
        eventually(
            lambda: by_name(reconcile_streams(patient, AT_ONCE)) == {"ticks": action},
            f"a visit decides: {action}",
            TIMEOUT_SECONDS,
        )

    # The rule of a pod's probe, with less patience.
    with monkeypatch.context() as patch:
        patch.setattr("tidemill.engine.liveness.LEAST_SILENCE", timedelta(seconds=5))
        patch.setattr("tidemill.engine.liveness.SILENT_TRIGGERS", 5)
        until("stop")
        until("kill")
    until("start")
    assert settled(plane, Goal(pipeline="ticks", kind="progress"), TIMEOUT_SECONDS).state == "done"
    successor = plane.running("ticks")
    assert successor is not None
    # The table may already have the first batch, if the driver was cut off between table and checkpoint.
    eventually(
        lambda: any(c.entry and c.entry.run_id == successor.run_id for c in lake.ledger("bronze/ticks")),
        "a commit of its own",
        TIMEOUT_SECONDS,
    )
    return successor


@pytest.mark.soak
def test_a_stream_is_started_once_proven_replaced_when_it_hangs_taken_over_and_drained(
    lake: Lake, plane: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.pipeline(
        "ticks",
        source={"rate_per_batch": {"rows_per_batch": 10}},
        sinks=[{"delta": {"table": "bronze/ticks"}}],
        run={"mode": "stream", "trigger": "1 second"},
    )

    assert by_name(reconcile_streams(plane)) == {"ticks": "start"}
    first = plane.running("ticks")
    assert first is not None
    assert ask(plane, "start").state == "done"
    assert by_name(reconcile_streams(plane)) == {"ticks": "leave"}
    again = plane.running("ticks")
    assert (again and again.run_id) == first.run_id

    second = replaced_because_it_hangs(lake, plane, monkeypatch)
    assert second.run_id != first.run_id

    # Another checkout of the project, with the same root.
    with another_checkout(lake, tmp_path / "other") as other:
        with pytest.raises(GateRefusedError):
            reconcile_streams(other)
        take_over(other, plan_takeover(other, datetime.now(UTC)), "ann", "the streams move")
        eventually(lambda: plane.running("ticks") is None, "the old driver gives way", TIMEOUT_SECONDS)
        ending = plane.last_ending("ticks")
        assert ending is not None
        assert (ending.run_id, ending.exit_code) == (second.run_id, FencedError.exit_code)
        with pytest.raises(GateRefusedError):
            reconcile_streams(plane)
        assert ask(other, "start").state == "done"
        third = other.running("ticks")
        assert third is not None
        assert ask(other, "stop").state == "done"

    receipt = newest_receipt(plane.store, plane.layout, "ticks")
    assert receipt is not None
    assert (receipt.result, receipt.exit_code, receipt.run_id) == ("clean", 0, third.run_id)
    values = [row["value"] for row in lake.rows("bronze/ticks")]
    assert sorted(values) == list(range(len(values)))
    batches = [c.entry.batch_id for c in lake.ledger("bronze/ticks") if c.entry]
    assert batches == list(range(len(values) // 10 - 1, -1, -1))
    # The third was claimed by the takeover, to fence off the second.
    epochs = {c.entry.epoch for c in lake.ledger("bronze/ticks") if c.entry}
    assert epochs == {1, 2, 4}


@pytest.mark.soak
def test_a_bounded_run_that_is_stopped_half_way_is_not_finished_and_its_retry_finds_the_rest(
    lake: Lake, plane: ControlPlane
) -> None:
    lake.pipeline(
        "lines",
        source={"files": {"path": "landing", "format": "text", "max_files_per_batch": 1}},
        sinks=[{"delta": {"table": "bronze/lines"}}],
        run={"mode": "incremental"},
    )
    # Half a second each: there is work left when the first one is in the table.
    names = [f"{number:02}" for number in range(20)]
    for name in names:
        lake.land(f"landing/{name}.txt", f"{name}\n")
    run = DriverRun("lines", "incremental", "run-1")

    driver = start_bounded(plane, run)
    begun_at = driver.claimed_at
    eventually(
        lambda: tables_written(plane, "lines", {"run-1"}, begun_at),
        "a batch is in the table",
        TIMEOUT_SECONDS,
    )
    assert plane.runtime.drain(driver)
    proof = ended(plane, driver)
    assert (proof.state, proof.evidence["result"], proof.evidence["retry"]) == ("failed", "clean", True)
    assert 0 < len(lake.rows("bronze/lines")) < len(names)

    again = start_bounded(plane, run)
    assert again.started_at > driver.started_at
    assert ended(plane, again).state == "done"
    assert sorted(row["value"] for row in lake.rows("bronze/lines")) == names
    # A finished run is not begun again, and its result is what the ledger has of both tries.
    assert start_bounded(plane, run).started_at == again.started_at
    (result,) = tables_written(plane, "lines", {"run-1"}, begun_at)
    assert (result.table, result.rows, result.batch_ids) == ("bronze/lines", 20, list(range(20)))
