"""Gathering the gate's facts from storage. Reads only; asks no broker and starts no JVM."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar

from tidemill.checkpoint.current import Current, read_history
from tidemill.checkpoint.gate.checksum import checksum_matches
from tidemill.checkpoint.gate.facts import (
    BatchLog,
    CheckpointFacts,
    Declared,
    DriverFacts,
    StateFacts,
    TableFacts,
)
from tidemill.checkpoint.gate.source_facts import ReadSince, gather_source
from tidemill.checkpoint.gate.tables import (
    COMPARED_BATCHES,
    Begins,
    OpenTable,
    Reader,
    as_of,
    table_facts,
)
from tidemill.checkpoint.reading.log_files import CommitsFile, OffsetsFile
from tidemill.checkpoint.reading.reader import CheckpointReader
from tidemill.checkpoint.status import read_status
from tidemill.errors import DataError, GateRefusedError
from tidemill.ledger.code import code_of
from tidemill.ledger.entry import Positions
from tidemill.ledger.read import History, open_table
from tidemill.ledger.shape import shape_of
from tidemill.names import SOURCE_NAME, transaction_id
from tidemill.spec.project import Pipeline
from tidemill.spec.sinks import DeltaSink
from tidemill.storage.store import Store

Found = TypeVar("Found")

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
    batch has begun or ended meanwhile, they are read again; beside a fast one, as of a finished batch.

    Raises:
        GateRefusedError: TIDE-CKPT-006, if the state folder is another pipeline's.
    """
    for _ in range(ATTEMPTS_BESIDE_A_STREAM):
        facts = _gather(store, pipeline, generation)
        if not _has_moved(store, pipeline, facts):
            return facts
    return gather_settled(store, pipeline, generation)


def gather_settled(store: Store, pipeline: Pipeline, generation: str) -> CheckpointFacts:
    """The same as of the newest finished batch: a stream that goes on meanwhile changes nothing of that.

    What belongs to a finished batch is on storage before its `commits/N`, which is looked for first.
    """
    reader = CheckpointReader(store, pipeline.layout.checkpoint(pipeline.name, generation))
    finished = reader.batches.last_committed()
    facts = gather_source(_read(reader, pipeline, generation, until=_number(finished)), reader, pipeline)
    facts = _with_tables(store, pipeline, facts)
    tables = {name: as_of(found, finished) for name, found in facts.tables.items()}
    asides = {name: as_of(found, finished) for name, found in facts.asides.items()}
    return replace(facts, tables=tables, asides=asides, last_driver=None)


def _number(batch_id: int | None) -> int:
    return -1 if batch_id is None else batch_id


def _has_moved(store: Store, pipeline: Pipeline, facts: CheckpointFacts) -> bool:
    path = pipeline.layout.checkpoint(pipeline.name, facts.generation)
    newest = (("offsets", facts.planned), ("commits", facts.committed))
    following = (f"{path}/{folder}/{0 if last is None else last + 1}" for folder, last in newest)
    return any(store.identity(name) is not None for name in following)


def _gather(store: Store, pipeline: Pipeline, generation: str) -> CheckpointFacts:
    reader = CheckpointReader(store, pipeline.layout.checkpoint(pipeline.name, generation))
    return _with_tables(store, pipeline, gather_source(_read(reader, pipeline, generation), reader, pipeline))


def _with_tables(store: Store, pipeline: Pipeline, facts: CheckpointFacts) -> CheckpointFacts:
    """The facts with what tables and drivers say."""
    record = _record(store, pipeline, facts.generation)
    return replace(
        facts,
        base=record.base,
        accepted=record.accepted,
        tables=_tables(pipeline, record, facts),
        asides=_asides(pipeline, record),
        last_driver=_last_driver(store, pipeline),
        told_batch=_told_batch(store, pipeline, facts.generation),
    )


def gather_alone(reader: CheckpointReader, pipeline: Pipeline, generation: str) -> CheckpointFacts:
    """What one checkpoint and its source say, without tables, and without what drivers have told."""
    return gather_source(_read(reader, pipeline, generation), reader, pipeline)


def gather_cut(
    reader: CheckpointReader, pipeline: Pipeline, batch_id: int, read_since: ReadSince | None = None
) -> CheckpointFacts:
    """What a copy of a checkpoint would say that ends with a batch, and whether its source has what follows.

    Without tables, and without what drivers have told.

    Args:
        reader: The checkpoint, which holds the batch.
        pipeline: What is to go on from there.
        batch_id: Last one that stays.
        read_since: What must be there to be read again.
    """
    facts = _read(reader, pipeline, reader.path.rpartition("/")[2], until=batch_id)
    # A copy gets a query id of its own.
    damaged = {name: reason for name, reason in facts.damaged.items() if name != "metadata"}
    facts = replace(facts, query_id="", damaged=damaged)
    return gather_source(facts, reader, pipeline, read_since)


