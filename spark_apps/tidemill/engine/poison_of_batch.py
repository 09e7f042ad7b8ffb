"""Handling of a batch that fails in the transform: record the poison records, then repeat the batch.

Order is the guarantee. Each record is first stored in a separate file. Then the query starts again and
repeats the batch, whose decoding puts the stored records into the quarantine. A crash before the files are
written leads to the same search; a crash after that leads to the same batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import structlog
from pyspark.sql import SparkSession

from tidemill.checkpoint.poison_records import (
    PoisonRecord,
    add_poison_record,
    poison_folder,
    poison_records,
)
from tidemill.checkpoint.reading.batches import CheckpointBatches
from tidemill.engine.cancelled import cancelled_by
from tidemill.engine.classify import classify
from tidemill.engine.flow import Collectors, decoded_rows
from tidemill.engine.poison import Poison, PoisonSearch
from tidemill.engine.record_failure import record_failure
from tidemill.engine.reporter import Reporter
from tidemill.engine.run_context import RunContext
from tidemill.engine.task_watch import TaskWatch, looking, work_of
from tidemill.errors import InternalError
from tidemill.ledger.entry import LedgerEntry
from tidemill.names import SOURCE_NAME
from tidemill.payload.left_out import LeftOut, reason_of
from tidemill.payload.quarantine import Quarantine
from tidemill.sinks.batch_commit import StepDone
from tidemill.sources.read import Past, read_batch

log = structlog.get_logger()


def known_poison(run: RunContext) -> list[PoisonRecord]:
    """Return records on which this code failed before; none if poison records stop the pipeline."""
    pipeline = run.pipeline
    if not pipeline.spec.leaves_out_poison:
        return []
    folder = poison_folder(pipeline.layout, pipeline.name, run.code)
    return poison_records(run.store, folder, run.generation, _topic_ids(run))


def left_out_of(poison: Sequence[PoisonRecord]) -> LeftOut:
    """Return the filter that keeps these records from the transform."""
    return LeftOut(
        {
            (record.topic, record.partition, record.offset): reason_of(record.error, record.message)
            for record in poison
        }
    )


def record_poison(
    spark: SparkSession, run: RunContext, reporter: Reporter, failure: Exception, step_done: StepDone
) -> None:
    """Find and store the records on which the transform failed, so that the batch can be repeated.

    Raises:
        Exception: The failure itself, if no record is the cause, or if the pipeline must stop.
        DataError: TIDE-DATA-010, if there are too many.
        DrainedError: If a stop was requested during the search.
    """
    failed = record_failure(failure) if run.pipeline.spec.leaves_out_poison else None
    entry = _failed_batch(run) if failed is not None else None
    if failed is None or entry is None:
        raise failure
    told = {"pipeline": run.pipeline.name, "batch_id": entry.batch_id}
    log.warning("poison_search", **told, error=failed.error)
    tasks = TaskWatch(run.pipeline, reporter, lambda: work_of(spark.sparkContext))
    with looking(tasks), cancelled_by(run.drain, spark):
        found = _search(spark, run, entry, failure)
    if not found:
        log.warning("poison_not_found", **told)
        raise failure
    folder = poison_folder(run.pipeline.layout, run.pipeline.name, run.code)
    for poison in found:
        record = _record(run, entry, poison)
        add_poison_record(run.store, folder, record)
        log.warning("poison_recorded", **told, record=record.place, error=record.error)
        step_done("poison_recorded")
    # Otherwise the batch would fail again, and the search would repeat without end.
    kept = {(record.topic, record.partition, record.offset) for record in known_poison(run)}
    if not all(poison.place in kept for poison in found):
        raise failure


def _failed_batch(run: RunContext) -> LedgerEntry | None:
    """Return the entry of the planned, unfinished batch with the offsets that it reads; None without them."""
    batches = CheckpointBatches(run.store, run.checkpoint)
    batch_id = batches.last_planned()
    if batch_id is None or batch_id == batches.last_committed():
        return None
    entry = run.entry(batch_id)
    read = entry.sources.get(SOURCE_NAME)
    return entry if read is not None and read.start is not None and read.end is not None else None


def _search(spark: SparkSession, run: RunContext, entry: LedgerEntry, failure: Exception) -> list[Poison]:
    pipeline, read = run.pipeline, entry.sources[SOURCE_NAME]
    start = {
        topic: {partition: read.start.get(topic, {}).get(partition, 0) for partition in partitions}
        for topic, partitions in read.end.items()
    }
    known = known_poison(run)
    # Discards records that cannot be decoded, because the batch itself puts them into the quarantine.
    aside = Quarantine.at(spark.sparkContext, pipeline.layout.quarantine(pipeline.name), run.run_id)
    try:
        records = read_batch(spark, pipeline, Past(start, read.end))
        decoded = decoded_rows(pipeline, records, Collectors(aside, left_out=left_out_of(known)))
        return PoisonSearch(pipeline).find(decoded, start, read.end, len(known))
    except Exception as error:
        if run.drain.requested or not isinstance(classify(error), InternalError):
            raise
        log.warning("poison_search_failed", pipeline=pipeline.name, exc_info=error)
        raise failure from error


def _record(run: RunContext, entry: LedgerEntry, poison: Poison) -> PoisonRecord:
    topic, partition, offset = poison.place
    return PoisonRecord(
        topic=topic,
        partition=partition,
        offset=offset,
        topic_id=_topic_ids(run).get(topic, ""),
        generation=run.generation,
        error=poison.failure.error,
        message=poison.failure.message,
        batch_id=entry.batch_id or 0,
        run_id=run.run_id,
        at=datetime.now(UTC),
    )


def _topic_ids(run: RunContext) -> dict[str, str]:
    topics = run.topics.get(SOURCE_NAME)
    return {} if topics is None else dict(topics.ids)
