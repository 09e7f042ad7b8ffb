"""Find the versions of a checkpoint's state that can be loaded, and the missing files of the others.

Version N is loaded from its newest snapshot at or below N and every change after that. Version 0 is empty and
has no file. In state format 2, `commits/<N - 1>` has the unique id of each store's version N.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from tidemill.checkpoint.reading.log_files import CommitsFile
from tidemill.checkpoint.reading.state_files import (
    DEFAULT_STORE,
    Operator,
    StoreFiles,
    StoreKey,
    VersionFile,
    files_by_store,
)
from tidemill.storage.store import StoredFile

# Placeholder for an unknown unique id.
_ANY = "*"

# Returns the parsed `commits/<batch>`; None if it is missing or purged.
CommitsOf = Callable[[int], CommitsFile | None]


@dataclass(frozen=True)
class Chain:
    """The files that Spark reads to load a version: a snapshot (none from version 0), then changes."""

    snapshot: VersionFile | None
    changes: tuple[VersionFile, ...]

    @property
    def files(self) -> tuple[VersionFile, ...]:
        """Return all files of the chain."""
        return (self.snapshot, *self.changes) if self.snapshot else self.changes


@dataclass(frozen=True)
class Missing:
    """The reason why a version of a store cannot be loaded.

    Args:
        key: The store.
        version: The requested version.
        what: Missing or damaged file or folder, below the checkpoint, with the damage.
    """

    key: StoreKey
    version: int
    what: str


@dataclass(frozen=True)
class StateInventory:
    """All state of a checkpoint.

    Args:
        stores: Files by store.
        operators: Operators by number, without those whose description is unreadable.
    """

    stores: Mapping[StoreKey, StoreFiles]
    operators: Mapping[int, Operator] = field(default_factory=dict)

    @property
    def keys(self) -> list[StoreKey]:
        """Return the existing stores and the described stores."""
        described = (key for operator in self.operators.values() for key in operator.keys)
        return sorted({*self.stores, *described})

    def needed(self, version: int, commits: CommitsOf) -> list[StoreKey]:
        """Return the stores that Spark opens at a version.

        In state format 2 the commit before it names them; else the operators' descriptions do. Other folders
        are left over, for example after a repartition to fewer partitions.
        """
        commit = commits(version - 1)
        if commit is not None and commit.state_ids:
            return sorted(key for number in commit.state_ids for key in self._committed_keys(number, commit))
        described = {key for operator in self.operators.values() for key in operator.keys}
        return sorted(described | {key for key in self.stores if key.operator not in self.operators})

    def chain(self, key: StoreKey, version: int, commits: CommitsOf) -> Chain | Missing:
        """Return the files from which Spark would load a version of one store, or the missing file."""
        files = self.stores.get(key, StoreFiles())
        changes: list[VersionFile] = []
        for wanted in range(version, 0, -1):
            unique_id = self._unique_id(key, wanted, commits)
            if (snapshot := _pick(files.snapshots, wanted, unique_id)) is not None:
                return Chain(snapshot, tuple(reversed(changes)))
            if (change := _pick(files.changes, wanted, unique_id)) is None:
                return Missing(key, version, f"{key}/{wanted}{_named(unique_id)} is missing")
            changes.append(change)
        return Chain(None, tuple(reversed(changes)))

    def missing(self, version: int, commits: CommitsOf) -> list[Missing]:
        """Return the stores that cannot be loaded at a version, judged by names and sizes; empty if all can.

        An empty file counts as missing. `state_damage` checks the content of the files.
        """
        found = ((key, self.chain(key, version, commits)) for key in self.needed(version, commits))
        return [problem for key, chain in found for problem in _problems(key, version, chain)]

    def loadable_versions(self, commits: CommitsOf, newest: int | None = None) -> Iterator[int]:
        """Yield the versions up to `newest` at which every store can be loaded, judged by names and sizes.

        They are checked lazily, newest first. There are none without state.
        """
        known = {version for files in self.stores.values() for version in files.versions}
        candidates = sorted((v for v in known if newest is None or v <= newest), reverse=True)
        return (version for version in candidates if not self.missing(version, commits))

    def _committed_keys(self, number: int, commit: CommitsFile) -> list[StoreKey]:
        """Return the stores of an operator according to a commit of state format 2."""
        operator = self.operators.get(number)
        keys = []
        for partition, unique_ids in enumerate(commit.state_ids[number]):
            there = [key.store for key in self.stores if (key.operator, key.partition) == (number, partition)]
            names = operator.stores if operator else there or [DEFAULT_STORE]
            keys += [StoreKey(number, partition, name) for name in names if unique_ids]
        return keys

    def _unique_id(self, key: StoreKey, version: int, commits: CommitsOf) -> str | None:
        """Return the unique id of a version; None in state format 1; `_ANY` if Spark has purged its commit.

        The id is then only in the compressed changelogs, so the newest file of the version is used instead.
        """
        commit = commits(version - 1)
        if commit is None:
            return _ANY
        if not commit.state_ids:
            return None
        try:
            return commit.state_ids[key.operator][key.partition][self._place(key)]
        except (KeyError, IndexError):
            return _ANY

    def _place(self, key: StoreKey) -> int:
        operator = self.operators.get(key.operator)
        # Without a description, only the index of a single store is known.
        names = operator.stores if operator else (DEFAULT_STORE,)
        return names.index(key.store) if key.store in names else len(names)


def read_inventory(
    path: str, files: Iterable[StoredFile], operators: Iterable[Operator] = ()
) -> StateInventory:
    """Return the inventory of a checkpoint's listing.

    Args:
        path: The checkpoint directory.
        files: All its files, as returned by `Store.list_files`; files of other folders are ignored.
        operators: Results of `parse_operator`.
    """
    return StateInventory(files_by_store(path, files), {operator.number: operator for operator in operators})


def _pick(
    held: Mapping[int, tuple[VersionFile, ...]], version: int, unique_id: str | None
) -> VersionFile | None:
    candidates = held.get(version, ())
    if unique_id == _ANY:
        # If there were several attempts at one version, the last one written was committed.
        return max(candidates, key=lambda found: found.file.modified, default=None)
    return next((found for found in candidates if found.unique_id == unique_id), None)


def _named(unique_id: str | None) -> str:
    return "" if unique_id in (None, _ANY) else f"_{unique_id}"


def _problems(key: StoreKey, version: int, chain: Chain | Missing) -> list[Missing]:
    if isinstance(chain, Missing):
        return [chain]
    empty = (held for held in chain.files if held.file.size == 0)
    return [Missing(key, version, f"{key}/{_name(held.file)} is empty") for held in empty]


def _name(file: StoredFile) -> str:
    return file.path.rpartition("/")[2]
