"""What is wrong or will be: one finding of the doctor or of the retention policy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tidemill.errors import GateRefusedError

Severity = Literal["error", "warning", "note"]

# Worst first.
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")


@dataclass(frozen=True)
class Finding:
    """Something that a person should know or do.

    `error`: a start would be refused, or data is in danger now. `warning`: it will be unless someone acts.
    `note`: worth knowing, nothing to do in a hurry.

    Args:
        finding_id: Stable id such as `TIDE-CKPT-054`.
        severity: As above.
        pipeline: Pipeline or state folder it is about.
        problem: One sentence.
        facts: What was found, as named values. Never a payload, never a secret.
        fix: What the reader can do now.
        runbook: Name of a page in `dags/runbooks/`, without the ending.
    """

    finding_id: str
    severity: Severity
    pipeline: str
    problem: str
    facts: Mapping[str, object] = field(default_factory=dict)
    fix: str = ""
    runbook: str = ""

    def as_error(self) -> GateRefusedError:
        """As what a start is refused with."""
        return GateRefusedError(
            self.finding_id,
            f"{self.problem} Nothing was started, read or written.",
            facts=self.facts,
            fix=self.fix,
            runbook=self.runbook,
        )

    def document(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "id": self.finding_id,
            "severity": self.severity,
            "pipeline": self.pipeline,
            "problem": self.problem,
            "facts": dict(self.facts),
            "fix": self.fix,
            "runbook": self.runbook,
        }


def worst_first(findings: list[Finding]) -> list[Finding]:
    """Errors, then warnings, then notes; by pipeline and id among equals."""
    return sorted(findings, key=lambda f: (SEVERITIES.index(f.severity), f.pipeline, f.finding_id))
