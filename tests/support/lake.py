"""Pipelines in a separate project, which run in the test's Spark session as a driver would run them."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import yaml
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from tidemill.backfill.bounds import parse_bounds
from tidemill.backfill.chunks import parse_chunk
from tidemill.backfill.compared import compared_now
from tidemill.backfill.manner import Manner
from tidemill.backfill.plan import BackfillPlan, Publish
from tidemill.backfill.planning import plan_backfill
from tidemill.backfill.progress import read_progress
from tidemill.backfill.staging import PublishRequest, ask_to_publish, attempt_of
from tidemill.checkpoint.doctor.examine import examine
from tidemill.checkpoint.doctor.measured import Measured
from tidemill.checkpoint.doctor.read_measured import measured_of
from tidemill.checkpoint.findings import Finding
from tidemill.checkpoint.query_report import write_query_report
from tidemill.checkpoint.reading.batches import CheckpointBatches
from tidemill.checkpoint.receipts import write_receipt
from tidemill.engine.analyse import analyse
from tidemill.engine.backfill import run_backfill
from tidemill.engine.drain import Drain
from tidemill.engine.in_session import Meanwhile, new_reporter, new_run_id, run_in_session
from tidemill.engine.lineage_sender import open_lineage
from tidemill.engine.models import with_models
from tidemill.engine.receipt import make_receipt
from tidemill.engine.reporter import Reporter
from tidemill.engine.run_context import RunContext
from tidemill.engine.streaming import Ending
from tidemill.engine.verify import verify
from tidemill.ledger.code import code_of
from tidemill.ledger.difference import Difference
from tidemill.ledger.read import Commit, read_ledger
from tidemill.names import LATE_OUTPUT, QUARANTINE_OUTPUT
from tidemill.sinks.batch_commit import StepDone, nothing_more
from tidemill.spec.location import root_of_clients
from tidemill.spec.project import Pipeline, load_environment, resolve_pipeline
from tidemill.spec.project_folder import Project
from tidemill.storage.store import Store

REPOSITORY = Path(__file__).resolve().parents[2]

# Each landed file is a second younger than the one before, and none comes from the future.
_ARRIVALS = itertools.count()
_FIRST_ARRIVAL = time.time() - 24 * 3600


@dataclass
class Lake:
    """A project folder and its storage.

    Args:
        folder: Empty folder.
        spark: Session of the test run.
        bootstrap_servers: The test run's broker; none for tests without Kafka.
        environment: Further keys of the environment file.
    """

    folder: Path
    spark: SparkSession
    bootstrap_servers: str = ""
    environment: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for part in ("conf/pipelines", "conf/environments", "conf/schemas", "spark_apps/transforms"):
            (self.folder / part).mkdir(parents=True, exist_ok=True)
        self.configure()

    def configure(self, **keys: Any) -> None:
        """Write the environment file, with further keys."""
        self.environment |= keys
        document: dict[str, Any] = {"runtime": "local", "root": "data", **self.environment}
        if self.bootstrap_servers:
            document.setdefault("kafka", {"bootstrap_servers": self.bootstrap_servers})
        self._write_yaml("conf/environments/local.yaml", document)

    @property
    def root(self) -> Path:
        return self.folder / "data"

    @property
    def store(self) -> Store:
        """Control files; of the environment's own root where that is an object store."""
        root = str(self.environment.get("root", ""))
        return Store(root_of_clients(root) if "://" in root else str(self.root))

    def schema(self, name: str, properties: Mapping[str, Any], required: list[str] | None = None) -> str:
        """Write a payload schema; all properties are required unless named otherwise."""
        document = {
            "type": "object",
            "properties": dict(properties),
            "required": required or list(properties),
        }
        (self.folder / "conf/schemas" / name).write_text(json.dumps(document))
        return name

    def transform(self, name: str, code: str) -> str:
        """Write a transform file with a function `transform`."""
        (self.folder / "spark_apps/transforms" / f"{name}.py").write_text(code)
        return f"{name}:transform"

    def pipeline(self, name: str, **declaration: Any) -> LakePipeline:
        """Write a pipeline file and resolve it."""
        self._write_yaml(
            f"conf/pipelines/{name}.yaml", {"description": "A test.", "owner": "tests", **declaration}
        )
        return LakePipeline(self, name)

    def copy_pipeline(self, name: str) -> LakePipeline:
        """Return a pipeline of this repository, with its own transform and schema files."""
        for file in (REPOSITORY / "spark_apps/transforms").glob("*.*"):
            shutil.copy(file, self.folder / "spark_apps/transforms")
        for file in (REPOSITORY / "conf/schemas").iterdir():
            shutil.copy(file, self.folder / "conf/schemas")
        shutil.copy(REPOSITORY / f"conf/pipelines/{name}.yaml", self.folder / "conf/pipelines")
        return LakePipeline(self, name)

    def land(self, path: str, content: str) -> Path:
        """Put a whole file below the storage root, as a delivery does."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        # Spark's file source ignores hidden files, so it never sees half a file.
        hidden = file.with_name(f".{file.name}")
        hidden.write_text(content)
        # It takes files in the order of their times, and several land within one tick of the clock.
        arrived = _FIRST_ARRIVAL + next(_ARRIVALS)
        os.utime(hidden, (arrived, arrived))
        return hidden.rename(file)

    def land_rows(self, path: str, rows: Iterable[Mapping[str, Any]]) -> Path:
        """Put a file of JSON lines."""
        return self.land(path, "".join(json.dumps(dict(row)) + "\n" for row in rows))

    def rows(self, table: str) -> list[dict[str, Any]]:
        """Return all rows of a table such as `bronze/orders`."""
        return _rows(self.root / "tables" / table)

    def data_files(self, table: str) -> list[str]:
        """Data files of the newest version; empty if there is no table."""
        path = self.root / "tables" / table
        return DeltaTable(str(path)).file_uris() if (path / "_delta_log").exists() else []

    def quarantined(self, pipeline: str) -> list[dict[str, Any]]:
        """Return all rejected records of a pipeline; empty if there never was one."""
        return self._aside(QUARANTINE_OUTPUT, pipeline)

    def late(self, pipeline: str) -> list[dict[str, Any]]:
        """Return all late records of a pipeline that keeps them; empty if there never was one."""
        return self._aside(LATE_OUTPUT, pipeline)

    def _aside(self, output: str, pipeline: str) -> list[dict[str, Any]]:
        path = self.root / output / pipeline
        return _rows(path) if (path / "_delta_log").exists() else []

    def ledger(self, table: str) -> list[Commit]:
        """Commits that Tidemill made to a table, newest first."""
        return read_ledger(str(self.root / "tables" / table))

    def _write_yaml(self, path: str, document: Mapping[str, Any]) -> None:
        text = yaml.dump(dict(document), Dumper=_WithoutAnchors, sort_keys=False)
        (self.folder / path).write_text(text)


class _WithoutAnchors(yaml.SafeDumper):
    """Writes repeated values in full, because declarations have no anchors."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


