"""Check that checkpoint, tables and broker each keep as much as `run.rewindable` asks."""

from __future__ import annotations

from datetime import datetime

from tidemill.checkpoint.findings import Finding
from tidemill.checkpoint.reading.state_folder import StateFolder
from tidemill.checkpoint.retention.clock import SourceRetention, broker_findings
from tidemill.checkpoint.retention.rule import Retention, retention_findings, retention_of
from tidemill.checkpoint.retention.table_properties import read_table_retention, table_findings
from tidemill.spec.project import Pipeline
from tidemill.spec.units import format_duration


def reach_findings(folder: StateFolder, kept: Retention, now: datetime) -> list[Finding]:
    """Return TIDE-CKPT-064 if batches were so frequent that the kept ones do not reach far enough back."""
    live, since = folder.live, folder.first_batch_at
    if live is None or since is None or not kept.declared or len(live.commits) < kept.batches:
        return []
    if not kept.reaches or now - since >= kept.asked:
        return []
    return [
        Finding(
            "TIDE-CKPT-064",
            "warning",
            folder.name,
            "Batches come faster than trigger or schedule says: the checkpoint reaches less far back.",
            {
                "asked": format_duration(kept.asked),
                "reaches_back_to": since,
                "batches_kept": len(live.commits),
                "assumed_between_batches": format_duration(kept.interval),
            },
            "let batches be larger (max_…_per_batch), or make backups: "
            f"tidemill checkpoint backup {folder.name}",
            "retention-policy",
        )
    ]


def policy_findings(pipeline: Pipeline, broker: SourceRetention | None) -> list[Finding]:
    """Return TIDE-CKPT-060 to -063 for violations of the retention policy. Reads the tables' properties."""
    kept = retention_of(pipeline.spec)
    paths = [pipeline.layout.table(sink.table) for sink in pipeline.spec.delta_sinks]
    paths += [pipeline.layout.aside(output, pipeline.name) for output in pipeline.spec.asides]
    tables = [table for path in paths if (table := read_table_retention(path)) is not None]
    return [
        *retention_findings(pipeline.name, kept),
        *(broker_findings(pipeline.name, broker, kept) if broker is not None else []),
        *(finding for table in tables for finding in table_findings(pipeline.name, table, kept)),
    ]
