"""Make a whole copy of a checkpoint while its stream may write to it.

Spark writes each file once and deletes the oldest ones. All files of a batch (offsets, state, table commits)
are durable before its `commits/N` appears. So the copy first reads `commits/`, then lists the rest, which has
everything that the newest commit needs. It leaves out newer files, copies, and then checks the copy, because
Spark may have deleted a file in between. If a file is missing, it tries again with a newer batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tidemill.checkpoint.reading.log_files import TornFileError
from tidemill.checkpoint.reading.reader import CheckpointReader
from tidemill.checkpoint.reading.source_logs import gaps_in_file_log, source_names
from tidemill.checkpoint.verbs.backup_manifest import BackedUpFile
from tidemill.checkpoint.verbs.generation_copy import copy_files, plan_copy
from tidemill.errors import GateRefusedError
from tidemill.storage.advance import Told, nobody_told
from tidemill.storage.store import Store

# Maximum number of attempts. Spark may spoil a copy by deleting old files; each attempt copies a newer batch
# with younger files.
ATTEMPTS = 3


class NothingCommittedError(LookupError):
    """The checkpoint has no finished batch that a copy could end with."""


class NotWholeError(Exception):
    """No attempt made a whole copy.

    Args:
        missing: Files that the last attempt lacked.
    """

    def __init__(self, missing: Sequence[str]) -> None:
        super().__init__("; ".join(missing))
        self.missing = missing


@dataclass(frozen=True)
class WholeCopy:
    """A copy that a query can continue from.

    Args:
        batch_id: Newest finished batch in it.
        files: Files by path below the checkpoint.
    """

    batch_id: int
    files: Mapping[str, BackedUpFile]


def make_whole_copy(store: Store, path: str, target: str, told: Told = nobody_told) -> WholeCopy:
    """Copy a checkpoint as it was at its newest finished batch.

    1. Read the newest commit, then list the files.
    2. Copy.
    3. Check the copy; if it is not whole, remove it and try again.

    Raises:
        NothingCommittedError: If no batch was ever finished.
        NotWholeError: If no attempt copied everything that its batch needs.
    """
    problems: list[str] = []
    for _ in range(ATTEMPTS):
        # 1.
        reader = CheckpointReader(store, path)
        batch_id = newest_commit(reader)
        try:
            plan = plan_copy(reader, batch_id, _query_id(reader))
        except (LookupError, TornFileError) as error:
            problems = [str(error)]
            continue
        # 2.
        copied = copy_files(reader, plan, store, target, told)
        # 3.
        problems = copy_problems(store, target, batch_id, copied)
        if not problems:
            return WholeCopy(batch_id, copied)
        _remove(store, target)
    raise NotWholeError(problems)


def newest_commit(reader: CheckpointReader) -> int:
    """Return the number of the newest finished batch.

    Raises:
        NothingCommittedError: If there is none.
    """
    batch_id = reader.batches.last_committed()
    if batch_id is None:
        raise NothingCommittedError(reader.path)
    return batch_id


def copy_problems(store: Store, path: str, batch_id: int, expected: Mapping[str, BackedUpFile]) -> list[str]:
    """Return why a query cannot continue from the copy, or how it differs; empty if the copy is whole."""
    reader = CheckpointReader(store, path)
    sizes = {name: file.size for name, file in reader.names.items()}
    changed = [name for name, file in expected.items() if sizes.get(name) != file.size]
    try:
        missing = [
            name
            for name, found in (
                ("metadata", reader.query_id),
                (f"offsets/{batch_id}", reader.offsets(batch_id)),
                (f"commits/{batch_id}", reader.commits(batch_id)),
            )
            if found is None
        ]
        state = [problem.what for problem in reader.state_problems(batch_id + 1)]
    except GateRefusedError as error:
        return [str(error.facts.get("file", error.problem))]
    empty = (name for name, size in sizes.items() if name.startswith("sources/") and size == 0)
    sources = (
        f"sources/{source}/{gap}"
        for source in source_names(path, reader.files)
        for gap in gaps_in_file_log(path, reader.files, source)
    )
    return [*changed, *missing, *state, *empty, *sources]


def _query_id(reader: CheckpointReader) -> str:
    if reader.query_id is None:
        raise LookupError("metadata")
    return reader.query_id


def _remove(store: Store, folder: str) -> None:
    for file in store.list_files(folder):
        store.delete(file.path)
