"""Gather the facts of the source from storage: its log in the checkpoint, and the table or files it reads."""

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

# Maximum number of files whose existence is checked, of the batch to repeat and of the versions to read. Each
# check is one request to an object store. A sample is enough: VACUUM or a clean-up that removes files rarely
# spares exactly these.
LOOKED_AT = 50

# Number of versions of a table, from the next one on, whose log file and data files are checked.
VERSIONS_LOOKED_AT = 10

# Concurrent requests, to hide an object store's latency.
LOOKS_AT_ONCE = 8

# Names that every client of a store maps to the same object. URIs and absolute paths do not match.
_PLAIN = re.compile(r"[A-Za-z0-9_.=-][A-Za-z0-9_.=/-]*")


@dataclass(frozen=True)
class ReadSince:
    """The records that were read after a batch and must be read again.

    Args:
        reader: The checkpoint that records what was read.
        batch_id: The newest batch whose rows are undone.
    """

    reader: CheckpointReader
    batch_id: int


def gather_source(
    facts: CheckpointFacts,
    reader: CheckpointReader,
    pipeline: Pipeline,
    read_since: ReadSince | None = None,
) -> CheckpointFacts:
    """Return the facts with those of the source, or of each source if there are several streams.

    Args:
        facts: Facts of the checkpoint.
        reader: The checkpoint.
        pipeline: Pipeline that is to continue from the checkpoint.
        read_since: Records that must be read again, all of which are checked. If None, a sample of the next
            records is checked.
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
    """Gather the facts of one stream's source; `facts` and `pipeline` are narrowed to that stream."""
    # A source that is used twice has a folder for each use.
    folders = source_names(reader.path, reader.files)
    log = facts.stream in folders if facts.stream else bool(folders)
    # The source's own log decides the beginning only if no finished batch has read the stream.
    begins = not facts.has_begun and pipeline.spec.source.is_kafka
    initial = _begins_at(facts, reader) if begins else None
    missing = _missing_files(facts, reader)
    if read_since is not None:
        missing = _missing_since(facts, reader, read_since)
        if begins and initial is None and _end_since(facts, read_since) is not None:
            # The stream was added in another generation. It would begin as declared, perhaps after rows that
            # are undone.
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
    """Return the first offset that is read from the broker; a warm start reads older ones elsewhere."""
    warm = read_warm_start(reader.store, reader.path)
    return reader.batches.initial_offset(_folder(facts)) if warm is None else warm.join


def _with_archive(source: SourceFacts, facts: CheckpointFacts, pipeline: Pipeline) -> SourceFacts:
    """Add the archived files of a stream that has read none; after a reset, they are back in the folder."""
    files = pipeline.spec.source.files
    if files is None or facts.has_begun or why_no_place(pipeline.layout, files.path):
        return source
    stored = stored_files(pipeline.layout, files.path)
    if stored is None:
        return source
    only = tuple(sorted(stored.archived.keys() - stored.there.keys()))
    return replace(source, archived=only, in_the_way=tuple(stored.in_the_way))


def _folder(facts: CheckpointFacts) -> str:
    """Return the name of the stream's folder below `sources/`."""
    return facts.stream or "0"


def _missing_since(facts: CheckpointFacts, reader: CheckpointReader, since: ReadSince) -> tuple[str, ...]:
    """Return the missing files whose rows are undone."""
    until, last = file_log_id(_end_since(facts, since)), file_log_id(facts.end_of(facts.committed))
    if facts.stream and not facts.has_begun:
        # The stream was added since, so all its files are read again.
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
    """Return the stream's end offset of the newest batch that is undone."""
    newest = since.reader.offsets(since.batch_id)
    ends = {} if newest is None else newest.ends
    return ends.get(facts.stream) if facts.stream else next(iter(ends.values()), None)


def _gone(store: Store, paths: Sequence[str]) -> tuple[str, ...]:
    with ThreadPoolExecutor(LOOKS_AT_ONCE) as threads:
        there = list(threads.map(partial(is_there, store), paths))
    return tuple(path for path, is_there in zip(paths, there, strict=True) if not is_there)


def _missing_files(facts: CheckpointFacts, reader: CheckpointReader) -> tuple[str, ...]:
    """Return what the batch to repeat cannot read: missing entries of the source's log, or missing files."""
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
    """Return True if a file exists, or if only Spark could check it."""
    place = urlsplit(uri)
    path = unquote(place.path)
    if place.scheme in ("", "file"):
        return Path(path).exists()
    name = unquote(uri[len(store.root) + 1 :]) if uri.startswith(f"{store.root}/") else ""
    # Clients map other names to different keys, so a check could refuse healthy batches.
    return _PLAIN.fullmatch(name) is None or store.identity(f"{store.root}/{name}") is not None


@dataclass(frozen=True)
class _Look:
    """Options of a table check.

    Args:
        changes: True if the pipeline reads the table's change feed.
        whole: True if all the next versions are checked, False for a sample.
    """

    changes: bool
    whole: bool


def _table(store: Store, path: str, start: DeltaOffset | None, look: _Look) -> TableSourceFacts:
    from deltalake.exceptions import DeltaError

    try:
        table = open_table(path)
    except DeltaError:
        # The newest commits of the table are missing or damaged.
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
    """Yield the data files that commits add, as the log writes them: relative and percent-encoded."""
    for content in commits:
        yield from changed_paths(content, "add")


def _changed_files(commits: Iterable[bytes]) -> Iterator[str]:
    """Yield the files of a change feed: a commit's change files, or else all files that it touched."""
    for content in commits:
        kept = list(changed_paths(content, "cdc"))
        yield from kept or [*changed_paths(content, "add"), *changed_paths(content, "remove")]