def _read(
    reader: CheckpointReader, pipeline: Pipeline, generation: str, until: int | None = None
) -> CheckpointFacts:
    """What the checkpoint's own files say."""
    damaged: dict[str, str] = {}
    offsets, commits = _log(reader, "offsets", until), _log(reader, "commits", until)
    planned = _planned_batches(reader, offsets, damaged)
    newest_commit = _newest_commit(reader, commits, damaged)
    state = _state(reader, offsets.last, newest_commit, damaged)
    return CheckpointFacts(
        pipeline.name,
        generation,
        declared_by(pipeline),
        query_id=_unless_torn(lambda: reader.query_id, "metadata", damaged),
        offsets=offsets,
        commits=commits,
        planned_batches=planned,
        newest_commit=newest_commit,
        damaged=damaged,
        state=state if until is None else replace(state, left_behind=()),
    )


def declared_by(pipeline: Pipeline) -> Declared:
    """What the pipeline's files say that a checkpoint depends on."""
    whole = Declared(shape_of(pipeline.spec), code=code_of(pipeline).digest)
    streams = {
        name: replace(whole, shape=shape_of(stream.spec), topics=_named_topics(stream))
        for name, stream in pipeline.streams.items()
    }
    if pipeline.spec.has_named_streams:
        return replace(whole, streams=streams)
    return streams[SOURCE_NAME]


def _record(store: Store, pipeline: Pipeline, generation: str) -> Current:
    """The newest record of a generation; one that none names began by itself."""
    records = read_history(store, pipeline.layout, pipeline.name)
    unknown = Current(pipeline=pipeline.name, generation=generation, why="")
    return next((record for record in records if record.generation == generation), unknown)


def _log(reader: CheckpointReader, name: str, until: int | None = None) -> BatchLog:
    prefix = f"{name}/"
    files = {path[len(prefix) :]: file for path, file in reader.names.items() if path.startswith(prefix)}
    batches = [file for file in files if file.isdecimal() and str(int(file)) == file]
    strays = sorted(file for file in files if _NUMBER.fullmatch(file) and file not in set(batches))
    twins = (match[1] for file in files if (match := re.fullmatch(r"\.(\d+)\.crc", file)))
    numbers = sorted(number for number in map(int, batches) if until is None or number <= until)
    return BatchLog(
        tuple(numbers),
        tuple(strays),
        () if until is not None else tuple(sorted(int(n) for n in twins if n not in files)),
        tuple(number for number in numbers if files[str(number)].size == 0),
    )


def _planned_batches(
    reader: CheckpointReader, log: BatchLog, damaged: dict[str, str]
) -> dict[int, OffsetsFile]:
    found: dict[int, OffsetsFile] = {}
    for number in log.numbers[-COMPARED_BATCHES:]:
        file = _unless_torn(partial(reader.offsets, number), f"offsets/{number}", damaged)
        _check_twin(reader, "offsets", number, damaged)
        if file is not None:
            before = found.get(number - 1)
            # No stream is ever taken away, so what lacks one was cut between two.
            if before is not None and file.is_named and before.ends.keys() - file.ends.keys():
                damaged.setdefault(f"offsets/{number}", "it lacks a stream that the batch before it has")
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


def _tables(pipeline: Pipeline, record: Current, facts: CheckpointFacts) -> dict[str, TableFacts]:
    begins = _begins(pipeline, facts)

    def look(sink: DeltaSink) -> TableFacts:
        begins_at = begins if sink.mode == "append" else None
        return _table(pipeline.layout.table(sink.table), _reader(record, sink.table, begins_at))

    sinks = pipeline.spec.delta_sinks
    with ThreadPoolExecutor(TABLES_AT_ONCE) as threads:
        return dict(zip((sink.table for sink in sinks), threads.map(look, sinks), strict=True))


def _asides(pipeline: Pipeline, record: Current) -> dict[str, TableFacts]:
    return {
        output: _table(pipeline.layout.aside(output, pipeline.name), _reader(record, output))
        for output in pipeline.spec.asides
    }


def _reader(record: Current, output: str, begins: Begins | None = None) -> Reader:
    tables = {} if record.base is None else record.base.tables
    began = tables.get(output)
    began_at = -1 if began is None else began.version
    return Reader(record.generation, record.side, output, began_at, begins)


def _table(path: str, reader: Reader) -> TableFacts:
    from deltalake.exceptions import DeltaError

    try:
        table = open_table(path)
        if table is None:
            return table_facts((), OpenTable(), reader)
        app_id = transaction_id(reader.side.pipeline, reader.generation, reader.output)
        opened = OpenTable(str(table.metadata().id), table.transaction_version(app_id))
        return table_facts(History(path, table), opened, reader)
    except DeltaError as error:
        return TableFacts(unreadable=str(error).partition("\n")[0])
    except DataError as error:
        return TableFacts(unreadable=str(error.facts["reason"]))


def _begins(pipeline: Pipeline, facts: CheckpointFacts) -> Begins | None:
    """Where a first start begins to append; None for the end.

    A checkpoint begins where it was born, whatever is declared by now. A moment counts as the beginning:
    where it lies, only the broker knows.
    """
    begins: Positions = {}
    for stream in facts.each_stream():
        source = pipeline.streams[stream.stream or SOURCE_NAME].spec.source
        start = (stream.source.initial or source.chosen.starting_offsets) if source.is_kafka else "earliest"
        if isinstance(start, dict):
            begins |= {topic: {str(p): offset for p, offset in ps.items()} for topic, ps in start.items()}
        elif start != "latest":
            return "earliest"
    return begins or None


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
