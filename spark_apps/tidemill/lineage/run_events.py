"""OpenLineage events of one run, as documents: pure functions of the content of storage.

| event | source |
|---|---|
| START | the driver's start time, in its status and its receipt |
| RUNNING | the commits of one batch in the ledger |
| COMPLETE, ABORT, FAIL | the driver's receipt |

A run is a run of one driver. Its id is a function of storage root, pipeline and run id, so that the service
recognizes a repeated event. A batch that was repeated after a crash has one commit for each table, so it has
one event, of the run that made the commit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
from openlineage.client.facet_v2 import (
    InputDatasetFacet,
    JobFacet,
    OutputDatasetFacet,
    RunFacet,
    documentation_job,
    error_message_run,
    job_type_job,
    output_statistics_output_dataset,
    ownership_job,
    processing_engine_run,
)
from openlineage.client.serde import Serde

from tidemill.checkpoint.reading.source_logs import parse_delta_offset
from tidemill.checkpoint.receipts import Receipt
from tidemill.ledger.entry import LedgerEntry, OffsetRange
from tidemill.lineage.datasets import (
    Dataset,
    folder_dataset,
    inputs_of,
    joined_files_dataset,
    outputs_of,
    servers_of,
    streams_of,
    table_dataset,
    topic_dataset,
)
from tidemill.lineage.facets import (
    TidemillBatchRunFacet,
    TidemillOffsetsInputDatasetFacet,
    namespace_of,
    owned_facets,
    schema_facet,
    table_facets,
)
from tidemill.lineage.written import BatchWrites, TableWrite
from tidemill.spec.project import Pipeline
from tidemill.spec.secret_mask import mask_document
from tidemill.spec.sources import Source

# Namespace of all run ids.
_RUNS = uuid5(NAMESPACE_URL, "urn:tidemill:runs")

Document = dict[str, Any]


@dataclass(frozen=True)
class RunStart:
    """A driver that started."""

    run_id: str
    mode: str
    started_at: datetime


def start_event(pipeline: Pipeline, start: RunStart) -> Document:
    """Return the event of a run's start, with all declared inputs and outputs."""
    inputs = [_input(pipeline, dataset) for dataset in inputs_of(pipeline)]
    outputs = [_output(pipeline, dataset) for dataset in outputs_of(pipeline)]
    return _document(
        RunEvent(
            eventTime=start.started_at.isoformat(),
            eventType=RunState.START,
            run=Run(_run_id(pipeline, start.run_id)),
            job=_job(pipeline, start.mode),
            inputs=inputs,
            outputs=outputs,
        )
    )


def batch_event(pipeline: Pipeline, batch: BatchWrites) -> Document:
    """Return the event of a written batch, with the ranges it read and the table versions it created."""
    entry = batch.entry
    run = Run(_run_id(pipeline, entry.run_id), _batch_facets(entry))
    return _document(
        RunEvent(
            eventTime=batch.committed_at.isoformat(),
            eventType=RunState.RUNNING,
            run=run,
            job=_job(pipeline, entry.mode),
            inputs=[*_streams_read(pipeline, entry), *_joined(pipeline, entry)],
            outputs=[_written(pipeline, write) for write in batch.tables],
        )
    )


def end_event(pipeline: Pipeline, receipt: Receipt) -> Document:
    """Return the event of a run's end: COMPLETE, FAIL, or ABORT if it was cut off or stopped early."""
    facets: dict[str, RunFacet] = {}
    if receipt.error is not None:
        message = f"{receipt.error.get('id')} {receipt.error.get('problem')}"
        facets["errorMessage"] = error_message_run.ErrorMessageRunFacet(message, "PYTHON")
    return _document(
        RunEvent(
            eventTime=receipt.stopped_at.isoformat(),
            eventType=_end_state(receipt),
            run=Run(_run_id(pipeline, receipt.run_id), facets),
            job=_job(pipeline, receipt.mode),
        )
    )


def _end_state(receipt: Receipt) -> RunState:
    if receipt.result == "failed":
        return RunState.FAIL
    return RunState.ABORT if receipt.result == "forced" or receipt.stopped_early else RunState.COMPLETE


def _document(event: RunEvent) -> Document:
    # Declarations contain no secrets, but the text of an error may come from Spark or a client.
    document: Document = mask_document(Serde.to_dict(event))
    return document


def _run_id(pipeline: Pipeline, run_id: str) -> str:
    return str(uuid5(_RUNS, f"{pipeline.layout.root} {pipeline.name} {run_id}"))


def _job(pipeline: Pipeline, mode: str) -> Job:
    owner = ownership_job.Owner(pipeline.spec.owner, "MAINTAINER")
    facets: dict[str, JobFacet] = {
        "documentation": documentation_job.DocumentationJobFacet(pipeline.spec.description, "text/plain"),
        "ownership": ownership_job.OwnershipJobFacet([owner]),
        "jobType": job_type_job.JobTypeJobFacet(
            processingType="STREAMING" if mode == "stream" else "BATCH",
            integration="TIDEMILL",
            jobType="PIPELINE",
        ),
    }
    return Job(namespace_of(pipeline), pipeline.name, facets)