@dataclass(frozen=True)
class LakePipeline:
    lake: Lake
    name: str

    @property
    def resolved(self) -> Pipeline:
        return resolve_pipeline(load_environment(Project(self.lake.folder), "local", {}), self.name)

    @property
    def started(self) -> Pipeline:
        """Return the pipeline with its models, as a driver resolves it."""
        return with_models(self.resolved, self.lake.store)

    @property
    def checkpoint(self) -> Path:
        return self.lake.root / "state" / self.name / "g0001"

    @property
    def query_id(self) -> str | None:
        """Return id of the Spark query that the checkpoint belongs to."""
        return CheckpointBatches(self.lake.store, str(self.checkpoint)).query_id()

    def findings_after(self, reporter: Reporter) -> dict[str, Finding]:
        """Return the doctor's findings by id, after storing the query report of a run."""
        assert reporter.query.report is not None
        write_query_report(self.lake.store, self.resolved.layout, reporter.query.report)
        found = examine(self.resolved.environment, [self.name]).findings
        return {finding.finding_id: finding for finding in found}

    def measured_by(self, reporter: Reporter) -> Measured:
        """Return the doctor's measured values of a run's query report."""
        return measured_of(self.resolved, reporter.query.report, {}, {})

    def run_incremental(
        self,
        step_done: StepDone = nothing_more,
        drain: Drain | None = None,
        admitted: Callable[[], object] = lambda: None,
    ) -> Reporter:
        """Gate, epoch, then one availableNow run to its end; what the driver does in its process.

        `admitted` is called between the two: what others do before the first batch.
        """
        return self._run("incremental", step_done, drain or Drain(), admitted)[1]

    def run_stream(self, drain: Drain, step_done: StepDone = nothing_more) -> tuple[Ending, Reporter]:
        """Run the pipeline as a stream, until `drain` is requested (from another thread or a step)."""
        return self._run("stream", step_done, drain)

    def plan(
        self,
        start: str | None = None,
        end: str | None = None,
        chunk: str | None = None,
        publish: Publish = "now",
        **offsets: str,
    ) -> BackfillPlan:
        pipeline, manner = self.resolved, Manner(parse_chunk(chunk), publish)
        bounds = parse_bounds(start, end, **offsets)
        return plan_backfill(
            self.lake.store, pipeline, bounds, lambda: analyse(self.lake.spark, self.started), manner
        )

    def backfill(self, start: str | None = None, end: str | None = None, **offsets: str) -> Reporter:
        """Plan and apply."""
        return self.apply(self.plan(start, end, **offsets))

    def apply(self, plan: BackfillPlan, step_done: StepDone = nothing_more) -> Reporter:
        """Carry out a plan, perhaps an older one."""
        pipeline = self.started
        run = RunContext(pipeline, "backfill", new_run_id(), self.lake.store, Drain(), code_of(pipeline))
        path = pipeline.layout.backfill_status(plan.pipeline, plan.digest)
        reporter = new_reporter(self.lake.store, path, self.name, run.mode, run.run_id)
        self._begins(reporter)
        run_backfill(self.lake.spark, run, reporter, plan, step_done)
        self._ended(reporter, "finished")
        return reporter

    def ask_to_publish(self, plan: BackfillPlan) -> None:
        """Want the staged rows of a plan in its tables; the next `apply` brings them there."""
        store, layout = self.lake.store, self.resolved.layout
        progress = read_progress(store, layout, self.name, plan.digest)
        assert progress is not None
        request = PublishRequest(attempt=attempt_of(progress), by="tests", at=datetime.now(UTC))
        ask_to_publish(store, layout, plan, request)

    def verify(self, plan: BackfillPlan) -> dict[str, Difference]:
        """Compare a plan's range with the tables as they are, by name; nothing is left behind."""
        pipeline = self.started
        scratch = f"{pipeline.layout.parts(self.name)}/verify"
        found = verify(
            self.lake.spark, pipeline, plan, compared_now(self.lake.store, pipeline, plan), scratch
        )
        assert self.lake.store.list_files(scratch) == []
        return {difference.name: difference for difference in found}

    def _run(
        self, mode: Any, step_done: StepDone, drain: Drain, admitted: Callable[[], object] = lambda: None
    ) -> tuple[Ending, Reporter]:
        meanwhile = Meanwhile(drain, step_done, admitted, self._begins)
        ending, reporter = run_in_session(self.lake.spark, self.resolved, self.lake.store, mode, meanwhile)
        self._ended(reporter, ending)
        return ending, reporter

    def _begins(self, reporter: Reporter) -> None:
        reporter.lineage = open_lineage(self.resolved)
        if reporter.lineage is not None:
            reporter.lineage.begins(reporter.status)

    def _ended(self, reporter: Reporter, ending: Ending) -> None:
        """With lineage, write a receipt and send the end event. A failed run counts as a killed one."""
        if reporter.lineage is not None:
            store, layout = self.lake.store, self.resolved.layout
            receipt = make_receipt(store, layout, reporter.status, ending, None)
            write_receipt(store, layout, receipt)
            reporter.lineage.ends(receipt)


class KeptLake:
    """A lake that several tests begin with: what one makes of it, the next one does not find.

    It stays at its path, by which checkpoints name the files that were read.
    """

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._kept = lake.folder.with_name(f"{lake.folder.name}-kept")
        shutil.copytree(lake.folder, self._kept)

    def restored(self) -> Lake:
        """Return the lake as it was kept."""
        shutil.rmtree(self._lake.folder)
        shutil.copytree(self._kept, self._lake.folder)
        # Delta remembers the tables of a path.
        self._lake.spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # type: ignore[union-attr]
        return self._lake


def _rows(path: Path) -> list[dict[str, Any]]:
    """Read the data files of the newest version; tables here have no partitions and no deletion vectors."""
    # Avoid `to_pyarrow_table`: its threads can abort the process at exit (pyarrow 26 with deltalake 1.6).
    files = DeltaTable(str(path)).file_uris()
    return [row for file in files for row in pq.read_table(file).to_pylist()]
