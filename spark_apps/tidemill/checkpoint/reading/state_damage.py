"""Check cheaply and without false alarms that the state files Spark would read are whole.

- Spark 4.2 writes a checksum file next to every changelog, delta, snapshot and zip
  (`spark.sql.streaming.checkpoint.fileChecksum.enabled`). It has the size of the file, so a read of about 150
  bytes finds a truncated file.
- Without a checksum file, as in state format 1, a file that was compressed with LZ4 (Spark's default) must
  end with an end mark. This check reads the whole file.
- The zip of a RocksDB snapshot lists its data files with their sizes; the directory is at its end.
- In state format 2, the newest changelog names the snapshot that Spark will look for.
- An empty file need not be read.

Changed bytes without a change of size are not found here: Spark finds them when it reads, and fails.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tidemill.checkpoint.reading.state_files import StoreFiles, StoreKey, VersionFile
from tidemill.checkpoint.reading.state_inventory import Chain, CommitsOf, Missing, StateInventory
from tidemill.checkpoint.reading.state_lineage import lineage_start
from tidemill.storage.store import Store

# Each block of LZ4BlockOutputStream begins with the magic word and one byte for method and level. Then follow
# the length in the file, the length of the content and the checksum, 4 bytes each; all are 0 in the last
# block.
_LZ4_MAGIC = b"LZ4Block"
_LZ4_LENGTHS_BYTES = 12
_LZ4_HEADER_BYTES = len(_LZ4_MAGIC) + 1 + _LZ4_LENGTHS_BYTES

# State stores checked concurrently, enough to hide an object store's latency.
STORES_AT_ONCE = 8

# Maximum size, in bytes, of a changelog that is read for its lineage: a batch that changed about 10,000 keys
# of a partition. Reading a longer one costs more than an early report is worth, because Spark finds the loss
# at its start.
LONGEST_LINEAGE_READ = 2**20


def state_problems(
    store: Store, inventory: StateInventory, version: int, commits: CommitsOf
) -> list[Missing]:
    """Return why a version of the state cannot be loaded; empty if no problem is found.

    Reads one small file for each state file that Spark would read, and each snapshot's zip.
    """
    problems = inventory.missing(version, commits)
    known = {problem.key for problem in problems}
    chains = {key: inventory.chain(key, version, commits) for key in inventory.needed(version, commits)}
    whole = {key: chain for key, chain in chains.items() if key not in known and isinstance(chain, Chain)}

    def look(key: StoreKey) -> list[Missing]:
        damages = _damages(store, whole[key], inventory.stores.get(key, StoreFiles()))
        return [Missing(key, version, f"{key}/{what}") for what in damages]

    with ThreadPoolExecutor(STORES_AT_ONCE) as threads:
        return problems + [problem for found in threads.map(look, whole) for problem in found]


def snapshot_data(content: bytes) -> Mapping[str, int]:
    """Return the data files of a RocksDB snapshot: name in `SSTs/` or `logs/`, and size in bytes.

    Args:
        content: Content of `<version>.zip`.

    Raises:
        ValueError: If the zip is damaged.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            document = json.loads(archive.read("metadata").partition(b"\n")[2])
        held: list[dict[str, Any]] = [*document.get("sstFiles", ()), *document.get("logFiles", ())]
        return {str(file.get("dfsSstFileName") or file["dfsLogFileName"]): file["sizeBytes"] for file in held}
    except (zipfile.BadZipFile, KeyError, TypeError, AttributeError, EOFError) as error:
        raise ValueError(str(error)) from error


def _damages(store: Store, chain: Chain, files: StoreFiles) -> Iterator[str]:
    yield from _damages_of_sizes(store, chain)
    yield from _damages_of_snapshot(store, chain, files)
    yield from _damages_of_lineage(store, chain)


def _damages_of_sizes(store: Store, chain: Chain) -> Iterator[str]:
    for held in chain.files:
        expected = _size_of_checksum(store, held)
        if expected is None and not held.file.path.endswith(".zip"):
            content = store.read(held.file.path)
            if content is not None and content.startswith(_LZ4_MAGIC) and not _ends_as_lz4(content):
                yield f"{_name(held)} is cut off"
        elif expected is not None and expected != held.file.size:
            yield f"{_name(held)} has {held.file.size} of {expected} bytes"


def _ends_as_lz4(content: bytes) -> bool:
    """Return True if the last block is the empty one that LZ4BlockOutputStream writes at its end."""
    last = content[-_LZ4_HEADER_BYTES:]
    return last.startswith(_LZ4_MAGIC) and not any(last[-_LZ4_LENGTHS_BYTES:])


def _size_of_checksum(store: Store, held: VersionFile) -> int | None:
    """Return the size in the checksum file; None if that file is missing or damaged."""
    content = None if held.checksum is None else store.read(held.checksum.path)
    try:
        return None if content is None else int(json.loads(content)["mainFileSize"])
    except (ValueError, KeyError, TypeError):
        return None


def _damages_of_snapshot(store: Store, chain: Chain, files: StoreFiles) -> Iterator[str]:
    if chain.snapshot is None or not chain.snapshot.file.path.endswith(".zip"):
        return
    content = store.read(chain.snapshot.file.path)
    if content is None:
        yield f"{_name(chain.snapshot)} is gone"
        return
    try:
        expected = snapshot_data(content)
    except ValueError:
        yield f"{_name(chain.snapshot)} is damaged"
        return
    for name, size in expected.items():
        found = files.data.get(name)
        if found is None:
            yield f"{name}, which {_name(chain.snapshot)} needs, is missing"
        elif found.size != size:
            yield f"{name} has {found.size} of {size} bytes"


def _damages_of_lineage(store: Store, chain: Chain) -> Iterator[str]:
    newest = chain.changes[-1] if chain.changes else None
    if newest is None or newest.unique_id is None or newest.file.size > LONGEST_LINEAGE_READ:
        return
    start = lineage_start(store.read(newest.file.path) or b"")
    begins = chain.snapshot.version if chain.snapshot else 0
    # Version 1 has no predecessor, so a lineage that begins with it needs no snapshot.
    if start is not None and start > 1 and begins < start:
        yield f"{start}_….zip is missing, with which the changes up to {_name(newest)} begin"


def _name(held: VersionFile) -> str:
    return held.file.path.rpartition("/")[2]
