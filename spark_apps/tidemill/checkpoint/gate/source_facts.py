"""What storage says of the source: its log in the checkpoint, the table or the files that it reads."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from tidemill.checkpoint.gate.facts import CheckpointFacts, SourceFacts, TableSourceFacts
from tidemill.checkpoint.reading.log_files import TornFileError
from tidemill.checkpoint.reading.reader import CheckpointReader
from tidemill.checkpoint.reading.source_logs import (
    DeltaOffset,
    file_log_id,
    gaps_in_file_log,
    parse_delta_offset,
    read_file_log,
    source_names,
)
from tidemill.ledger.read import open_table
from tidemill.spec.project import Pipeline
from tidemill.storage.store import Store

if TYPE_CHECKING:
    from deltalake import DeltaTable

# Files of a batch to repeat, and of versions to read, whose being there is looked at: one request each on an
# object store. What removes some of them (VACUUM, a clean-up) hardly spares just these.
LOOKED_AT = 50

# Versions of a table to read, from the next one on, whose log file and data files are looked at.
VERSIONS_LOOKED_AT = 10

# Requests at the same time, which hides the waits of an object store.
LOOKS_AT_ONCE = 8

# Names that every client of a store takes for the same object; also no URI and no absolute path.
_PLAIN = re.compile(r"[A-Za-z0-9_.=-][A-Za-z0-9_.=/-]*")


@dataclass(frozen=True)
class ReadSince:
    """What was read after a batch and must be read again.

    Args:
        reader: The checkpoint that tells it.
        batch_id: The newest batch whose rows are taken back.
    """

    reader: CheckpointReader
    batch_id: int


def gather_source(
    facts: CheckpointFacts,
    reader: CheckpointReader,
    pipeline: Pipeline,
    read_since: ReadSince | None = None,
) -> CheckpointFacts:
    """The facts with what storage says of the source.

    Args:
        facts: What the checkpoint says.
        reader: The checkpoint.
        pipeline: What is to go on from it.
        read_since: What must be read again: all of it is looked for, else a sample of what comes next.
    """
    log = bool(source_names(reader.path, reader.files))
    # Only a query without finished batches begins where the source's own log says.
    begins = facts.committed is None and pipeline.spec.source.is_kafka
    initial = reader.batches.initial_offset() if begins else None
    missing = _missing_files(facts, reader)
    if read_since is not None:
        missing = _missing_since(facts, reader, read_since)
    facts = replace(facts, source=SourceFacts(log, initial, missing=missing))
    if pipeline.spec.source.delta is None:
        return facts
    path = pipeline.layout.table(pipeline.spec.source.delta.table)
    start = parse_delta_offset(facts.next_start) or parse_delta_offset(facts.end_of(facts.planned))
    table = _table(reader.store, path, start, whole=read_since is not None)
    return replace(facts, source=replace(facts.source, table=table))


def _missing_since(facts: CheckpointFacts, reader: CheckpointReader, since: ReadSince) -> tuple[str, ...]:
    """Files whose rows are taken back and that are gone."""
    newest = since.reader.offsets(since.batch_id)
    until = None if newest is None else file_log_id(next(iter(newest.ends.values()), None))
    last = file_log_id(facts.end_of(facts.committed))
    if last is None or until is None:
        return ()
    try:
        stays, read = (read_file_log(r.store, r.path, r.files) for r in (reader, since.reader))
    except TornFileError as error:
        return (str(error),)
    known = {entry.path for entry in stays if entry.log_id <= last}
    wanted = sorted({entry.path for entry in read if entry.log_id <= until} - known)
    return _gone(since.reader.store, wanted)


def files_gone(reader: CheckpointReader) -> tuple[str, ...]:
    """Files that the checkpoint's batches have read and that are gone, as its log names them."""
    try:
        read = sorted({entry.path for entry in read_file_log(reader.store, reader.path, reader.files)})
    except TornFileError as error:
        return (str(error),)
    return _gone(reader.store, read)


