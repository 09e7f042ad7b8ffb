"""Turn the findings about a new version into one of four answers and a next action. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from tidemill.checkpoint.findings import Finding, worst_first

Answer = Literal["compatible", "needs repartition", "needs new generation", "refused"]

# The gate's finding for a change that is safe once an operator accepts it.
TO_ACCEPT = "TIDE-CKPT-093"

# Answer for each finding that forbids a start. Any other finding is a refusal: a problem that no new
# generation cures, or that must be examined first.
_ASKS: dict[str, Answer] = {
    TO_ACCEPT: "compatible",
    "TIDE-CKPT-026": "needs repartition",
    "TIDE-CTRL-084": "needs repartition",
    "TIDE-CKPT-025": "needs new generation",
    "TIDE-CKPT-027": "needs new generation",
    "TIDE-CKPT-096": "needs new generation",
    "TIDE-CKPT-097": "needs new generation",
    "TIDE-CKPT-098": "needs new generation",
    "TIDE-CTRL-080": "needs new generation",
    "TIDE-CTRL-081": "needs new generation",
    "TIDE-CTRL-082": "needs new generation",
    "TIDE-CTRL-083": "needs new generation",
    "TIDE-CTRL-085": "needs new generation",
}
_MILDEST_FIRST: tuple[Answer, ...] = ("compatible", "needs repartition", "needs new generation", "refused")


@dataclass(frozen=True)
class Verdict:
    """The answer if a new version can take over.

    Args:
        answer: `compatible`: it continues from the checkpoint. `needs repartition`: it continues after that
            operation. `needs new generation`: it needs a new beginning. `refused`: it cannot start as it is.
        findings: Reasons and notes, worst first.
    """

    answer: Answer
    findings: tuple[Finding, ...] = ()

    @property
    def must_be_accepted(self) -> bool:
        """Return True if the version is compatible, but an operator must accept the change first."""
        return self.answer == "compatible" and self.objection is not None

    @property
    def objection(self) -> Finding | None:
        """Return the finding that would refuse a start now; None if a start would succeed."""
        errors = [finding for finding in self.findings if finding.severity == "error"]
        return max(errors, key=lambda finding: _MILDEST_FIRST.index(_asked(finding)), default=None)


def verdict_of(findings: Iterable[Finding]) -> Verdict:
    """Return the verdict; the worst finding decides."""
    found = worst_first(list(findings))
    asked = [_asked(finding) for finding in found if finding.severity == "error"]
    return Verdict(max(asked, key=_MILDEST_FIRST.index, default="compatible"), tuple(found))


def _asked(finding: Finding) -> Answer:
    return _ASKS.get(finding.finding_id, "refused")
