"""The form of each `checkpoint` operation: its arguments, with a schema for each.

DAG files import this module during parsing, so it has no heavy imports.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidemill.checkpoint.procedure.request import REQUEST_PATTERN
from tidemill.names import ENVIRONMENT_PATTERN, GENERATION_PATTERN, PIPELINE_PATTERN

# Maximum characters of a form's reason. The name of the DAG run (at most 250) is added, and both must fit
# into a reason of the audit (500).
MAX_REASON = 200

MOMENT = (
    r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])T([01]\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d{1,6})?)?"
    r"(Z|[+-]\d{2}:\d{2})"
)
# Offsets as JSON: topic names, numbers and punctuation.
OFFSETS = r'\{["A-Za-z0-9._:, {}-]{0,20000}\}'


@dataclass(frozen=True)
class Field:
    """One argument of an operation.

    Args:
        name: Name in the form; with dashes in front, the option on the command line.
        help: Description.
        schema: JSON Schema of its values.
        default: Default value; `...` if it is required.
        keyword: Name of the Python argument; by default `name`.
        positional: True if it is a positional argument on the command line.
    """

    name: str
    help: str
    schema: Mapping[str, Any]
    default: Any = None
    keyword: str = ""
    positional: bool = False

    @property
    def python_name(self) -> str:
        """Return the name of the Python argument."""
        return self.keyword or self.name

    def read(self, value: Any) -> Any:
        """Return the value with its Python type, because JSON may write an integer as 8.0."""
        return int(value) if isinstance(value, float) and "integer" in self.schema["type"] else value

    def words(self, value: object) -> tuple[str, ...]:
        """Return the value as command-line words; empty for an omitted value."""
        if value in (None, "") or value == self.default:
            return ()
        if self.positional:
            return (str(value),)
        option = f"--{self.name.replace('_', '-')}"
        return (option,) if value is True else (option, str(value))


@dataclass(frozen=True)
class VerbForm:
    """An operation.

    Args:
        does: Description in one line.
        page: Its runbook page.
        fields: Its own arguments.
        stops: True if its pipeline must be stopped.
        needs_approval: True if a second user must approve in a protected environment.
    """

    does: str
    page: str
    fields: tuple[Field, ...] = ()
    stops: bool = False
    needs_approval: bool = True


def _text(pattern: str, most: int = 80) -> dict[str, Any]:
    return {"type": ["null", "string"], "pattern": f"^({pattern})$", "maxLength": most}


def _number(least: int) -> dict[str, Any]:
    return {"type": "integer", "minimum": least, "maximum": 2**31 - 1}


_PIPELINE = {"type": "string", "pattern": f"^{PIPELINE_PATTERN}$"}

FORMS: Mapping[str, VerbForm] = {
    "backup": VerbForm(
        "Copy the live checkpoint. The stream may continue to run.", "backup-checkpoint", needs_approval=False
    ),
    "hold": VerbForm(
        "Forbid starts of a pipeline. A running driver continues.",
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
            Field(
                "force",
                "Abandon the unfinished verb that placed the hold.",
                {"type": "boolean"},
                default=False,
            ),
        ),
    ),
    "rewind": VerbForm(
        "Set tables, offsets and state back to a batch. Later batches are computed again.",
        "rewind",
        (
            Field(
                "to",
                "Last batch to keep (118), a version of the first table (v42), or a time "
                "(2026-11-20T14:00:00Z) up to which batches are kept.",
                _text(rf"v?\d{{1,12}}|{MOMENT}"),
            ),
            Field(
                "generation",
                "Continue from this older generation, to undo a rewind.",
                _text(GENERATION_PATTERN),
            ),
        ),
        stops=True,
    ),
    "restore": VerbForm(
        "Restore checkpoint and tables from a backup.",
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
                "Environment whose storage has the backup; empty for this one.",
                _text(ENVIRONMENT_PATTERN),
                keyword="from_environment",
            ),
        ),
        stops=True,
    ),
    "reset": VerbForm(
        "Start again from offsets or a time. Tables stay; state is discarded, or computed from the past.",
        "reset-checkpoint",
        (
            Field(
                "from",
                'earliest, latest, a timestamp (ISO 8601), or offsets: {"topic": {"0": 5}}.',
                {"type": "string", "pattern": f"^(earliest|latest|{MOMENT}|{OFFSETS})$"},
                ...,
                keyword="start",
            ),
            Field(
                "without_missing",
                "Continue without files that were read and no longer exist.",
                {"type": "boolean"},
                default=False,
            ),
            Field(
                "skip_unread",
                "Skip unread records that are before `from`.",
                {"type": "boolean"},
                default=False,
            ),
            Field(
                "warm",
                "Continue where the tables are, with state computed from the records since `from` (earliest "
                "or a timestamp).",
                {"type": "boolean"},
                default=False,
            ),
        ),
        stops=True,
    ),
    "acknowledge": VerbForm(
        "Confirm that changed code or a changed declaration is intended.",
        "pipeline-changed",
    ),
    "repair": VerbForm("Rewrite overwritten or torn offsets from the ledger.", "repair-offsets", stops=True),
    "repartition": VerbForm(
        "Rewrite the state with another number of partitions. Tables and offsets stay.",
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
        "Copy checkpoint and tables for a shadow or a rehearsal. The original may continue to run.",
        "fork",
        (
            Field(
                "fork",
                "Name of the fork, a pipeline file with separate tables.",
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
        "Move old generations, backups and records to the trash. The stream may continue to run.",
        "prune-checkpoints",
        (
            Field("generations", "Number of old generations to keep.", _number(0), 2),
            Field("backups", "Number of complete backups to keep.", _number(1), 3),
            Field(
                "records",
                "Number of receipts, epochs, journal entries and joined folders' listings to keep, each.",
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

# Fields of every form, in addition to the operation's own arguments.
COMMON_FIELDS = (
    Field("pipeline", "Name of the pipeline.", _PIPELINE, ...),
    Field(
        "reason",
        "Reason, recorded in journal and audit. Required to change anything.",
        {"type": "string", "maxLength": MAX_REASON, "pattern": r"^[^\x00-\x1f\x7f]*$"},
        "",
    ),
    Field("dry_run", "Only print the plan.", {"type": "boolean"}, default=True),
)
