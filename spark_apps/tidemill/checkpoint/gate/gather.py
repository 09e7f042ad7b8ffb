"""Gathering the gate's facts from storage. Reads only; asks no broker and starts no JVM."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar

from tidemill.checkpoint.current import Base, read_history
from tidemill.checkpoint.gate.checksum import checksum_matches
from tidemill.checkpoint.gate.facts import (
    BatchLog,
    CheckpointFacts,
    Declared,
    DriverFacts,
    StateFacts,
    TableFacts,
)
from tidemill.checkpoint.gate.source_facts import gather_source
from tidemill.checkpoint.gate.tables import COMPARED_BATCHES, Reader, table_facts, was_restored
from tidemill.checkpoint.reading.log_files import CommitsFile, OffsetsFile
from tidemill.checkpoint.reading.reader import CheckpointReader
from tidemill.checkpoint.status import read_status
from tidemill.errors import DataError, GateRefusedError
from tidemill.ledger.read import commits_of, open_table
from tidemill.ledger.shape import shape_of
from tidemill.names import QUARANTINE_OUTPUT, transaction_id
from tidemill.spec.project import Pipeline
from tidemill.spec.sinks import DeltaSink
from tidemill.storage.store import Store

Found = TypeVar("Found")

# Commits looked at to find this generation's newest ledger entry. Maintenance commits stand between two
# batches at most; a table that other tools wrote more often since is compared by transaction version only.
# A RESTORE among them makes the gate read the whole log.
LEDGER_LOOK_BACK = 50

# Tables opened at the same time: enough to hide the waits of an object store, few enough for one core.
TABLES_AT_ONCE = 8

# Receipts looked at for the newest batch; a driver that is refused again and again is held back long before.
RECEIPTS_LOOKED_AT = 20

# A look takes some 70 ms, a batch as a rule seconds: a second look meets the same batch.
ATTEMPTS_BESIDE_A_STREAM = 3

# What java.lang.Long.parseLong takes, and so Spark: names that it never writes itself are no batch of ours.
_NUMBER = re.compile(r"[+-]?\d+")


def gather_facts(store: Store, pipeline: Pipeline, generation: str) -> CheckpointFacts:
    """Read the checkpoint, the tables' logs and what the source keeps on storage; writes nothing.

    Beside a live stream (the doctor, a person) checkpoint and tables would be of different moments: if a
    batch has begun or ended meanwhile, they are read again.

    Raises:
        GateRefusedError: TIDE-CKPT-006, if the state folder is another pipeline's.
    """
    for _ in range(ATTEMPTS_BESIDE_A_STREAM):
        facts = _gather(store, pipeline, generation)
        if not _has_moved(store, pipeline, facts):
            break
    return facts


def _has_moved(store: Store, pipeline: Pipeline, facts: CheckpointFacts) -> bool:
    path = pipeline.layout.checkpoint(pipeline.name, facts.generation)
    newest = (("offsets", facts.planned), ("commits", facts.committed))
    following = (f"{path}/{folder}/{0 if last is None else last + 1}" for folder, last in newest)
    return any(store.identity(name) is not None for name in following)


def _gather(store: Store, pipeline: Pipeline, generation: str) -> CheckpointFacts:
    reader = CheckpointReader(store, pipeline.layout.checkpoint(pipeline.name, generation))
    base = _base(store, pipeline, generation)
    damaged: dict[str, str] = {}
    offsets, commits = _log(reader, "offsets"), _log(reader, "commits")
    planned = _planned_batches(reader, offsets, damaged)
    newest_commit = _newest_commit(reader, commits, damaged)
    query_id = _unless_torn(lambda: reader.query_id, "metadata", damaged)
    facts = CheckpointFacts(
        pipeline.name,
        generation,
        Declared(shape_of(pipeline.spec), _named_topics(pipeline)),
        base,
        query_id,
        offsets,
        commits,
        planned,
        newest_commit,
        damaged,
        _state(reader, offsets.last, newest_commit, damaged),
        tables=_tables(pipeline, generation, base),
        quarantine=_quarantine(pipeline, generation, base),
        last_driver=_last_driver(store, pipeline),
        told_batch=_told_batch(store, pipeline, generation),
    )
    return gather_source(facts, reader, pipeline)


def _base(store: Store, pipeline: Pipeline, generation: str) -> Base | None:
    records = read_history(store, pipeline.layout, pipeline.name)
    return next((record.base for record in records if record.generation == generation), None)


def _log(reader: CheckpointReader, name: str) -> BatchLog:
    prefix = f"{name}/"
    files = {path[len(prefix) :]: file for path, file in reader.names.items() if path.startswith(prefix)}
    batches = [file for file in files if file.isdecimal() and str(int(file)) == file]
    strays = sorted(file for file in files if _NUMBER.fullmatch(file) and file not in set(batches))
    twins = (match[1] for file in files if (match := re.fullmatch(r"\.(\d+)\.crc", file)))
    return BatchLog(
        tuple(sorted(map(int, batches))),
        tuple(strays),
        tuple(sorted(int(number) for number in twins if number not in files)),
        tuple(sorted(int(file) for file in batches if files[file].size == 0)),
    )


def _planned_batches(
    reader: CheckpointReader, log: BatchLog, damaged: dict[str, str]
) -> dict[int, OffsetsFile]:
    found = {}
    for number in log.numbers[-COMPARED_BATCHES:]:
        file = _unless_torn(partial(reader.offsets, number), f"offsets/{number}", damaged)
        _check_twin(reader, "offsets", number, damaged)
        if file is not None:
            found[number] = file
    return found


def _newest_commit(reader: CheckpointReader, log: BatchLog, damaged: dict[str, str]) -> CommitsFile | None:
    if log.last is None:
        return None
    _check_twin(reader, "commits", log.last, damaged)
    return _unless_torn(partial(reader.commits, log.last), f"commits/{log.last}", damaged)


def _unless_torn(read: Callable[[], Found | None], name: str, damaged: dict[str, str]) -> Found | None:
    try:
        return read()
    except GateRefusedError as error:
        damaged[name] = str(error.__cause__ or error.problem)
        return None


def _check_twin(reader: CheckpointReader, folder: str, number: int, damaged: dict[str, str]) -> None:
    twin = f"{folder}/.{number}.crc"
    if twin not in reader.names:
        return
    content = reader.store.read(f"{reader.path}/{folder}/{number}")
    sums = reader.store.read(f"{reader.path}/{twin}")
    # Purged since the listing: then it is not among the newest any more.
    if content is not None and sums is not None and not checksum_matches(content, sums):
        damaged.setdefault(f"{folder}/{number}", f"it does not match its checksum file .{number}.crc")


def _state(
    reader: CheckpointReader, planned: int | None, newest: CommitsFile | None, damaged: dict[str, str]
) -> StateFacts:
    """Batch N loads version N and writes version N + 1."""
    keys = reader.state.keys
    operators = {key.operator for key in keys} | set(newest.state_ids if newest is not None else ())
    if not operators:
        return StateFacts()
    version = 0 if newest is None else newest.batch_id + 1
    problems = _unless_torn(partial(reader.state_problems, version), f"commits/{version - 1}", damaged)
    missing = [problem.what for problem in problems or ()]
    if newest is not None:
        there = {(key.operator, key.partition) for key in keys}
        wanted = ((op, place) for op, places in newest.state_ids.items() for place in range(len(places)))
        missing += [f"state/{op}/{place} is missing" for op, place in wanted if (op, place) not in there]
    newest_possible = 0 if planned is None else planned + 1
    left_behind = [
        f"{key}/{version}"
        for key, files in reader.state.stores.items()
        for version in files.versions
        if version > newest_possible
    ]
    return StateFacts(tuple(sorted(operators)), version, tuple(missing), tuple(left_behind))


def _tables(pipeline: Pipeline, generation: str, base: Base | None) -> dict[str, TableFacts]:
    def look(sink: DeltaSink) -> TableFacts:
        repeats = _appends_from_the_beginning(pipeline, sink)
        reader = Reader(pipeline.name, generation, sink.table, base, repeats)
        return _table(pipeline.layout.table(sink.table), reader)

    sinks = pipeline.spec.delta_sinks
    with ThreadPoolExecutor(TABLES_AT_ONCE) as threads:
        return dict(zip((sink.table for sink in sinks), threads.map(look, sinks), strict=True))


def _quarantine(pipeline: Pipeline, generation: str, base: Base | None) -> TableFacts:
    if pipeline.spec.payload is None:
        return TableFacts()
    reader = Reader(pipeline.name, generation, QUARANTINE_OUTPUT, base)
    return _table(pipeline.layout.quarantine(pipeline.name), reader)


def _table(path: str, reader: Reader) -> TableFacts:
    from deltalake.exceptions import DeltaError

    try:
        table = open_table(path)
        commits = [] if table is None else commits_of(table, LEDGER_LOOK_BACK)
        if table is not None and was_restored(commits):
            commits = commits_of(table)
    except DeltaError as error:
        return TableFacts(unreadable=str(error).partition("\n")[0])
    if table is None:
        return table_facts((), None, reader)
    app_id = transaction_id(reader.pipeline, reader.generation, reader.output)
    return table_facts(commits, table.transaction_version(app_id), reader)


def _appends_from_the_beginning(pipeline: Pipeline, sink: DeltaSink) -> bool:
    source = pipeline.spec.source
    start = source.chosen.starting_offsets if source.is_kafka else "earliest"
    return sink.mode == "append" and start == "earliest"


def _last_driver(store: Store, pipeline: Pipeline) -> DriverFacts | None:
    """A status is a help: one that cannot be read is none."""
    try:
        status = read_status(store, pipeline.layout, pipeline.name)
    except (DataError, ValueError):
        return None
    if status is None:
        return None
    age = status.age(datetime.now(UTC)).total_seconds()
    return DriverFacts(status.run_id, status.state, status.generation, status.batch_id, age)


def _told_batch(store: Store, pipeline: Pipeline, generation: str) -> int | None:
    """Newest batch that receipts tell of: all there is to compare where no table has a ledger.

    Several are read, because a driver that is refused leaves one, too.
    """
    if pipeline.spec.delta_sinks:
        return None
    folder = pipeline.layout.receipts(pipeline.name)
    names = store.list_names(folder)[-RECEIPTS_LOOKED_AT:]
    receipts = (_readable(store, f"{folder}/{name}") for name in names)
    mine = (receipt for receipt in receipts if receipt.get("generation") == generation)
    batches = (receipt.get("batch_id") for receipt in mine)
    return max((number for number in batches if isinstance(number, int)), default=None)


def _readable(store: Store, path: str) -> dict[str, Any]:
    """A control file; empty if it is gone or damaged, which is no reason to refuse."""
    try:
        return store.read_json(path) or {}
    except DataError:
        return {}


def _named_topics(pipeline: Pipeline) -> frozenset[str]:
    topics: Iterable[str] | re.Pattern[str] = pipeline.spec.source.topics_or_pattern
    return frozenset() if isinstance(topics, re.Pattern) else frozenset(topics)
