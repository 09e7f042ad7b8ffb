"""A driver without Spark: the same command line, documents and exit codes, in a second instead of twenty.

The file `behaviour/<pipeline>` in its project folder controls it:

    run          commits one batch, then waits for SIGTERM and drains clean (the default)
    busy         as `run`, and reports ten batches
    idle         finds nothing to read and reports that repeatedly, then as `run`
    away         finds its source away, then as `run` without a batch
    hang         as `run`, but gives no sign of life after its batch and does not hear SIGTERM
    starting     never gets to its first batch, drains clean
    forced       as `run`, but its batch does not end in time when drained
    deaf         as `run`, but does not hear SIGTERM
    exit N       leaves a receipt with exit code N before the first batch
    crash        ends itself by SIGKILL before the first batch
    leave-child  starts a process that outlives it, then as `run`

A bounded run writes its batch as a real Delta commit with its ledger entry and ends; with `idle` it ends
without, as when nothing is new; with `wait` it first waits for the file `behaviour/<pipeline>.go`. If it is
asked to stop while it waits, it writes nothing and reports that; with `forced` it waits for SIGTERM and is
cut off.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import threading
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.support.eventually import eventually
from tests.support.spark_progress import told_batches
from tidemill.checkpoint.epochs import claim_epoch
from tidemill.checkpoint.gate.decide import check_holds
from tidemill.checkpoint.query_report import QueryReport, SinkReport, SourceReport, write_query_report
from tidemill.checkpoint.receipts import Receipt, write_receipt
from tidemill.checkpoint.root_owner import CONTROL_PLANE_VARIABLE, check_started_by_owner
from tidemill.checkpoint.status import Status, read_status, write_status
from tidemill.control.driver_command import DriverRun, driver_command
from tidemill.engine.arguments import parse_arguments
from tidemill.engine.driver_pod import check_first_pod, this_pod
from tidemill.engine.heartbeat import Heartbeat
from tidemill.errors import FencedError, GateRefusedError
from tidemill.ledger.entry import Code, LedgerEntry
from tidemill.spec.project import Environment, load_environment
from tidemill.spec.project_folder import find_project
from tidemill.storage.store import Store

# Seconds between two signs of life.
ALIVE_SECONDS = 0.2

ERROR = {"id": "TIDE-TEST-001", "problem": "As the test wants.", "fix": "ask the test"}
OF_STREAMS = ("run", "busy", "idle", "away", "starting", "forced", "deaf", "hang", "leave-child")
ONE_BATCH = {
    "batchId": 0,
    "numInputRows": 3,
    "inputRowsPerSecond": 1.5,
    "processedRowsPerSecond": 6.0,
    "timestamp": "2026-11-23T01:02:03.004Z",
    "durationMs": {"triggerExecution": 500},
    "stateOperators": [{"numRowsTotal": 7}],
}
ROOT = Path(__file__).resolve().parents[2]


def fake_driver_command(environment: Environment, run: DriverRun) -> list[str]:
    """Return the real command line, with this module as the engine's driver."""
    return standing_in(environment, run, "tests.support.fake_driver")


def standing_in(environment: Environment, run: DriverRun, module: str) -> list[str]:
    """Return the real command line, with `module` as the engine's driver. Parts of operations are real."""
    program, flag, real, *arguments = driver_command(environment, run)
    return [program, flag, module if run.module == "driver" else real, *arguments]