def _gone(store: Store, paths: Sequence[str]) -> tuple[str, ...]:
    with ThreadPoolExecutor(LOOKS_AT_ONCE) as threads:
        there = list(threads.map(partial(_is_there, store), paths))
    return tuple(path for path, is_there in zip(paths, there, strict=True) if not is_there)


def _missing_files(facts: CheckpointFacts, reader: CheckpointReader) -> tuple[str, ...]:
    """What the batch to repeat cannot read: entries of the source's log, or files that they name."""
    last = file_log_id(facts.end_of(facts.planned))
    if last is None:
        return ()
    gaps = gaps_in_file_log(reader.path, reader.files)
    if gaps or facts.planned == facts.committed:
        return tuple(f"sources/0/{number}" for number in gaps if number <= last)
    before = file_log_id(facts.end_of(facts.committed))
    first = 0 if before is None else before + 1
    prefix = f"{reader.path}/sources/"
    wanted = {f"{prefix}0/{number}{end}" for number in range(first, last + 1) for end in ("", ".compact")}
    try:
        entries = read_file_log(reader.store, reader.path, [f for f in reader.files if f.path in wanted])
    except TornFileError as error:
        return (str(error),)
    paths = [entry.path for entry in entries if first <= entry.log_id <= last]
    return tuple(path for path in paths[:LOOKED_AT] if not _is_there(reader.store, path))


def _is_there(store: Store, uri: str) -> bool:
    """Whether a file is there; True for places that only Spark can look at."""
    place = urlsplit(uri)
    path = unquote(place.path)
    if place.scheme in ("", "file"):
        return Path(path).exists()
    name = unquote(uri[len(store.root) + 1 :]) if uri.startswith(f"{store.root}/") else ""
    # Other names mean different keys to different clients: to doubt them would refuse healthy batches.
    return _PLAIN.fullmatch(name) is None or store.identity(f"{store.root}/{name}") is not None


def _table(store: Store, path: str, start: DeltaOffset | None, *, whole: bool) -> TableSourceFacts:
    from deltalake.exceptions import DeltaError

    try:
        table = open_table(path)
    except DeltaError:
        # Its newest commits are missing or damaged.
        return TableSourceFacts(missing=(-1 if start is None else start.version,))
    if table is None:
        return TableSourceFacts()
    facts = TableSourceFacts(str(table.metadata().id), table.version())
    if start is None or start.table_id != facts.table_id:
        return facts
    if start.is_snapshot:
        return replace(facts, missing=() if _has_version(table, start.version) else (start.version,))
    looked_at = range(start.version, facts.version + 1)[: None if whole else VERSIONS_LOOKED_AT]
    commits = {v: store.read(f"{path}/_delta_log/{v:020}.json") for v in looked_at}
    missing = tuple(version for version, content in commits.items() if content is None)
    files = list(_added_files(content for content in commits.values() if content is not None))
    plain = [file for file in files[: None if whole else LOOKED_AT] if _PLAIN.fullmatch(file)]
    with ThreadPoolExecutor(LOOKS_AT_ONCE) as threads:
        there = threads.map(lambda file: store.identity(f"{path}/{file}") is not None, plain)
        gone = tuple(file for file, is_there in zip(plain, there, strict=True) if not is_there)
    return replace(facts, missing=missing, missing_files=gone)


def _has_version(table: DeltaTable, version: int) -> bool:
    from deltalake.exceptions import DeltaError

    try:
        table.load_as_version(version)
    except DeltaError:
        return False
    return True


def _added_files(commits: Iterable[bytes]) -> Iterator[str]:
    """Data files that commits add, as the log writes them: relative and percent-encoded."""
    for content in commits:
        for line in content.splitlines():
            action: dict[str, Any] = json.loads(line)
            add = action.get("add")
            # What a commit only moved (OPTIMIZE) a stream does not read.
            if add is not None and add.get("dataChange", True):
                yield str(add["path"])
