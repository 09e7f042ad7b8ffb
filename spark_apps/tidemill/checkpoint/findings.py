"""A finding: a present or expected problem, reported by the gate, the doctor or the retention policy."""

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
    """A problem or fact for the operator.

    `error`: a start would be refused, or data is in danger now. `warning`: this will happen unless someone
    acts. `note`: for information, not urgent.

    Args:
        finding_id: Stable id such as `TIDE-CKPT-054`.
        severity: One of the three severities above.
        pipeline: Pipeline or state folder with the problem.
        problem: One sentence.
        facts: Named values. Never a payload, never a secret.
        fix: Next action for the reader.
        runbook: Name of a page in `dags/runbooks/`, without the extension.
    """

    finding_id: str
    severity: Severity
    pipeline: str
    problem: str
    facts: Mapping[str, object] = field(default_factory=dict)
    fix: str = ""
    runbook: str = ""

    def as_error(self) -> GateRefusedError:
        """Return the error that refuses a start."""
        return GateRefusedError(
            self.finding_id,
            f"{self.problem} Nothing was started, read or written.",
            facts=self.facts,
            fix=self.fix,
            runbook=self.runbook,
        )

    def document(self) -> dict[str, Any]:
        """Return the finding as plain data."""
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
    """Sort errors first, then warnings, then notes; then by pipeline and id."""
    return sorted(findings, key=lambda f: (SEVERITIES.index(f.severity), f.pipeline, f.finding_id))
