"""Answers questions about the lake from inside the cluster: a line of JSON in, a line of JSON out.

Runs in a pod that has Tidemill and mounts the data: `python -c <this file> ROOT`. It is the oracle's eye: it
reads the tables themselves, not what anybody says of them.
"""

import json
import sys
from collections.abc import Callable
from typing import Any

from tidemill.checkpoint.current import read_current
from tidemill.checkpoint.holds import read_holds
from tidemill.checkpoint.reading.batches import CheckpointBatches
from tidemill.checkpoint.status import read_status
from tidemill.ledger.read import open_table, read_ledger
from tidemill.names import FIRST_GENERATION, Layout
from tidemill.storage.store import Store

LAYOUT = Layout(sys.argv[1])
STORE = Store(LAYOUT.root)


def status(pipeline: str) -> Any:
    found = read_status(STORE, LAYOUT, pipeline)
    return None if found is None else found.model_dump(mode="json")


def receipts(pipeline: str) -> list[Any]:
    """Return all receipts, oldest first."""
    folder = LAYOUT.receipts(pipeline)
    return [STORE.read_json(f"{folder}/{name}") for name in sorted(STORE.list_names(folder))]


def epochs(pipeline: str) -> list[Any]:
    """Return all claims, in order."""
    folder = LAYOUT.epochs(pipeline)
    return [STORE.read_json(f"{folder}/{name}") for name in sorted(STORE.list_names(folder))]


def holds(pipeline: str) -> list[str]:
    """Return ids of what forbids a start."""
    return [hold.id for hold in read_holds(STORE, LAYOUT, pipeline)]


def generation(pipeline: str) -> str | None:
    """Return the live generation."""
    current = read_current(STORE, LAYOUT, pipeline)
    return None if current is None else current.generation


def batches(pipeline: str) -> CheckpointBatches:
    return CheckpointBatches(STORE, LAYOUT.checkpoint(pipeline, generation(pipeline) or FIRST_GENERATION))


def committed(pipeline: str) -> int:
    """Return the newest batch in the live checkpoint's commits; -1 before the first."""
    last = batches(pipeline).last_committed()
    return -1 if last is None else last


def begun(pipeline: str) -> int:
    """Return the newest batch in the live checkpoint's offsets; -1 before the first."""
    last = batches(pipeline).last_planned()
    return -1 if last is None else last


def ledger(table: str, pipeline: str) -> list[list[int | None]]:
    """Version, epoch and batch of each batch of a pipeline's live generation, oldest first."""
    live = generation(pipeline)
    entries = [(commit.version, commit.entry) for commit in reversed(read_ledger(LAYOUT.table(table)))]
    own = [(v, e) for v, e in entries if (e.pipeline, e.generation) == (pipeline, live) and e.mode != "base"]
    return [[version, entry.epoch, entry.batch_id] for version, entry in own]


def rows(table: str, columns: list[str]) -> list[list[Any]]:
    """Return all rows of a table."""
    found = open_table(LAYOUT.table(table))
    if found is None:
        return []
    read = found.to_pyarrow_table(columns=columns).to_pydict()
    return [list(row) for row in zip(*(read[column] for column in columns), strict=True)]


def count(table: str) -> int:
    found = open_table(LAYOUT.table(table))
    return 0 if found is None else found.count()


ALL = (status, holds, receipts, epochs, generation, committed, begun, ledger, rows, count)
VERBS: dict[str, Callable[..., Any]] = {verb.__name__: verb for verb in ALL}


def answer(line: str) -> dict[str, Any]:
    request = json.loads(line)
    try:
        return {"answer": VERBS[request["verb"]](**request["arguments"])}
    except Exception as error:  # noqa: BLE001  # an entry point: the test gets the error and asks again
        return {"error": f"{type(error).__name__}: {error}"}


def main() -> None:
    for line in sys.stdin:
        # A time is written as ISO 8601.
        sys.stdout.write(json.dumps(answer(line), default=lambda value: value.isoformat()) + "\n")
        sys.stdout.flush()


main()
