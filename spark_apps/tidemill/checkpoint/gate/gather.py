"""Gather the gate's facts from storage, read-only, without a broker and without a JVM."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, TypeVar

from tidemill.checkpoint.current import Current, read_history
from tidemill.checkpoint.gate.checkpoint_facts import read_checkpoint
from tidemill.checkpoint.gate.facts import (
    CheckpointFacts,
    DriverFacts,
    TableFacts,
)
from tidemill.checkpoint.gate.source_facts import ReadSince, gather_source
from tidemill.checkpoint.gate.tables import (
    Begins,
    OpenTable,
    Reader,
    as_of,
    table_facts,
)
from tidemill.checkpoint.reading.reader import CheckpointReader
from tidemill.checkpoint.status import read_status
from tidemill.checkpoint.upgrade.version import read_version
from tidemill.errors import DataError
from tidemill.ledger.entry import Positions
from tidemill.ledger.read import History, open_table
from tidemill.names import SOURCE_NAME, transaction_id
from tidemill.spec.delta_sink import DeltaSink
from tidemill.spec.project import Pipeline
from tidemill.storage.store import Store

Found = TypeVar("Found")

# Maximum number of tables opened at the same time: enough to hide an object store's latency, and not too many
# for one core.
TABLES_AT_ONCE = 8

# Maximum number of receipts that are searched for the newest batch. A driver that is refused repeatedly is
# held back long before it has left so many.
RECEIPTS_LOOKED_AT = 20

# Number of attempts while the stream runs. One read takes about 70 ms and a batch takes seconds, so the
# second attempt usually sees the same batch.
ATTEMPTS_BESIDE_A_STREAM = 3


def gather_facts(store: Store, pipeline: Pipeline, generation: str) -> CheckpointFacts:
    """Read the checkpoint, the tables' logs and the source's files on storage; write nothing.

    While the stream runs, checkpoint and tables could be read at different moments. If a batch has begun or
    ended during the read, they are read again. For a fast stream, the result is the state after its newest
    finished batch.

    Raises:
        GateRefusedError: TIDE-CKPT-006, if the state folder belongs to another pipeline.
    """
    for _ in range(ATTEMPTS_BESIDE_A_STREAM):
        facts = _gather(store, pipeline, generation)
        if not _has_moved(store, pipeline, facts):
            return facts
    return gather_settled(store, pipeline, generation)


def gather_settled(store: Store, pipeline: Pipeline, generation: str) -> CheckpointFacts:
    """Gather the facts as of the newest finished batch, which a running stream does not change any more.

    All files of a finished batch are on storage before its `commits/N`, and `commits/` is read first.
    """
    reader = CheckpointReader(store, pipeline.layout.checkpoint(pipeline.name, generation))
    finished = reader.batches.last_committed()
    facts = gather_source(
        read_checkpoint(reader, pipeline, generation, until=_number(finished)), reader, pipeline
    )
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
    return _with_tables(
        store, pipeline, gather_source(read_checkpoint(reader, pipeline, generation), reader, pipeline)
    )


def _with_tables(store: Store, pipeline: Pipeline, facts: CheckpointFacts) -> CheckpointFacts:
    """Return the facts with those of the tables and the drivers."""
    record = _record(store, pipeline, facts.generation)
    found = replace(
        facts,
        base=record.base,
        accepted=record.accepted,
        tables=_tables(pipeline, record, facts),
        asides=_asides(pipeline, record),
        last_driver=_last_driver(store, pipeline),
        told_batch=_told_batch(store, pipeline, facts.generation),
    )
    return with_meanings(store, pipeline, found)


def with_meanings(store: Store, pipeline: Pipeline, facts: CheckpointFacts) -> CheckpointFacts:
    """Return the facts with the recorded stateful operators, if the code differs from the newest batch's."""
    if not facts.state.operators or facts.code in ("", facts.declared.code):
        return facts
    meant, means = (
        read_version(store, pipeline.layout.meanings(pipeline.name, code))
        for code in (facts.code, facts.declared.code)
    )
    return replace(facts, meant=meant, means=means)


def gather_alone(reader: CheckpointReader, pipeline: Pipeline, generation: str) -> CheckpointFacts:
    """Gather the facts of one checkpoint and its source, without tables and drivers."""
    return gather_source(read_checkpoint(reader, pipeline, generation), reader, pipeline)


def gather_cut(
    reader: CheckpointReader, pipeline: Pipeline, batch_id: int, read_since: ReadSince | None = None
) -> CheckpointFacts:
    """Gather the facts that a copy of the checkpoint up to `batch_id` would have.

    The result says if the source has the records that follow. It has no facts of tables and drivers.

    Args:
        reader: The checkpoint, which has the batch.
        pipeline: Pipeline that is to continue from there.
        batch_id: Last batch that the copy keeps.
        read_since: Records that must still exist because they are to be read again.
    """
    facts = read_checkpoint(reader, pipeline, reader.path.rpartition("/")[2], until=batch_id)
    # A copy gets a new query id.
    damaged = {name: reason for name, reason in facts.damaged.items() if name != "metadata"}
    facts = replace(facts, query_id="", damaged=damaged)
    return gather_source(facts, reader, pipeline, read_since)


def _record(store: Store, pipeline: Pipeline, generation: str) -> Current:
    """Return the newest record of a generation, or a record without a parent if there is none."""
    records = read_history(store, pipeline.layout, pipeline.name)
    unknown = Current(pipeline=pipeline.name, generation=generation, why="")
    return next((record for record in records if record.generation == generation), unknown)


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
    """Return where a first start begins to append; None if it begins at the end.

    A checkpoint keeps the beginning of its creation, even if the declaration has changed since. A timestamp
    counts as the earliest offset, because only the broker can resolve it.
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
    """Return the last driver's report; an unreadable status counts as none because it is only informative."""
    try:
        status = read_status(store, pipeline.layout, pipeline.name)
    except (DataError, ValueError):
        return None
    if status is None:
        return None
    age = status.age(datetime.now(UTC)).total_seconds()
    return DriverFacts(status.run_id, status.state, status.generation, status.batch_id, age)


def _told_batch(store: Store, pipeline: Pipeline, generation: str) -> int | None:
    """Return the newest batch in the receipts, the only evidence if no table has a ledger.

    Several receipts are read, because a refused driver also leaves one.
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
    """Read a control file; return {} if it is missing or damaged, which does not forbid a start."""
    try:
        return store.read_json(path) or {}
    except DataError:
        return {}
