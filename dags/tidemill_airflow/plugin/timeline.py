"""Generations, operations and backups of a pipeline, for its timeline."""

from __future__ import annotations

from tidemill.checkpoint.current import Current, read_history
from tidemill.checkpoint.procedure.audit import AuditEntry, read_audit
from tidemill.checkpoint.verbs.backup_manifest import Manifest, read_manifests
from tidemill.control.plane import ControlPlane
from tidemill.control.procedures.plan_words import kept_lines
from tidemill_airflow.plugin.timeline_answers import AuditLine, BackupSeen, Checkpoints, GenerationSeen

# Maximum number of audit entries to show.
AUDIT_LINES = 50


def checkpoints_of(plane: ControlPlane, pipeline: str) -> Checkpoints:
    """Return generations, executed operations and existing backups, newest first."""
    history = read_history(plane.store, plane.layout, pipeline)
    audit = read_audit(plane.store, plane.layout, pipeline, AUDIT_LINES)
    backups = read_manifests(plane.store, plane.layout, pipeline)
    return Checkpoints(
        generations=tuple(_generation(each, is_live=each is history[0]) for each in history),
        audit=tuple(_line(each) for each in audit),
        backups=tuple(_backup(each) for each in reversed(backups)),
    )


def _generation(record: Current, *, is_live: bool) -> GenerationSeen:
    return GenerationSeen(
        generation=record.generation, since=record.since, why=record.why, by=record.by, is_live=is_live
    )


def _line(entry: AuditEntry) -> AuditLine:
    # Generation before and after the operation; the audit entry of a hold has none.
    before, after = entry.before or {}, entry.after or {}
    undone = entry.plan.get("batches_undone") or [None]
    return AuditLine(
        request_id=entry.request_id,
        at=entry.at,
        ended_at=entry.ended_at,
        verb=entry.verb,
        by=entry.by,
        why=entry.why,
        from_generation=before.get("generation"),
        to_generation=after.get("generation"),
        from_batch=undone[-1],
        to_batch=entry.plan.get("batch_id", after.get("batch_id")),
        lines=tuple(kept_lines(entry.verb, entry.plan)),
    )


def _backup(manifest: Manifest) -> BackupSeen:
    return BackupSeen(
        backup=manifest.backup,
        at=manifest.taken_at,
        generation=manifest.generation,
        batch_id=manifest.batch_id,
        by=manifest.by,
        why=manifest.why,
        size_bytes=manifest.size,
    )
