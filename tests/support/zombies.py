"""Drivers without Spark that stop dead at a named step and come back as zombies.

They keep a driver's protocol with its own code: epoch, plan, the check before the write, data file, the
commit of the arrow writer, `commits/N`. What they leave out is Spark, whose start would take most of the time
of a hundred rounds.

They read an input of known records: what must be in the table in the end is known before the first one
starts.
"""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import pyarrow as pa

from tests.support import checkpoint_files
from tests.support.checkpoints import range_of
from tests.support.commits import CODE, TABLE
from tests.support.eventually import eventually
from tests.support.race import CONTEXT
from tests.support.stores import StorePlace
from tidemill.checkpoint.epochs import claim_epoch
from tidemill.checkpoint.reading.batches import CheckpointBatches
from tidemill.engine.drain import Drain
from tidemill.engine.run_context import RunContext
from tidemill.errors import FencedError
from tidemill.ledger.read import read_ledger
from tidemill.names import FIRST_GENERATION
from tidemill.sinks.batch_commit import BatchCommit
from tidemill.sinks.log_view import LogView
from tidemill.sinks.table_log import TableLog
from tidemill.spec.pipeline import PipelineSpec
from tidemill.spec.project import Pipeline
from tidemill.storage.access import access_to
from tidemill.storage.parquet_part import PartFile, write_part

NAME = "orders"
COLUMNS = pa.schema([("id", pa.int64())])

# Where a driver stops: after each step, and in the middle of the commit, when it has seen that the batch is
# not in the table and has not yet written it.
STEPS = ("planned", "checked", "files_written", "committing", "committed", "recorded")

# Records of a batch, at most.
LONGEST_BATCH = 9

# Batches that a driver writes before the one in which it stops: the first is the one its forerunner left.
FREE_BATCHES = 2

# Seconds for a driver to start and do its batches: mostly imports, on a machine that may be busy.
PATIENCE_SECONDS = 120


@dataclass(frozen=True)
class ZombieOrder:
    """Task of one driver.

    Args:
        place: Storage root.
        number: Number of the driver; its run id, and the seed of the lengths of the batches that it plans.
        stop_at: Step of its third batch after which it stops; None to read the input to its end.
        records: Number of records in the input.
    """

    place: StorePlace
    number: int
    stop_at: str | None
    records: int


class ZombieDriver:
    """One started driver."""

    def __init__(self, order: ZombieOrder) -> None:
        self.order = order
        self._here, there = CONTEXT.Pipe()
        self._process = CONTEXT.Process(target=_drive, args=(order, there), daemon=True)
        self._process.start()
        there.close()

    def wait_for_free_batches(self) -> None:
        """Wait until the driver has written them. It continues when it is released."""
        assert self._here.poll(PATIENCE_SECONDS), f"driver {self.order.number} does not get on"
        assert self._here.recv() == "free batches done"

    def let_go(self) -> None:
        self._here.send("go")

    def wait_until_stopped(self) -> None:
        """Wait until the whole process is stopped (state T of /proc)."""
        stat = Path(f"/proc/{self._process.pid}/stat")
        eventually(
            lambda: stat.read_text().rpartition(")")[2].split()[0] == "T",
            f"driver {self.order.number} stops at {self.order.stop_at}",
            PATIENCE_SECONDS,
        )

    def come_back(self) -> None:
        """Send SIGCONT."""
        assert self._process.pid is not None
        os.kill(self._process.pid, signal.SIGCONT)

    def exit_code(self) -> int | None:
        """Wait for its end."""
        self._process.join(PATIENCE_SECONDS)
        return self._process.exitcode

    def end(self) -> None:
        """Kill it, whatever it does."""
        self._process.kill()
        self._process.join()


def pipeline_at(place: StorePlace) -> Pipeline:
    """Return the pipeline that all drivers run; nothing reads its source."""
    spec = {
        "description": "A test.",
        "owner": "tests",
        "source": {"rate": {}},
        "sinks": [{"delta": {"table": TABLE}}],
    }
    return Pipeline(NAME, PipelineSpec.model_validate(spec), place.environment)


def rise(place: StorePlace, steps: Sequence[str]) -> list[int | None]:
    """Stop one zombie at each step, let the next driver start and continue, then run both at once.

    Returns:
        The exit codes of the zombies, in order.
    """
    endings = []
    records = len(input_ids(steps))
    zombie = ZombieDriver(ZombieOrder(place, 0, steps[0], records))
    try:
        zombie.wait_for_free_batches()
        zombie.let_go()
        for number, step in enumerate([*steps[1:], None], start=1):
            zombie.wait_until_stopped()
            newer = ZombieDriver(ZombieOrder(place, number, step, records))
            try:
                newer.wait_for_free_batches()
                zombie.come_back()
                newer.let_go()
                endings.append(zombie.exit_code())
            finally:
                zombie.end()
                zombie = newer
        assert zombie.exit_code() == 0
    finally:
        zombie.end()
    return endings


def input_ids(steps: Sequence[str]) -> list[int]:
    """Return the ids of the input records in order, which are more than any stopped driver can read."""
    drivers = len(steps) + 1
    return [id_at(offset) for offset in range(drivers * (FREE_BATCHES + 1) * LONGEST_BATCH)]


