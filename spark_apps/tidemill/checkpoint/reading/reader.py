"""Read a checkpoint at one moment: one listing, and each small file at most once."""

from __future__ import annotations

import re
from functools import cache, cached_property

from tidemill.checkpoint.reading.batches import CheckpointBatches
from tidemill.checkpoint.reading.log_files import CommitsFile, OffsetsFile, TornFileError
from tidemill.checkpoint.reading.state_damage import state_problems
from tidemill.checkpoint.reading.state_files import Operator, StoreKey, parse_operator
from tidemill.checkpoint.reading.state_inventory import Missing, StateInventory, read_inventory
from tidemill.checkpoint.reading.state_schema import StateTable, parse_state_schema
from tidemill.storage.store import Store, StoredFile

_NAMED_SCHEMA = re.compile(r"\d+_[0-9a-f-]{36}")
_OPERATOR_FILE = re.compile(r"state/(\d+)/_metadata/(metadata|v2/(\d+))")


class CheckpointReader:
    """The content of a checkpoint at one moment. Reads only.

    While the stream runs, Spark may purge a listed file before it is read; the file is None then.

    Args:
        store: The storage.
        path: The checkpoint directory.
    """

    def __init__(self, store: Store, path: str) -> None:
        self.store = store
        self.path = path
        self.batches = CheckpointBatches(store, path)
        self.offsets = cache(self._offsets)
        self.commits = cache(self._commits)

    @cached_property
    def files(self) -> list[StoredFile]:
        """Return all files, sorted by path."""
        return self.store.list_files(self.path)

    @cached_property
    def names(self) -> dict[str, StoredFile]:
        """Return all files by their path below the checkpoint."""
        start = len(self.path) + 1
        return {file.path[start:]: file for file in self.files}

    @cached_property
    def query_id(self) -> str | None:
        """Return the id of the Spark query; None before its first start.

        Raises:
            GateRefusedError: TIDE-CKPT-007, if `metadata` is torn.
        """
        return self.batches.query_id()

    @cached_property
    def offset_ids(self) -> list[int]:
        """Return the numbers of all planned batches, in ascending order."""
        return self._ids("offsets")

    @cached_property
    def commit_ids(self) -> list[int]:
        """Return the numbers of all committed batches, in ascending order."""
        return self._ids("commits")

    @cached_property
    def state(self) -> StateInventory:
        """Return all state files, and the operators they belong to."""
        return read_inventory(self.path, self.files, self.operators)

    @cached_property
    def operators(self) -> list[Operator]:
        """Return the stateful operators; one with a missing or torn description is left out."""
        newest: dict[str, tuple[int, str]] = {}
        for name in self.names:
            if (match := _OPERATOR_FILE.fullmatch(name)) is not None:
                candidate = (int(match[3] or 0), name)
                newest[match[1]] = max(candidate, newest.get(match[1], candidate))
        found = (self._operator(name) for _, name in newest.values())
        return sorted((operator for operator in found if operator), key=lambda operator: operator.number)

    def state_tables(self, operator: Operator) -> dict[str, list[StateTable]]:
        """Return the tables of each store of an operator; a store without a readable schema is left out."""
        found = {
            store: self._tables(self._schema_file(operator.number, store), store) for store in operator.stores
        }
        return {store: tables for store, tables in found.items() if tables is not None}

    def state_problems(self, version: int) -> list[Missing]:
        """Return why the state cannot be loaded at a version; empty if no problem is found.

        Batch N starts from version N.

        Raises:
            GateRefusedError: TIDE-CKPT-007, if the file of `commits/` with the state ids is torn.
        """
        return state_problems(self.store, self.state, version, self.commits)

    def _offsets(self, batch_id: int) -> OffsetsFile | None:
        """Return the parsed file `offsets/<batch_id>`.

        Raises:
            GateRefusedError: TIDE-CKPT-007, if it is torn.
        """
        return self.batches.offsets(batch_id)

    def _commits(self, batch_id: int) -> CommitsFile | None:
        return self.batches.commits(batch_id)

    def _ids(self, folder: str) -> list[int]:
        prefix = f"{folder}/"
        names = (name[len(prefix) :] for name in self.names if name.startswith(prefix))
        return sorted(int(name) for name in names if name.isdecimal())

    def _schema_file(self, operator: int, store: str) -> str | None:
        """Return the path of a store's schema: in its first partition, or in a folder for named states."""
        folder = f"state/{operator}/_stateSchema/{store}/"
        # `<batch>_<unique id>`: each batch that changes the schema writes a new file.
        written = [name for name in self.names if _NAMED_SCHEMA.fullmatch(name.removeprefix(folder))]
        if written:
            return max(written, key=lambda name: int(name.removeprefix(folder).partition("_")[0]))
        name = f"{StoreKey(operator, 0, store)}/_metadata/schema"
        return name if name in self.names else None

    def _tables(self, name: str | None, store: str) -> list[StateTable] | None:
        try:
            return parse_state_schema(self.store.read(f"{self.path}/{name}") or b"", store) if name else None
        except TornFileError:
            return None

    def _operator(self, name: str) -> Operator | None:
        try:
            return parse_operator(self.store.read(f"{self.path}/{name}") or b"")
        except TornFileError:
            return None
