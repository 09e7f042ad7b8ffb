"""What storage says of the source: its log in the checkpoint, the table or the files that it reads."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from tidemill.checkpoint.cleaning.stored import stored_files
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
from tidemill.checkpoint.warm_start import read_warm_start
from tidemill.ledger.commit_files import changed_paths
from tidemill.ledger.read import open_table
from tidemill.names import SOURCE_NAME
from tidemill.spec.files_after import why_no_place
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
    """The facts with what storage says of the source, or of each of several.

    Args:
        facts: What the checkpoint says.
        reader: The checkpoint.
        pipeline: What is to go on from it.
        read_since: What must be read again: all of it is looked for, else a sample of what comes next.
    """
    found = {
        stream.stream: _gather_stream(
            stream, reader, pipeline.streams[stream.stream or SOURCE_NAME], read_since
        )
        for stream in facts.each_stream()
    }
    return replace(facts, source=found[""]) if "" in found else replace(facts, sources=found)


def _gather_stream(
    facts: CheckpointFacts, reader: CheckpointReader, pipeline: Pipeline, read_since: ReadSince | None
) -> SourceFacts:
    """The same for one stream: facts, pipeline and result are of no other one."""
    # A source that is used twice has a folder for each use.
    folders = source_names(reader.path, reader.files)
    log = facts.stream in folders if facts.stream else bool(folders)
    # Only a stream that no finished batch has read begins where the source's own log says.
    begins = not facts.has_begun and pipeline.spec.source.is_kafka
    initial = _begins_at(facts, reader) if begins else None
    missing = _missing_files(facts, reader)
    if read_since is not None:
        missing = _missing_since(facts, reader, read_since)
        if begins and initial is None and _end_since(facts, read_since) is not None:
            # Added in another generation: it would begin as declared, perhaps after rows that are taken back.
            missing = (f"sources/{_folder(facts)}/0",)
    source = _with_archive(SourceFacts(log, initial, missing=missing), facts, pipeline)
    delta = pipeline.spec.source.delta
    if delta is None:
        return source
    path = pipeline.layout.table(delta.table)
    next_start = replace(facts, source=source).next_start
    start = parse_delta_offset(next_start) or parse_delta_offset(facts.end_of(facts.planned))
    look = _Look(delta.read_changes, whole=read_since is not None)
    return replace(source, table=_table(reader.store, path, start, look))


def _begins_at(facts: CheckpointFacts, reader: CheckpointReader) -> Any:
    """Where the broker is first needed: what is older of a past, an archive has."""
    warm = read_warm_start(reader.store, reader.path)
    return reader.batches.initial_offset(_folder(facts)) if warm is None else warm.join


def _with_archive(source: SourceFacts, facts: CheckpointFacts, pipeline: Pipeline) -> SourceFacts:
    """The same with archived files of a stream that has read none: after a reset, they are in the folder."""
    files = pipeline.spec.source.files
    if files is None or facts.has_begun or why_no_place(pipeline.layout, files.path):
        return source
    stored = stored_files(pipeline.layout, files.path)
    if stored is None:
        return source
    only = tuple(sorted(stored.archived.keys() - stored.there.keys()))
    return replace(source, archived=only, in_the_way=tuple(stored.in_the_way))


def _folder(facts: CheckpointFacts) -> str:
    """The stream's folder below `sources/`."""
    return facts.stream or "0"


def _missing_since(facts: CheckpointFacts, reader: CheckpointReader, since: ReadSince) -> tuple[str, ...]:
    """Files whose rows are taken back and that are gone."""
    until, last = file_log_id(_end_since(facts, since)), file_log_id(facts.end_of(facts.committed))
    if facts.stream and not facts.has_begun:
        # It was added since: all that was read of it is read again.
        last = -1
    if last is None or until is None:
        return ()
    try:
        readers = (reader, since.reader)
        stays, read = (read_file_log(r.store, r.path, r.files, _folder(facts)) for r in readers)
    except TornFileError as error:
        return (str(error),)
    known = {entry.path for entry in stays if entry.log_id <= last}
    wanted = sorted({entry.path for entry in read if entry.log_id <= until} - known)
    return _gone(since.reader.store, wanted)


def _end_since(facts: CheckpointFacts, since: ReadSince) -> Any:
    """How far the stream was read when the newest rows that are taken back were written."""
    newest = since.reader.offsets(since.batch_id)
    ends = {} if newest is None else newest.ends
    return ends.get(facts.stream) if facts.stream else next(iter(ends.values()), None)


def _gone(store: Store, paths: Sequence[str]) -> tuple[str, ...]:
    with ThreadPoolExecutor(LOOKS_AT_ONCE) as threads:
        there = list(threads.map(partial(is_there, store), paths))
    return tuple(path for path, is_there in zip(paths, there, strict=True) if not is_there)


def _missing_files(facts: CheckpointFacts, reader: CheckpointReader) -> tuple[str, ...]:
    """What the batch to repeat cannot read: entries of the source's log, or files that they name."""
    last = file_log_id(facts.end_of(facts.planned))
    if last is None:
        return ()
    folder = _folder(facts)
    gaps = gaps_in_file_log(reader.path, reader.files, folder)
    if gaps or facts.planned == facts.committed:
        return tuple(f"sources/{folder}/{number}" for number in gaps if number <= last)
    before = file_log_id(facts.end_of(facts.committed))
    first = 0 if before is None else before + 1
    prefix = f"{reader.path}/sources/{folder}/"
    wanted = {f"{prefix}{number}{end}" for number in range(first, last + 1) for end in ("", ".compact")}
    try:
        files = [file for file in reader.files if file.path in wanted]
        entries = read_file_log(reader.store, reader.path, files, folder)
    except TornFileError as error:
        return (str(error),)
    paths = [entry.path for entry in entries if first <= entry.log_id <= last]
    return tuple(path for path in paths[:LOOKED_AT] if not is_there(reader.store, path))


def is_there(store: Store, uri: str) -> bool:
    """Whether a file is there; True for places that only Spark can look at."""
    place = urlsplit(uri)
    path = unquote(place.path)
    if place.scheme in ("", "file"):
        return Path(path).exists()
    name = unquote(uri[len(store.root) + 1 :]) if uri.startswith(f"{store.root}/") else ""
    # Other names mean different keys to different clients: to doubt them would refuse healthy batches.
    return _PLAIN.fullmatch(name) is None or store.identity(f"{store.root}/{name}") is not None


@dataclass(frozen=True)
class _Look:
    """How a table is looked at.

    Args:
        changes: Whether the pipeline reads its change feed.
        whole: Whether all is looked for that comes next, else a sample.
    """

    changes: bool
    whole: bool


def _table(store: Store, path: str, start: DeltaOffset | None, look: _Look) -> TableSourceFacts:
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
    looked_at = range(start.version, facts.version + 1)[: None if look.whole else VERSIONS_LOOKED_AT]
    commits = {v: store.read(f"{path}/_delta_log/{v:020}.json") for v in looked_at}
    missing = tuple(version for version, content in commits.items() if content is None)
    read = _changed_files if look.changes else _added_files
    files = list(read(content for content in commits.values() if content is not None))
    plain = [file for file in files[: None if look.whole else LOOKED_AT] if _PLAIN.fullmatch(file)]
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
        yield from changed_paths(content, "add")


def _changed_files(commits: Iterable[bytes]) -> Iterator[str]:
    """Files that a change feed is read from: what a commit kept of its changes, else all that it touched."""
    for content in commits:
        kept = list(changed_paths(content, "cdc"))
        yield from kept or [*changed_paths(content, "add"), *changed_paths(content, "remove")]
