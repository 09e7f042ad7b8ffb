"""Models of the API's answers about generations, operations and backups."""

from __future__ import annotations

from datetime import datetime

from tidemill_airflow.plugin.answers import Answer


class GenerationSeen(Answer):
    """Record of how a checkpoint became the live one."""

    generation: str
    since: datetime
    why: str
    by: str
    is_live: bool


class AuditLine(Answer):
    """One executed operation.

    Args:
        request_id: Its id; for a backup, the backup's name.
        at: Time at which it began.
        from_generation: Live generation before it; None if there was none, or if the operation does not
            record it.
        from_batch: Newest batch that it has undone.
        to_batch: Newest batch that remains, or that was backed up.
        lines: Its plan, in the form that the audit keeps.
    """

    request_id: str
    at: datetime
    ended_at: datetime
    verb: str
    by: str
    why: str
    from_generation: str | None
    to_generation: str | None
    from_batch: int | None
    to_batch: int | None
    lines: tuple[str, ...]


class BackupSeen(Answer):
    """One backup that exists."""

    backup: str
    at: datetime
    generation: str
    batch_id: int
    by: str
    why: str
    size_bytes: int


class Checkpoints(Answer):
    """Generations, operations and backups, newest first."""

    generations: tuple[GenerationSeen, ...]
    audit: tuple[AuditLine, ...]
    backups: tuple[BackupSeen, ...]
