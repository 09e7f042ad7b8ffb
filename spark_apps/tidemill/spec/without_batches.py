"""Triggers that write rows one by one without foreachBatch, and the combinations that they exclude."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tidemill.spec.refusal import Refusal

if TYPE_CHECKING:
    from tidemill.spec.pipeline import PipelineSpec

# Spark's real-time mode has batches, but rows are written before their batch is known.
WITHOUT_BATCHES = frozenset({"continuous", "real_time"})

# Guarantees of these triggers, shown by `plan`.
PROMISES = (
    "at least once: rows written since the newest commit in the checkpoint are written again after a stop "
    "or a crash",
    "no ledger, no row counts, no quarantine, no late rows, no lineage of batches; the checkpoint's files "
    "`commits/N` are the only proof of progress",
    "after a newer driver has started, an older one may still write for one or two seconds",
)

_CONTINUOUS = frozenset({"continuous"})
_REAL_TIME = frozenset({"real_time"})

_INSTEAD = "use `trigger: 0 seconds`, which starts a batch as soon as the last one has ended"

REFUSED_WITHOUT_BATCHES = (
    Refusal(
        "TIDE-MODE-012",
        "continuous, from files, tables, a socket or rate_per_batch",
        "Spark reads files, tables and this rate source in batches only, and a socket cannot be read again "
        "after a crash.",
        f"read a topic, an event hub or `rate: {{}}`; or {_INSTEAD}",
        source=frozenset({"files", "delta", "rate_per_batch", "socket"}),
        trigger=_CONTINUOUS,
    ),
    Refusal(
        "TIDE-MODE-013",
        "real_time, from anything but Kafka or Event Hubs",
        "Of the sources that there are, Spark 4.2 reads only Kafka, and so Event Hubs, in real-time mode.",
        f"read a topic or an event hub; or {_INSTEAD}",
        source=frozenset({"files", "delta", "rate", "rate_per_batch", "socket"}),
        trigger=_REAL_TIME,
    ),
    Refusal(
        "TIDE-MODE-014",
        "continuous or real_time, into a table, files, PostgreSQL or foreach_batch",
        "These sinks are written batch by batch, with the number of the batch, and this trigger writes rows "
        "before their batch is known: Spark refuses foreachBatch, Delta and files with it.",
        f"write a topic, and from there the table by a pipeline of its own; or {_INSTEAD}",
        trigger=WITHOUT_BATCHES,
        sink=frozenset({"delta", "files", "postgres", "foreach_batch"}),
    ),
    Refusal(
        "TIDE-MODE-015",
        "continuous or real_time, into a table in memory",
        "Spark 4.2 does not write its table in memory in real-time mode. With continuous it would grow "
        "without `max_rows`, and who reads it would wait for a core, which the query never gives back.",
        f"use `console: {{}}` to try it out, or a topic; or {_INSTEAD}",
        trigger=WITHOUT_BATCHES,
        sink=frozenset({"memory"}),
    ),
    Refusal(
        "TIDE-MODE-016",
        "real_time in mode append or complete",
        "Spark's real-time mode knows update only; of rows that are written as they come, it is the same as "
        "append.",
        "leave `mode` of the sink out",
        trigger=_REAL_TIME,
        mode=frozenset({"append", "complete"}),
    ),
    Refusal(
        "TIDE-MODE-017",
        "continuous in mode complete",
        "A complete result is that of an aggregation, which continuous processing does not have.",
        f"leave `mode` of the sink out; or {_INSTEAD}",
        trigger=_CONTINUOUS,
        mode=frozenset({"complete"}),
    ),
    Refusal(
        "TIDE-MODE-018",
        "continuous or real_time in mode incremental",
        "An incremental run reads what is there and ends, and this trigger never ends.",
        "remove `trigger` (`schedule` says when it runs), or use `mode: stream`",
        run=frozenset({"incremental"}),
        trigger=WITHOUT_BATCHES,
    ),
    Refusal(
        "TIDE-MODE-019",
        "continuous, into a writer of rows",
        "Spark 4.2 passes the batch id to a writer in Python, and fails if there is none.",
        f"use `trigger: {{real_time: 5 minutes}}`, or write a topic; or {_INSTEAD}",
        trigger=_CONTINUOUS,
        sink=frozenset({"foreach"}),
    ),
)

ONE_SINK = Refusal(
    "TIDE-MODE-026",
    "continuous or real_time, into several sinks",
    "With this trigger Spark writes each row itself, and a query of Spark's has one sink.",
    f"give each sink a pipeline of its own; or {_INSTEAD}",
)
NEEDS_BATCHES = Refusal(
    "TIDE-MODE-027",
    "continuous or real_time, with `payload`, `event_time`, `models`, several streams, joined tables, "
    "`on_poison: quarantine` or `max_offsets_per_batch`",
    "What Tidemill does with the records of a batch cannot be done with this trigger: there is no batch to "
    "decode in Python, to set records of aside, to count late rows in, or to note the versions of tables and "
    "models for.",
    "remove the keys that are named, and take records apart in the transform or in SQL: "
    f"from_json(CAST(kafka_value AS STRING), 'id BIGINT, ...'); or {_INSTEAD}",
)


def needs_batches(spec: PipelineSpec) -> Iterator[str]:
    """Yield the keys of a pipeline that work only with batches."""
    if spec.has_named_streams:
        yield "several streams"
    for stream in spec.streams.values():
        if stream.payload is not None:
            yield "payload"
        if stream.event_time is not None:
            yield "event_time"
        if stream.source.is_kafka and stream.source.chosen.max_offsets_per_batch is not None:
            yield "max_offsets_per_batch"
    if spec.joined:
        yield "as: table"
    if spec.models:
        yield "models"
    if spec.leaves_out_poison:
        yield "on_poison"
