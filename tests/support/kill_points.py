"""Real drivers that a SIGKILL ends at a step inside Spark, and the files that they leave behind.

The steps of one batch: offsets/N is written (K1), has its name (K2), old batches are purged (K3), the
tables are written (K4 to K6: `crash_at_step` in test_crashes.py), commits/N is written (K7, K8), has its
name (K9).
"""

from __future__ import annotations

import signal
from dataclasses import dataclass, replace
from pathlib import Path

from deltalake import DeltaTable

from tests.support.altered_driver import altered, altered_driver_command
from tests.support.driver_process import START_TIMEOUT_SECONDS, DriverProcess, Drivers
from tests.support.lake import LakePipeline
from tidemill.checkpoint.gate import check, gather_facts
from tidemill.checkpoint.reading.batches import CheckpointBatches
from tidemill.checkpoint.receipts import Receipt
from tidemill.names import FIRST_GENERATION, transaction_id

SETTINGS = {"spark.sql.streaming.checkpointFileManagerClass": "KillingFileManager"}


@dataclass(frozen=True)
class Standing:
    """Newest batch by each of the three that can be asked.

    Args:
        planned: Newest batch in the checkpoint's offsets.
        written: Newest batch in the table's Delta transactions; None before the first.
        recorded: Newest batch in the checkpoint's commits.
    """

    planned: int | None
    written: int | None
    recorded: int | None


@dataclass(frozen=True)
class KillStory:
    """A pipeline whose drivers are killed one after the other.

    Args:
        drivers: Drivers of its project.
        pipeline: A pipeline with one table.
        classes: Folder of the compiled KillingFileManager.
        settings: Spark settings in addition to that of the kill.
    """

    drivers: Drivers
    pipeline: LakePipeline
    classes: Path
    settings: dict[str, str]

    def kill_at(self, step: str) -> Standing:
        """Start a driver, which continues where the last one was killed, and kill it at a step."""
        driver = self._ended(step, "driver")
        assert driver.process.returncode == -signal.SIGKILL, driver.output[-3000:]
        return self.standing()

    def kill_jvm_at(self, step: str) -> Receipt:
        """Kill only the JVM at a step, and return the receipt that Python leaves."""
        driver = self._ended(step, "jvm")
        receipt = self.drivers.receipt(self.pipeline.name)
        assert receipt is not None, driver.output[-3000:]
        assert (receipt.run_id, receipt.exit_code) == (driver.run_id, driver.process.returncode)
        return receipt

    def run_to_the_end(self) -> Standing:
        """Run a driver to its end without a kill."""
        driver = self.drivers.start(self.pipeline.name, "incremental")
        assert driver.wait(START_TIMEOUT_SECONDS) == 0, driver.output[-3000:]
        return self.standing()

    @property
    def last_output(self) -> str:
        return self.drivers.started[-1].output

    def standing(self) -> Standing:
        batches = CheckpointBatches(self.pipeline.lake.store, str(self.pipeline.checkpoint))
        return Standing(batches.last_planned(), self._written(), batches.last_committed())

    def check_gate(self) -> None:
        """Raises what a start would be refused with."""
        resolved = self.pipeline.resolved
        check(gather_facts(self.pipeline.lake.store, resolved, FIRST_GENERATION))

    def files(self, pattern: str) -> list[str]:
        """Return content of the checkpoint's files of that pattern."""
        return [path.read_text() for path in self.pipeline.checkpoint.glob(pattern)]

    def _ended(self, step: str, kill: str) -> DriverProcess:
        variables = altered(
            self.classes,
            {**SETTINGS, **self.settings},
            TIDEMILL_TEST_KILL_AT=step,
            TIDEMILL_TEST_KILL=kill,
        )
        drivers = replace(self.drivers, variables=variables, command=altered_driver_command)
        driver = drivers.start(self.pipeline.name)
        driver.wait(START_TIMEOUT_SECONDS)
        return driver

    def _written(self) -> int | None:
        (sink,) = self.pipeline.resolved.spec.delta_sinks
        table = DeltaTable(str(self.pipeline.lake.root / "tables" / sink.table))
        return table.transaction_version(transaction_id(self.pipeline.name, FIRST_GENERATION, sink.table))
