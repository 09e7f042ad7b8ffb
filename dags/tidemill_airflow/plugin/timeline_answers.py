"""What the API answers of generations, verbs and backups."""

from __future__ import annotations

from datetime import datetime

from tidemill_airflow.plugin.answers import Answer


class GenerationSeen(Answer):
    """How a checkpoint became the live one."""

    generation: str
    since: datetime
    why: str
    by: str
    is_live: bool


class AuditLine(Answer):
    """What a verb did.

    Args:
        request_id: Names it; of a backup, the backup.
        at: When it began.
        from_generation: What was live before; None if nothing was, or if the verb does not tell.
        from_batch: Newest batch that it has undone.
        to_batch: Newest batch that is left, or that was backed up.
        lines: Its plan, as far as the audit has it.
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
    """Generations, verbs and backups, newest first."""

    generations: tuple[GenerationSeen, ...]
    audit: tuple[AuditLine, ...]
    backups: tuple[BackupSeen, ...]
