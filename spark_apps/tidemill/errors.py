"""Every error that Tidemill raises on purpose.

TidemillError               exit  action of the caller
├── UsageError                64  corrects the command's arguments
├── SpecError                 64  corrects a conf file or a transform
├── DataError                 65  examines the data or the transform
├── GateRefusedError          66  follows the runbook; nothing was started, read or written
├── UnavailableError          69  waits and tries again: source, sink or storage is unavailable
│   └── AbsentError           69  the same, but ends at once if a user waits: it does not exist yet
├── CrashError                70  examines memory and native code; restarts are limited by a budget
├── InternalError             70  reports a bug
└── FencedError               75  does nothing: a newer driver runs, or another generation is live

Each error has a stable id, the facts as fields, the fix and, if one exists, its runbook. The command line
exits with 1 for a refusal and 2 for wrong usage or a wrong file. A driver exits with `exit_code` (sysexits),
which the restart policy reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class TidemillError(Exception):
    """An error with its problem, facts and fix.

    Args:
        error_id: Stable id such as `TIDE-CKPT-004`.
        problem: One sentence that states the problem.
        facts: Facts as named values. Never a payload, never a secret.
        fix: Action that the reader can take now.
        runbook: Name of a page in `dags/runbooks/`, without the file extension.
    """

    exit_code = 70

    def __init__(
        self,
        error_id: str,
        problem: str,
        *,
        facts: Mapping[str, object] | None = None,
        fix: str = "",
        runbook: str = "",
    ) -> None:
        super().__init__(error_id, problem)
        self.error_id = error_id
        self.problem = problem
        self.facts = dict(facts or {})
        self.fix = fix
        self.runbook = runbook

    def __str__(self) -> str:
        lines = [f"{self.error_id}  {self.problem}"]
        if self.facts:
            lines.append("  " + " ".join(f"{name}={value}" for name, value in self.facts.items()))
        if self.fix:
            lines.append(f"  To fix: {self.fix}")
        if self.runbook:
            lines.append(f"  Runbook: {self.runbook}")
        return "\n".join(lines)

    def as_document(self) -> dict[str, Any]:
        """Return the form that is stored in status, receipts and memories."""
        return {
            "id": self.error_id,
            "problem": self.problem,
            "facts": {name: str(value) for name, value in self.facts.items()},
            "fix": self.fix,
            "runbook": self.runbook,
        }


class UsageError(TidemillError):
    """Invalid arguments of a command."""

    exit_code = 64


class SpecError(TidemillError):
    """An invalid conf file, schema, transform or installation; no data was read."""

    exit_code = 64


class DataError(TidemillError):
    """Data, a table or a transform that cannot be processed as declared."""

    exit_code = 65


class GateRefusedError(TidemillError):
    """A start that the gate or a hold forbids. Nothing was started, read or written."""

    exit_code = 66


class UnavailableError(TidemillError):
    """A source, sink or storage that does not answer; a later retry can help."""

    exit_code = 69


class AbsentError(UnavailableError):
    """A source that does not exist: its name is wrong, or it will be created later."""


class CrashError(TidemillError):
    """A process of the driver that ended by itself: out of memory, or in native code."""

    exit_code = 70


class InternalError(TidemillError):
    """A state that Tidemill assumed to be impossible."""

    exit_code = 70


class FencedError(TidemillError):
    """A driver that must not write, because a newer driver or another generation has taken over."""

    exit_code = 75
