"""The state files of a checkpoint: stores, versions and operators, from file names and descriptions.

Layout (Spark 4.2, RocksDB and HDFS-backed providers), below `state/<operator>/<partition>/[<store>/]`. The
store named `default` has no separate folder:

    7.changelog  7.delta             changes of version 7
    6.zip  6.snapshot                whole version 6; the data of a `.zip` is in SSTs/ and logs/
    7_<unique id>.changelog          the same in state format 2, where a repeated batch writes another file
    7.changelog.crc                  Spark's checksum of the file, with its size

Batch N starts from version N and writes version N + 1.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tidemill.checkpoint.reading.log_files import TornFileError
from tidemill.storage.store import StoredFile

DEFAULT_STORE = "default"

_VERSION_FILE = re.compile(r"(\d+)(?:_([0-9a-f-]{36}))?\.(changelog|delta|zip|snapshot)")
_SNAPSHOTS = ("zip", "snapshot")
_DATA_FOLDERS = ("SSTs", "logs")


@dataclass(frozen=True, order=True)
class StoreKey:
    """One state store of one partition of one stateful operator."""

    operator: int
    partition: int
    store: str = DEFAULT_STORE

    def __str__(self) -> str:
        return f"state/{self.operator}/{self.partition}" + (
            "" if self.store == DEFAULT_STORE else f"/{self.store}"
        )


@dataclass(frozen=True)
class VersionFile:
    """A file with a whole version, or with its changes.

    Args:
        version: The version.
        unique_id: Id of the attempt that wrote it; None in state format 1.
        file: The file.
        checksum: Spark's checksum file; None if there is none.
    """

    version: int
    unique_id: str | None
    file: StoredFile
    checksum: StoredFile | None = None


@dataclass(frozen=True)
class StoreFiles:
    """The files of one state store.

    Args:
        snapshots: Whole versions, by version.
        changes: Changes, by version.
        data: Files in `SSTs/` and `logs/` that a RocksDB snapshot refers to, by name.
        size: Size of all files in bytes, including checksum files.
        count: Number of all files.
    """

    snapshots: Mapping[int, tuple[VersionFile, ...]] = field(default_factory=dict)
    changes: Mapping[int, tuple[VersionFile, ...]] = field(default_factory=dict)
    data: Mapping[str, StoredFile] = field(default_factory=dict)
    size: int = 0
    count: int = 0

    @property
    def versions(self) -> list[int]:
        """Return the versions with a file, in ascending order; some of them may not be loadable."""
        return sorted({*self.snapshots, *self.changes})


@dataclass(frozen=True)
class Operator:
    """One stateful operator, as `_metadata/metadata` (or `_metadata/v2/…`) describes it.

    Args:
        number: Its id in the plan.
        name: Spark's name of it, such as `stateStoreSave` or `dedupe`.
        stores: Names of its stores, in the order of the unique ids in `commits/`.
        partitions: Number of its partitions, pinned when the query was created.
        settings: Declaration of `transformWithState`: `timeMode`, `outputMode`, and the kind of each state by
            its name.
    """

    number: int
    name: str
    stores: tuple[str, ...]
    partitions: int
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def keys(self) -> list[StoreKey]:
        """Return the keys of all its stores."""
        return [
            StoreKey(self.number, place, name) for place in range(self.partitions) for name in self.stores
        ]


def parse_operator(content: bytes) -> Operator:
    """Parse an operator's `_metadata/metadata` (v1), or a file of `_metadata/v2/`.

    Raises:
        TornFileError: If it is not what Spark writes.
    """
    try:
        _, line = content.decode().split("\n", 1)
        document = json.loads(line)
        stores = document["stateStoreInfo"]
        return Operator(
            int(document["operatorInfo"]["operatorId"]),
            str(document["operatorInfo"]["operatorName"]),
            tuple(str(store["storeName"]) for store in stores),
            max(int(store["numPartitions"]) for store in stores),
            _settings(document.get("operatorPropertiesJson") or "{}"),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise TornFileError(str(error)) from error


def _settings(content: str) -> dict[str, str]:
    """Return Spark's settings of a `transformWithState`; its time to live may change, its kinds may not."""
    properties = json.loads(content)
    told = {name: str(properties[name]) for name in ("timeMode", "outputMode") if name in properties}
    states = properties.get("stateVariables") or []
    return {**told, **{f"state {state['stateName']}": str(state["stateVariableType"]) for state in states}}


def files_by_store(path: str, files: Iterable[StoredFile]) -> dict[StoreKey, StoreFiles]:
    """Group a checkpoint's listing by state store.

    Args:
        path: The checkpoint directory.
        files: All its files, as returned by `Store.list_files`; files of other folders are ignored.
    """
    by_store: dict[StoreKey, dict[str, StoredFile]] = {}
    for file in files:
        found = _place_of(file.path[len(path) + 1 :])
        if found is not None:
            by_store.setdefault(found[0], {})[found[1]] = file
    return {key: _store_files(names) for key, names in by_store.items()}


def _place_of(relative: str) -> tuple[StoreKey, str] | None:
    """Return the store of a path below the checkpoint, and the path below the store."""
    match relative.split("/"):
        case ["state", operator, partition, *rest] if operator.isdecimal() and partition.isdecimal() and rest:
            pass
        case _:
            return None
    if rest[0].startswith("_"):
        return None
    named = len(rest) > 1 and rest[0] not in _DATA_FOLDERS
    store = rest.pop(0) if named else DEFAULT_STORE
    return StoreKey(int(operator), int(partition), store), "/".join(rest)


def _store_files(names: Mapping[str, StoredFile]) -> StoreFiles:
    snapshots: dict[int, tuple[VersionFile, ...]] = {}
    changes: dict[int, tuple[VersionFile, ...]] = {}
    for name, file in names.items():
        if (match := _VERSION_FILE.fullmatch(name)) is not None:
            version = int(match[1])
            kind = snapshots if match[3] in _SNAPSHOTS else changes
            held = VersionFile(version, match[2], file, names.get(f"{name}.crc"))
            kind[version] = (*kind.get(version, ()), held)
    data = {name.rpartition("/")[2]: file for name, file in names.items() if name.startswith(_DATA_FOLDERS)}
    return StoreFiles(snapshots, changes, data, sum(file.size for file in names.values()), len(names))
