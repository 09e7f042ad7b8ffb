"""What each verb of `checkpoint` may be asked: its arguments, with a schema for each.

DAG files read this while they are parsed, so nothing heavy is imported.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidemill.checkpoint.procedure.request import REQUEST_PATTERN
from tidemill.names import ENVIRONMENT_PATTERN, GENERATION_PATTERN, PIPELINE_PATTERN

# Longest reason of a form, in characters. The name of the DAG run (250 at most) is added, and both must fit
# into a reason of the audit (500).
MAX_REASON = 200

MOMENT = (
    r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])T([01]\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d{1,6})?)?"
    r"(Z|[+-]\d{2}:\d{2})"
)
# Offsets as JSON: names of topics, numbers, and what is between them.
OFFSETS = r'\{["A-Za-z0-9._:, {}-]{0,20000}\}'


@dataclass(frozen=True)
class Field:
    """One argument of a verb.

    Args:
        name: In the form; on the command line, with dashes in front, the option.
        help: What it means.
        schema: JSON Schema of its values.
        default: None if it may be left out; `...` if it may not.
        keyword: Name of the Python argument; by default the same.
        positional: Whether the command line has it without an option.
    """

    name: str
    help: str
    schema: Mapping[str, Any]
    default: Any = None
    keyword: str = ""
    positional: bool = False

    @property
    def python_name(self) -> str:
        """Name of the Python argument."""
        return self.keyword or self.name

    def read(self, value: Any) -> Any:
        """A value that fits: JSON may write an integer as 8.0."""
        return int(value) if isinstance(value, float) and "integer" in self.schema["type"] else value

    def words(self, value: object) -> tuple[str, ...]:
        """A value as it is written on the command line; nothing for one that was left out."""
        if value in (None, "") or value == self.default:
            return ()
        if self.positional:
            return (str(value),)
        option = f"--{self.name.replace('_', '-')}"
        return (option,) if value is True else (option, str(value))


@dataclass(frozen=True)
class VerbForm:
    """A verb.

    Args:
        does: What it does, in one line.
        page: Its runbook.
        fields: Its own arguments.
        stops: Whether its pipeline must stand still meanwhile.
        needs_approval: Whether someone else must approve in a protected environment.
    """

    does: str
    page: str
    fields: tuple[Field, ...] = ()
    stops: bool = False
    needs_approval: bool = True


def _text(pattern: str, most: int = 80) -> dict[str, Any]:
    """A text that may be left out."""
    return {"type": ["null", "string"], "pattern": f"^({pattern})$", "maxLength": most}


def _number(least: int) -> dict[str, Any]:
    return {"type": "integer", "minimum": least, "maximum": 2**31 - 1}


_PIPELINE = {"type": "string", "pattern": f"^{PIPELINE_PATTERN}$"}

FORMS: Mapping[str, VerbForm] = {
    "backup": VerbForm(
        "Copy the live checkpoint; the stream may go on meanwhile.", "backup-checkpoint", needs_approval=False
    ),
    "hold": VerbForm(
        "Forbid starting a pipeline; a running driver goes on.",
        "hold",
        (
            Field(
                "id",
                "Name of the hold.",
                {"type": "string", "pattern": f"^{REQUEST_PATTERN}$"},
                "by-hand",
                keyword="hold_id",
            ),
        ),
        needs_approval=False,
    ),
    "release": VerbForm(
        "Release a hold, so that the pipeline may start.",
        "hold",
        (
            Field(
                "hold",
                "Id of the hold.",
                {"type": "string", "pattern": f"^{REQUEST_PATTERN}$"},
                ...,
                keyword="hold_id",
                positional=True,
            ),
            Field("force", "Give up the unfinished verb behind it.", {"type": "boolean"}, default=False),
        ),
    ),
    "rewind": VerbForm(
        "Take tables, offsets and state to a batch together; what follows is computed again.",
        "rewind",
        (
            Field(
                "to",
                "Last batch that stays (118), a version of the first table (v42), or a moment "
                "(2026-11-20T14:00:00Z) after which nothing stays.",
                _text(rf"v?\d{{1,12}}|{MOMENT}"),
            ),
            Field(
                "generation", "Go on from this older generation; undoes a rewind.", _text(GENERATION_PATTERN)
            ),
        ),
        stops=True,
    ),
    "restore": VerbForm(
        "Go back to a backup: checkpoint and tables together.",
        "restore-checkpoint",
        (
            Field(
                "backup",
                "Name of the backup.",
                {"type": "string", "pattern": r"^\d{8}t\d{12}z$"},
                ...,
                positional=True,
            ),
            Field(
                "from_env",
                "Environment whose storage holds the backup; empty for this one.",
                _text(ENVIRONMENT_PATTERN),
                keyword="from_environment",
            ),
        ),
        stops=True,
    ),
    "reset": VerbForm(
        "Begin anew from offsets or a moment; tables stay, state is lost, or computed from the past.",
        "reset-checkpoint",
        (
            Field(
                "from",
                'earliest, latest, a moment (ISO 8601), or offsets: {"topic": {"0": 5}}.',
                {"type": "string", "pattern": f"^(earliest|latest|{MOMENT}|{OFFSETS})$"},
                ...,
                keyword="start",
            ),
            Field(
                "without_missing",
                "Go without files that were read before and are gone.",
                {"type": "boolean"},
                default=False,
            ),
            Field(
                "skip_unread",
                "Never read records that were not read yet, where `from` is behind them.",
                {"type": "boolean"},
                default=False,
            ),
            Field(
                "warm",
                "Go on where the tables stand, with state computed from what was read since `from`: "
                "earliest, or a moment.",
                {"type": "boolean"},
                default=False,
            ),
        ),
        stops=True,
    ),
    "acknowledge": VerbForm(
        "Say that changed code, or a changed declaration, is meant.",
        "pipeline-changed",
    ),
    "repair": VerbForm(
        "Write overwritten or torn offsets again, as the ledger has them.", "repair-offsets", stops=True
    ),
    "repartition": VerbForm(
        "Rewrite the state into another number of partitions; tables and offsets stay.",
        "repartition",
        (
            Field(
                "partitions",
                "Number of partitions, as in the pipeline file.",
                _number(1),
                ...,
                positional=True,
            ),
        ),
        stops=True,
    ),
    "fork": VerbForm(
        "Copy checkpoint and tables for a shadow or a rehearsal; the original may run on.",
        "fork",
        (
            Field(
                "fork",
                "Name of the fork: a pipeline file with tables of its own.",
                _PIPELINE,
                ...,
                positional=True,
            ),
            Field(
                "batch",
                "Last batch that both share; empty for the newest committed one.",
                {"type": ["null", "integer"], "minimum": 0, "maximum": 2**31 - 1},
            ),
        ),
    ),
    "prune": VerbForm(
        "Move old generations, backups and records to the trash; may run beside a stream.",
        "prune-checkpoints",
        (
            Field("generations", "Old generations that stay.", _number(0), 2),
            Field("backups", "Complete backups that stay.", _number(1), 3),
            Field(
                "records",
                "Receipts, epochs, journal entries and listings of joined folders that stay.",
                _number(1),
                100,
            ),
            Field(
                "trash_days",
                "Days until trash is deleted.",
                {"type": "number", "minimum": 0, "maximum": 36_500},
                7,
            ),
        ),
    ),
}

# What every form asks beside the verb's own arguments.
COMMON_FIELDS = (
    Field("pipeline", "Whose checkpoint.", _PIPELINE, ...),
    Field(
        "reason",
        "Why; needed to change anything, kept in journal and audit.",
        {"type": "string", "maxLength": MAX_REASON, "pattern": r"^[^\x00-\x1f\x7f]*$"},
        "",
    ),
    Field("dry_run", "Only print the plan.", {"type": "boolean"}, default=True),
)