class FakeDriver:
    def __init__(self, arguments: argparse.Namespace) -> None:
        self.run = arguments
        project = find_project(arguments.project, own_sources=arguments.sources)
        self.environment = load_environment(project, arguments.env)
        self.store = Store(self.environment.layout.root)
        self.behaviour_file = project.folder / "behaviour" / arguments.pipeline
        self.started_at = datetime.now(UTC)
        self.epoch: int | None = None
        self.error = ERROR
        self.drain = threading.Event()
        self.heartbeat = Heartbeat.of_this_process()
        before = read_status(self.store, self.environment.layout, arguments.pipeline)
        self.progressed_at = None if before is None else before.progressed_at
        signal.signal(signal.SIGTERM, lambda *_: self.drain.set())

    def main(self) -> int:
        behaviour = self.behaviour_file.read_text() if self.behaviour_file.exists() else "run"
        sys.stdout.write(f"fake driver {self.run.run_id}: {behaviour}\n")
        sys.stdout.flush()
        try:
            check_first_pod(this_pod(), self.run.mode)
            check_started_by_owner(
                self.store, self.environment.layout, os.environ.get(CONTROL_PLANE_VARIABLE)
            )
            if self.run.mode != "backfill":
                check_holds(self.store, self.environment.layout, self.run.pipeline)
        except (FencedError, GateRefusedError) as refused:
            self.error = {"id": refused.error_id, "problem": refused.problem}
            return self.receipt("failed", refused.exit_code)
        self.status("starting")
        if behaviour == "crash":
            os.kill(os.getpid(), signal.SIGKILL)
        if behaviour.startswith("exit"):
            return self.receipt("failed", int(behaviour.split()[1]))
        self.epoch = claim_epoch(self.store, self.environment.layout, self.run.pipeline, self.run.run_id)
        return self.stream(behaviour) if self.run.mode == "stream" else self.bounded(behaviour)

    def stream(self, behaviour: str) -> int:
        if behaviour not in OF_STREAMS:
            raise ValueError(f"there is no behaviour `{behaviour}`")
        if behaviour == "leave-child":
            subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
        if behaviour in ("deaf", "hang"):
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if behaviour == "idle":
            self.found_nothing()
        elif behaviour == "away":
            self.status("waiting", error=ERROR)
        elif behaviour != "starting":
            self.progressed_at = datetime.now(UTC)
            # Write the status last, because a test may compare all files after it has read the status.
            self.query(10 if behaviour == "busy" else 1)
            self.status("running", batch_id=0, batch_committed_at=self.progressed_at)
        self.live(behaviour)
        self.status("draining")
        return self.receipt("forced" if behaviour == "forced" else "clean", 0)

    def live(self, behaviour: str) -> None:
        """Give signs of life until it is to end."""
        while not self.drain.wait(ALIVE_SECONDS):
            if behaviour == "idle":
                self.found_nothing()
            elif behaviour != "hang":
                self.heartbeat.beat()

    def found_nothing(self) -> None:
        self.progressed_at = datetime.now(UTC)
        self.status("waiting", source_empty_at=self.progressed_at)

    def bounded(self, behaviour: str) -> int:
        go = self.behaviour_file.with_suffix(".go")
        if behaviour == "forced":
            self.drain.wait()
            return self.receipt("forced", 0)
        if behaviour == "wait":
            eventually(lambda: self.drain.is_set() or go.exists(), "the test says go", 300)
        if self.drain.is_set():
            return self.receipt("clean", 0, stopped_early=True)
        if behaviour == "idle":
            return self.receipt("clean", 0)
        self.commit()
        self.status("stopped", batch_id=0, batch_committed_at=datetime.now(UTC))
        return self.receipt("clean", 0)

    def commit(self) -> None:
        # Most fake drivers commit nothing, and these two are a third of a start.
        import deltalake
        import pyarrow

        spec = self.environment.project.load_pipeline(self.run.pipeline)
        for sink in spec.delta_sinks:
            entry = LedgerEntry(
                pipeline=self.run.pipeline,
                output=sink.table,
                mode=self.run.mode,
                run_id=self.run.run_id,
                epoch=self.epoch,
                batch_id=0,
                rows=3,
                code=Code(tidemill="test", digest="", spec=""),
            )
            deltalake.write_deltalake(
                self.environment.layout.table(sink.table),
                pyarrow.table({"value": [1, 2, 3]}),
                mode="append",
                commit_properties=deltalake.CommitProperties(
                    custom_metadata={"userMetadata": entry.to_text()}
                ),
            )

    def status(self, state: str, **facts: Any) -> None:
        self.heartbeat.beat()
        status = Status.model_validate(
            {
                "pipeline": self.run.pipeline,
                "mode": self.run.mode,
                "state": state,
                "run_id": self.run.run_id,
                "epoch": self.epoch,
                "started_at": self.started_at,
                "updated_at": datetime.now(UTC),
                "progressed_at": self.progressed_at,
                **facts,
            }
        )
        layout = self.environment.layout
        backfill = self.run.mode == "backfill"
        name, plan = self.run.pipeline, self.run.plan
        path = layout.backfill_status(name, plan) if backfill else layout.status(name)
        write_status(self.store, path, status)

    def query(self, batches: int) -> None:
        now = datetime.now(UTC)
        progress, aside = ((ONE_BATCH,), ()) if batches == 1 else told_batches(batches, now)
        report = QueryReport(
            pipeline=self.run.pipeline,
            run_id=self.run.run_id,
            id=str(uuid.uuid5(uuid.NAMESPACE_URL, self.run.pipeline)),
            query_run_id=str(uuid.uuid4()),
            name=self.run.pipeline,
            started_at=now,
            updated_at=now,
            message="Waiting for data to arrive",
            sources=(
                SourceReport(name="source", rows=3, input_rows_per_second=1.5, processed_rows_per_second=6.0),
            ),
            sinks=(SinkReport(name="bronze/orders", batch_id=0, committed=True, rows=3, total_rows=3),),
            last_progress=progress[-1],
            recent_progress=progress,
            rows_aside=aside,
            explain="== Physical Plan ==",
        )
        write_query_report(self.store, self.environment.layout, report)

    def receipt(self, result: str, exit_code: int, *, stopped_early: bool = False) -> int:
        receipt = Receipt.model_validate(
            {
                "pipeline": self.run.pipeline,
                "run_id": self.run.run_id,
                "mode": self.run.mode,
                "result": result,
                "exit_code": exit_code,
                "stopped_at": datetime.now(UTC),
                "epoch": self.epoch,
                "error": self.error if result == "failed" else None,
                "stopped_early": stopped_early,
            }
        )
        write_receipt(self.store, self.environment.layout, receipt)
        self.heartbeat.end(exit_code, self.error["id"] if result == "failed" else "")
        return exit_code


if __name__ == "__main__":
    sys.exit(FakeDriver(parse_arguments()).main())
