"""`make bench-checkpoint`: time to read a checkpoint of 5,000 files on the local disk.

Prints the median and the slowest of several reads, each by a new reader and with a warm file cache. The goal
is 500 ms to inspect, and 200 ms for the gate with one table of as many commits. Also prints the time of
listing alone; the rest is reading and deciding.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.support.declared import declared
from tests.support.large_checkpoint import LargeCheckpoint
from tests.support.stored_stream import store_stream
from tidemill.checkpoint.findings import Finding
from tidemill.checkpoint.gate import examine, gather_facts
from tidemill.checkpoint.inspect import Inspection, inspect_checkpoint
from tidemill.storage.store import Store

ROUNDS = 15
GOAL_MILLISECONDS = 500
GATE_GOAL_MILLISECONDS = 200


def measure(root: Path) -> None:
    pipeline = declared(root, "iot_device_windows")
    path = Path(pipeline.layout.checkpoint(pipeline.name, "g0001"))
    files = LargeCheckpoint().write(path)
    store = Store(pipeline.layout.root)
    found = inspect_checkpoint(store, pipeline, "g0001", None, None)
    _check(found, files)
    print(f"checkpoint of {files} files, {found.size / 1e6:.1f} MB, local disk, {ROUNDS} rounds")
    _told("list", lambda: store.list_files(str(path)), None)
    _told("inspect", lambda: inspect_checkpoint(store, pipeline, "g0001", None, None), GOAL_MILLISECONDS)


def measure_gate(root: Path) -> None:
    stored = store_stream(root, LargeCheckpoint.batches, LargeCheckpoint.partitions)
    store = Store(stored.pipeline.layout.root)

    def gate() -> list[Finding]:
        return examine(gather_facts(store, stored.pipeline, "g0001"))

    if (found := gate()) != []:
        raise SystemExit(f"the answer is wrong: {found}")
    _told("gate", gate, GATE_GOAL_MILLISECONDS)


def _check(found: Inspection, files: int) -> None:
    if (found.files, found.damages, found.committed) != (files, (), 1060):
        raise SystemExit(f"the answer is wrong: {found}")


def _told(name: str, look: Callable[[], object], goal: int | None) -> None:
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        look()
        times.append((time.perf_counter() - start) * 1000)
    told = "" if goal is None else f"  goal {goal} ms"
    print(f"{name:10} median {statistics.median(times):6.0f} ms  slowest {max(times):6.0f} ms{told}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        measure(Path(folder) / "inspect")
        measure_gate(Path(folder) / "gate")