def id_at(offset: int) -> int:
    """Return the id of the record at an offset. Id and offset differ, so a row identifies its record."""
    return 7 * offset + 1000


def assert_exactly_once(place: StorePlace, steps: Sequence[str]) -> int:
    """Check that each input record is in the table once, and each batch in the ledger once, in order.

    Returns:
        How many batches there are.
    """
    table = pipeline_at(place).layout.table(TABLE)
    assert place.ids(table) == input_ids(steps)
    entries = [commit.entry for commit in reversed(read_ledger(table)) if commit.entry is not None]
    assert [entry.batch_id for entry in entries] == list(range(len(entries)))
    return len(entries)


def _drive(order: ZombieOrder, parent: Connection[str, str]) -> None:
    """Run a driver; it exits with 75 when it is fenced."""
    store = order.place.open()
    pipeline = pipeline_at(order.place)
    epoch = claim_epoch(store, pipeline.layout, NAME, f"driver-{order.number}")
    run = RunContext(
        pipeline, "stream", f"driver-{order.number}", store, Drain(), CODE, FIRST_GENERATION, epoch
    )
    driver = _Driver(run, random.Random(order.number), order.records)
    try:
        for _ in range(FREE_BATCHES):
            driver.write_batch()
        parent.send("free batches done")
        parent.recv()
        driver.stop_at = order.stop_at
        if order.stop_at is None:
            driver.longest = order.records
        # A zombie continues after its stop until it is fenced. It never reaches the end.
        while order.stop_at is not None or not driver.has_read_all():
            driver.write_batch()
    except FencedError as fenced:
        raise SystemExit(fenced.exit_code) from None


class _Driver:
    """Writes one batch after the other, as Spark's query and our foreachBatch do together."""

    def __init__(self, run: RunContext, chance: random.Random, records: int) -> None:
        self.run = run
        self.chance = chance
        self.records = records
        self.longest = LONGEST_BATCH
        self.stop_at: str | None = None
        self.batches = CheckpointBatches(run.store, run.checkpoint)
        self.log = _StoppingLog(run.pipeline.layout.table(TABLE), self.done)
        # Spark reads the commits once, at its start, and counts on by itself.
        last = self.batches.last_committed()
        self.next_batch = 0 if last is None else last + 1

    def done(self, step: str) -> None:
        """Stop the whole process, once, if this is the step."""
        if step == self.stop_at:
            self.stop_at = None
            os.kill(os.getpid(), signal.SIGSTOP)

    def has_read_all(self) -> bool:
        """Return True if the batch before the next one ends with the input."""
        before = self.batches.planned(self.next_batch - 1)
        return before is not None and before.ends["0"]["orders"]["0"] == self.records

    def write_batch(self) -> None:
        batch_id = self.next_batch
        self.plan(batch_id)
        self.done("planned")
        entry = self.run.entry(batch_id).model_copy(update={"output": TABLE})
        self.done("checked")
        start, end = (document["orders"]["0"] for document in range_of(self.batches, batch_id))
        part = self.write_rows(batch_id, start, end)
        self.done("files_written")
        self.log.commit([part], BatchCommit.of(entry, TABLE), COLUMNS)
        self.done("committed")
        self.create(f"commits/{batch_id}", checkpoint_files.committed())
        self.done("recorded")
        self.next_batch += 1

    def plan(self, batch_id: int) -> None:
        """Write `offsets/N` with a different length per driver, unless N is planned.

        As Spark does on local disks and on Azure, where a rename never replaces a file.
        """
        if batch_id == 0:
            self.create("metadata", checkpoint_files.metadata("2f1c"))
            self.create("sources/0/0", checkpoint_files.initial_offsets({"orders": {"0": 0}}))
        before = self.batches.planned(batch_id - 1)
        start = 0 if before is None else before.ends["0"]["orders"]["0"]
        end = min(start + self.chance.randint(1, self.longest), self.records)
        self.create(f"offsets/{batch_id}", checkpoint_files.planned({"orders": {"0": end}}))

    def create(self, name: str, content: bytes) -> None:
        """Create a file of the checkpoint, unless another driver was first."""
        self.run.store.create(f"{self.run.checkpoint}/{name}", content)

    def write_rows(self, batch_id: int, start: int, end: int) -> PartFile:
        self.log.create(COLUMNS)
        rows = pa.record_batch([[id_at(offset) for offset in range(start, end)]], schema=COLUMNS)
        name = f"part-{batch_id}-{self.run.run_id}.parquet"
        part = write_part(self.log.path, name, COLUMNS, [rows], access_to(self.log.path))
        assert part is not None
        return part


class _StoppingLog(TableLog):
    """A table's log that says when it is about to commit: after its look, before its write."""

    def __init__(self, path: str, done: object) -> None:
        super().__init__(path)
        self._done = done

    def _append(self, view: LogView, *rest: object) -> None:
        self._done("committing")  # type: ignore[operator]
        super()._append(view, *rest)  # type: ignore[arg-type]
