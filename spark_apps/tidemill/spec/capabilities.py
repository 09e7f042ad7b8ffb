"""Supported combinations: source x runtime x run x trigger x sink x mode.

`validate`, `plan`, the drivers and conf/README.md share this table. A new source or sink has a line in
SOURCES or SINKS, and a line in REFUSALS for each unsupported combination.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from tidemill.spec.refusal import Cell, Refusal
from tidemill.spec.without_batches import NEEDS_BATCHES, ONE_SINK, REFUSED_WITHOUT_BATCHES

OutputMode = Literal["append", "update", "complete"]


@dataclass(frozen=True)
class SourceFacts:
    """Properties of a kind of source.

    Args:
        promise: Data that a repeated batch reads.
        replayable: True if a batch can be read again. Otherwise each start begins a new generation.
        has_past: True if a backfill can read it.
        has_records: True if it returns undecoded records, which `payload` decodes.
        as_table: True if it can be joined as a whole.
    """

    promise: str
    replayable: bool = True
    has_past: bool = True
    has_records: bool = False
    as_table: bool = False


@dataclass(frozen=True)
class SinkFacts:
    """Properties of a kind of sink.

    Args:
        modes: Supported values of its `mode`.
        promise: Delivery guarantee over crashes.
        backfilled: True if a backfill writes it again.
    """

    modes: tuple[str, ...]
    promise: str
    backfilled: bool = False


@dataclass(frozen=True)
class TriggerFacts:
    """Properties of a kind of trigger.

    Args:
        written: Its form in `run.trigger`.
        run: The `run.mode` that supports it.
        what: Description of its batches.
    """

    written: str
    run: str
    what: str


SOURCES: Mapping[str, SourceFacts] = {
    "kafka": SourceFacts("the same records, as long as the broker keeps them", has_records=True),
    "eventhubs": SourceFacts("the same events, as long as the hub keeps them", has_records=True),
    "iothub": SourceFacts("the same messages, as long as the hub keeps them", has_records=True),
    "files": SourceFacts("the same files", has_records=True, as_table=True),
    "delta": SourceFacts("the same versions, as long as the table keeps them", as_table=True),
    "rate": SourceFacts("the same rows, generated again", has_past=False),
    "rate_per_batch": SourceFacts("the same rows, generated again", has_past=False),
    "socket": SourceFacts("nothing, because sent lines are lost", replayable=False, has_past=False),
}

_ANY_MODE = ("append", "update", "complete")

SINKS: Mapping[str, SinkFacts] = {
    "delta": SinkFacts(("append", "merge", "replace", "scd1", "scd2"), "exactly once", backfilled=True),
    "files": SinkFacts(
        ("append",),
        "exactly once for readers that use Spark's log of the folder. Readers that list its files can see a "
        "part of a batch, and rows twice after a crash. Rows are never removed",
    ),
    "kafka": SinkFacts(_ANY_MODE, "at least once: a batch that is repeated after a crash is sent again"),
    "foreach_batch": SinkFacts(
        _ANY_MODE,
        "at least once: a repeated batch calls the function again with the same token. Exactly once if the "
        "function stores the token in the transaction of its rows",
    ),
    "foreach": SinkFacts(
        _ANY_MODE,
        "at least once: a repeated batch passes its rows again with the same number, possibly in other "
        "partitions. Exactly once if the writer replaces rows by key",
    ),
    "postgres": SinkFacts(
        ("append", "update"),
        "exactly once, by key: the rows and the number of their batch are in one transaction. After a rewind "
        "or a reset, rows that are read again replace their rows, and rows of other keys stay",
    ),
    "console": SinkFacts(_ANY_MODE, "at least once: a batch that is repeated after a crash is printed again"),
    "memory": SinkFacts(
        _ANY_MODE,
        "once in this driver's memory. The table is lost with the driver, and a restart begins empty",
    ),
}

TRIGGERS: Mapping[str, TriggerFacts] = {
    "interval": TriggerFacts(
        "`10 seconds`", "stream", "Spark's processingTime; `0 seconds` is as fast as possible"
    ),
    "available_now": TriggerFacts(
        "`available_now`", "incremental", "all available data in batches of the source's limits; then it ends"
    ),
    "once": TriggerFacts(
        "`once`",
        "incremental",
        "one batch without the source's limits; then it ends. It is deprecated in Spark: a large backlog is "
        "one large batch, and after a crash the run only repeats the old batch. available_now avoids both",
    ),
    "continuous": TriggerFacts(
        "`{continuous: 1 second}`",
        "stream",
        "no batches: each row is written as it arrives, at least once, and the source's offsets are "
        "committed to the checkpoint every second. No ledger and no quarantine. Needs one core for each "
        "partition of the source",
    ),
    "real_time": TriggerFacts(
        "`{real_time: 5 minutes}`",
        "stream",
        "each row is written as it arrives, at least once, in batches of 5 minutes, and the source's offsets "
        "are committed to the checkpoint at the end of each batch. No ledger and no quarantine. Needs one "
        "core for each partition of the source",
    ),
}


def _set(*values: str) -> frozenset[str]:
    return frozenset(values)


REFUSALS = (
    Refusal(
        "TIDE-MODE-001",
        "a socket on Kubernetes",
        "A socket is for trying out on one machine: it keeps nothing, and a driver's pod moves.",
        "run it with `runtime: local`; else send the lines to a topic, or put them into a folder as files",
        runtime=_set("kubernetes"),
        source=_set("socket"),
    ),
    Refusal(
        "TIDE-MODE-002",
        "a socket into a sink that keeps rows",
        "A socket cannot be read again, so a repeated batch has other rows, and rows are lost with each "
        "restart: nothing can be promised of what is kept.",
        "use `console: {}` or `memory`; or send the lines to a topic, and read that",
        source=_set("socket"),
        sink=_set("delta", "files", "kafka", "foreach", "foreach_batch", "postgres"),
    ),
    Refusal(
        "TIDE-MODE-003",
        "a socket in mode incremental",
        "An incremental run reads what is there, and a socket keeps nothing that could be there.",
        "use `mode: stream`, or a topic or a folder as the source",
        source=_set("socket"),
        run=_set("incremental"),
    ),
    Refusal(
        "TIDE-MODE-004",
        "a sink `memory` on Kubernetes",
        "A table in a driver's memory is for tests and for trying out on one machine: in a pod it cannot "
        "be reached.",
        "write a table: `delta: {table: gold/name, mode: replace}`; read it by "
        "`tidemill query 'SELECT * FROM gold.name'`",
        runtime=_set("kubernetes"),
        sink=_set("memory"),
    ),
    Refusal(
        "TIDE-MODE-005",
        "Spark's mode update into a table",
        "A table cannot be written in Spark's mode update: its rows would be added, and old values stay.",
        "write `mode: merge` and `key: [...]`: a row then replaces the one with the same key",
        sink=_set("delta"),
        mode=_set("update"),
    ),
    Refusal(
        "TIDE-MODE-006",
        "Spark's mode complete into a table",
        "A table that each batch writes as a whole has a name of its own here.",
        "write `mode: replace`",
        sink=_set("delta"),
        mode=_set("complete"),
    ),
    Refusal(
        "TIDE-MODE-007",
        "files in mode complete or update",
        "Rows in files are never taken back, so only rows that do not change any more can go there: Spark "
        "refuses parquet, orc, json and csv in any mode but append.",
        "write a table, `delta: {table: gold/name, mode: replace}` (or `mode: merge` with `key`); or leave "
        "`mode` out, with a watermark and windows that close",
        sink=_set("files"),
        mode=_set("update", "complete"),
    ),
    Refusal(
        "TIDE-MODE-008",
        "PostgreSQL in mode complete",
        "Rows of a database are replaced by key, so a row that the whole result no longer has would stay.",
        "use `mode: update`, which writes the rows that changed; next to a table with `mode: replace`, give "
        "PostgreSQL a pipeline of its own",
        sink=_set("postgres"),
        mode=_set("complete"),
    ),
    Refusal(
        "TIDE-MODE-010",
        "an interval in mode incremental",
        "An incremental run reads what is there and ends: an interval between batches has no effect on it.",
        "remove `trigger` (`schedule` says when it runs), or use `mode: stream`",
        run=_set("incremental"),
        trigger=_set("interval"),
    ),
    Refusal(
        "TIDE-MODE-011",
        "available_now or once in mode stream",
        "A stream runs until it is stopped, and this trigger ends by itself.",
        "use `mode: incremental`, whose trigger is available_now; or an interval, e.g. `trigger: 10 seconds`",
        run=_set("stream"),
        trigger=_set("available_now", "once"),
    ),
    *REFUSED_WITHOUT_BATCHES,
)

# Refusals that depend on the runtime. The pipeline is valid in another environment.
ELSEWHERE = frozenset(refusal.error_id for refusal in REFUSALS if refusal.runtime)

SINKS_DISAGREE = Refusal(
    "TIDE-MODE-020",
    "sinks that need different modes",
    "Sinks of one pipeline share one result, which Spark gives in one output mode.",
    "leave `mode` out where the sink may follow the others, or give one of them a pipeline of its own",
)
SAME_SINK = Refusal(
    "TIDE-MODE-021",
    "two sinks that write to the same place",
    "Two sinks write to the same place, and no reader could distinguish their rows.",
    "write one of them, with both conditions in its `where`; or two names",
)
NOT_A_TABLE = Refusal(
    "TIDE-MODE-022",
    "`as: table` of anything but a Delta table or files",
    "`as: table` reads the whole source again at each batch, which only a Delta table and files support.",
    "write its records into a table by a pipeline of their own",
)
NO_RECORDS = Refusal(
    "TIDE-MODE-023",
    "`payload` for a source that gives columns",
    "`payload` decodes records of Kafka, Event Hubs, IoT Hub and files. This source gives columns already.",
    "remove `payload`",
)

COLUMNS_WITHOUT_PLACE = Refusal(
    "TIDE-MODE-024",
    "a source that adds columns, and a table that takes none",
    "The source adds columns (`schema_evolution: add_columns`), and the table would refuse the first batch "
    "with one.",
    "also set `schema_evolution: add_columns` of the sink, or select fixed columns in a `transform`",
)

COLUMNS_KEPT_ALIKE = Refusal(
    "TIDE-MODE-025",
    "a source that adds columns, and a sink `files` or `memory`",
    "The source adds columns (`schema_evolution: add_columns`), but all rows of this sink have the same "
    "columns, so the sink would have to start over with the first new one.",
    "select fixed columns in a `transform`, write a table, or set `schema_evolution: rescue` of the source",
)

ALL_REFUSALS = (
    *REFUSALS,
    SINKS_DISAGREE,
    SAME_SINK,
    NOT_A_TABLE,
    NO_RECORDS,
    COLUMNS_WITHOUT_PLACE,
    COLUMNS_KEPT_ALIKE,
    ONE_SINK,
    NEEDS_BATCHES,
)


def refusal_of(cell: Cell) -> Refusal | None:
    """Return the refusal of a combination; None if the known values do not forbid it."""
    return next((refusal for refusal in REFUSALS if refusal.fits(cell)), None)
