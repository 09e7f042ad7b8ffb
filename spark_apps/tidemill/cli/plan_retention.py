"""The parts of a plan about rewinding the pipeline, and about the end of its last driver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidemill.spec.project import Pipeline
    from tidemill.storage.store import Store


def retention_document(pipeline: Pipeline, ask_broker: bool) -> dict[str, Any]:
    """Return what is kept, for how long, and warnings about retention that cannot be met."""
    from tidemill.checkpoint.retention.policy import policy_findings
    from tidemill.checkpoint.retention.rule import retention_of, table_properties
    from tidemill.spec.units import format_duration

    kept = retention_of(pipeline.spec)
    broker = None
    if ask_broker:
        from tidemill.checkpoint.retention.clock import shortest_of_brokers
        from tidemill.sources.topic_retention import TopicRetention

        broker = shortest_of_brokers(pipeline, TopicRetention())
    return {
        "rewindable": format_duration(kept.rewindable),
        "batches": kept.batches,
        "if_batches_come_every": format_duration(kept.interval),
        "files_about": kept.files,
        "table_properties": table_properties(kept),
        **_read_files(pipeline),
        "warnings": [finding.document() for finding in policy_findings(pipeline, broker)],
    }


def _read_files(pipeline: Pipeline) -> dict[str, Any]:
    """Return the handling of files that were read; empty if they are kept."""
    from tidemill.checkpoint.verbs.clean import age_of
    from tidemill.spec.files_after import cleaned_sources
    from tidemill.spec.files_place import files_place
    from tidemill.spec.units import format_duration

    told = {}
    for stream, files in cleaned_sources(pipeline).items():
        place = files_place(pipeline.layout, files.path)
        told[stream] = {
            "after": files.after,
            "older_than": format_duration(age_of(pipeline, files)),
            "to": place.archive if place is not None and files.after == "archive" else None,
            "not_possible_then": "a rewind further back"
            if files.after == "archive"
            else "a rewind further back; any backfill; a reset that misses no file",
        }
    return {"read_files": told} if told else {}


def last_ending(store: Store, pipeline: Pipeline) -> dict[str, Any] | None:
    """Return the content of the newest receipt; None before the first driver has ended."""
    from tidemill.checkpoint.receipts import newest_receipt

    receipt = newest_receipt(store, pipeline.layout, pipeline.name)
    if receipt is None:
        return None
    return {
        "result": receipt.result,
        "stopped_at": receipt.stopped_at,
        "mode": receipt.mode,
        "batch_id": receipt.batch_id,
        "error": (receipt.error or {}).get("id"),
    }