def _batch_facets(entry: LedgerEntry) -> dict[str, RunFacet]:
    version = entry.code.tidemill
    return {
        "processing_engine": processing_engine_run.ProcessingEngineRunFacet(version, name="tidemill"),
        "tidemill_batch": TidemillBatchRunFacet(
            mode=entry.mode,
            code=entry.code.model_dump(exclude_none=True),
            generation=entry.generation,
            epoch=entry.epoch,
            batchId=entry.batch_id,
            plan=entry.plan,
            queryId=entry.query_id,
            watermark=None if entry.watermark is None else entry.watermark.isoformat(),
            quarantinedRows=entry.quarantined_rows,
            lateRows=entry.late_rows,
        ),
    }


def _streams_read(pipeline: Pipeline, entry: LedgerEntry) -> Iterator[InputDataset]:
    if not entry.sources:
        # A backfill of a time range has no offsets.
        yield from (_input(pipeline, dataset) for dataset in streams_of(pipeline))
    for name, read in entry.sources.items():
        source = _source_read(pipeline, entry, name)
        if source is None:
            continue
        servers = servers_of(pipeline, source)
        if servers is not None:
            yield from _topics_read(servers, name, read)
        elif source.files is not None:
            folder = folder_dataset(pipeline.layout.folder(source.files.path))
            yield _input(pipeline, folder, _offsets(name, read, read.start, read.end))
        elif source.delta is not None:
            table = table_dataset(pipeline, source.delta.table)
            offsets = _offsets(name, read, read.start, read.end)
            version = _version_read(read.end)
            yield _input(pipeline, table, offsets, version=None if version is None else str(version))


def _source_read(pipeline: Pipeline, entry: LedgerEntry, name: str) -> Source | None:
    """Return the source of a stream; None if it has changed, because the ledger does not store all of it."""
    # Uses of the one stream are `source`, `source.1`, and so on.
    stream_name = name.partition(".")[0]
    stream = pipeline.spec.streams.get(stream_name)
    if stream is None:
        return None
    shape = entry.shape
    if shape is None:
        return stream.source
    then = shape.streams.get(stream_name, shape).source
    return stream.source if then in ("", stream.source.kind) else None


def _topics_read(servers: str, name: str, read: OffsetRange) -> Iterator[InputDataset]:
    starts, ends = _by_topic(read.start), _by_topic(read.end)
    for topic, end in ends.items():
        dataset = topic_dataset(servers, topic)
        offsets = _offsets(name, read, starts.get(topic), end)
        offsets["tidemill_offsets"].topicId = (read.topic_ids or {}).get(topic)
        yield InputDataset(dataset.namespace, dataset.name, inputFacets={**offsets})


def _by_topic(positions: Any) -> Mapping[str, Any]:
    return positions if isinstance(positions, Mapping) else {}


def _offsets(
    name: str, read: OffsetRange, start: Any, end: Any
) -> dict[str, TidemillOffsetsInputDatasetFacet]:
    facet = TidemillOffsetsInputDatasetFacet(stream=name, start=start, end=end, cluster=read.cluster)
    return {"tidemill_offsets": facet}


def _version_read(end: Any) -> int | None:
    """Return the newest version of a table that a stream has begun to read; None before the first."""
    offset = parse_delta_offset(end)
    if offset is None:
        return None
    begun = offset.is_snapshot or offset.index >= 0
    return offset.version if begun else offset.version - 1 if offset.version > 0 else None


def _joined(pipeline: Pipeline, entry: LedgerEntry) -> Iterator[InputDataset]:
    for name, version in (entry.tables_read or {}).items():
        table = pipeline.spec.tables.get(name)
        if table is not None:
            yield _input(pipeline, table_dataset(pipeline, table), version=str(version))
    for name, files in (entry.files_read or {}).items():
        if name in pipeline.spec.joined_files:
            yield _input(pipeline, joined_files_dataset(pipeline, name), version=files.digest)


def _input(
    pipeline: Pipeline,
    dataset: Dataset,
    offsets: Mapping[str, InputDatasetFacet] | None = None,
    version: str | None = None,
) -> InputDataset:
    facets = table_facets(pipeline, dataset, version)
    return InputDataset(dataset.namespace, dataset.name, facets=facets, inputFacets=dict(offsets or {}))


def _output(pipeline: Pipeline, dataset: Dataset) -> OutputDataset:
    return OutputDataset(dataset.namespace, dataset.name, facets=owned_facets(pipeline, dataset))


def _written(pipeline: Pipeline, write: TableWrite) -> OutputDataset:
    dataset = table_dataset(pipeline, write.table)
    facets = owned_facets(pipeline, dataset, str(write.version))
    if write.columns is not None:
        facets["schema"] = schema_facet(write.columns)
    statistics: dict[str, OutputDatasetFacet] = {}
    if write.rows is not None:
        facet = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(rowCount=write.rows)
        statistics["outputStatistics"] = facet
    return OutputDataset(dataset.namespace, dataset.name, facets=facets, outputFacets=statistics)
