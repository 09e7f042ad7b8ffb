"""A store in which a stream continues while a tool reads: it takes more steps before each access."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator

from tests.support import checkpoint_files
from tidemill.storage.store import Store, StoredFile

# Number of versions between two snapshots of the stream's state.
SNAPSHOT_EVERY = 5
PARTITIONS = 2


class StreamBelow:
    """Writes a checkpoint as Spark does, one file at a time; keeps the newest `retained` batches.

    Args:
        store: The store.
        checkpoint: Folder of the checkpoint.
        retained: Batches that are not deleted.
    """

    def __init__(self, store: Store, checkpoint: str, retained: int) -> None:
        self._store = store
        self._path = checkpoint
        self._retained = retained
        self._steps = self._go_on()
        self._write("metadata", checkpoint_files.metadata("2f1c"))
        self._write("sources/0/0", checkpoint_files.initial_offsets({"orders": {"0": 0}}))
        operator = checkpoint_files.operator(0, "stateStoreSave", PARTITIONS)
        self._write("state/0/_metadata/metadata", operator)

    def step(self) -> None:
        """Write or delete one more file."""
        next(self._steps)

    def _go_on(self) -> Iterator[None]:
        batch_id = 0
        while True:
            self._write(f"offsets/{batch_id}", checkpoint_files.planned({"orders": {"0": batch_id}}))
            yield
            for partition in range(PARTITIONS):
                self._write(f"state/0/{partition}/{batch_id + 1}.delta", f"change {batch_id + 1}".encode())
                yield
            self._write(f"commits/{batch_id}", checkpoint_files.committed())
            yield
            yield from self._maintain(batch_id)
            batch_id += 1

    def _maintain(self, batch_id: int) -> Iterator[None]:
        """Write snapshots and delete old versions; each retained state version can be loaded."""
        version = batch_id + 1
        for partition in range(PARTITIONS) if version % SNAPSHOT_EVERY == 0 else ():
            self._write(f"state/0/{partition}/{version}.snapshot", f"all of {version}".encode())
            yield
        oldest = batch_id - self._retained
        needed = (oldest + 1) // SNAPSHOT_EVERY * SNAPSHOT_EVERY
        for name in self._old(oldest, needed):
            self._store.delete(f"{self._path}/{name}")
            yield

    def _old(self, oldest: int, needed: int) -> list[str]:
        names = []
        for file in Store.list_files(self._store, self._path):
            name = file.path[len(self._path) + 1 :]
            folder, _, last = name.rpartition("/")
            number = last.partition(".")[0]
            if not number.isdecimal() or folder.startswith("sources"):
                continue
            if int(number) < (oldest if folder in ("offsets", "commits") else needed):
                names.append(name)
        return names

    def _write(self, name: str, content: bytes) -> None:
        self._store.write(f"{self._path}/{name}", content)


class BusyStore(Store):
    """A store in which the stream writes while it is read, as the module describes.

    Args:
        root: Storage root.
        checkpoint: Checkpoint of the stream.
        seed: Seed of the stream's pace.
        retained: Batches that the stream keeps.
        most_steps: That it takes between two accesses.
    """

    def __init__(self, root: str, checkpoint: str, seed: int, retained: int, most_steps: int) -> None:
        super().__init__(root)
        self._random = random.Random(seed)
        self._most_steps = most_steps
        self._lock = threading.Lock()
        self._is_idle = True
        self._stream = StreamBelow(self, checkpoint, retained)
        for _ in range(self._random.randint(30, 300)):
            self._stream.step()
        self._is_idle = False

    def read(self, path: str) -> bytes | None:
        self._go_on(path)
        return super().read(path)

    def list_files(self, folder: str) -> list[StoredFile]:
        self._go_on(folder)
        return super().list_files(folder)

    def _go_on(self, path: str) -> None:
        # No other writer uses the backups' folder.
        if self._is_idle or "/backups/" in path:
            return
        with self._lock:
            for _ in range(self._random.randint(0, self._most_steps)):
                self._stream.step()
