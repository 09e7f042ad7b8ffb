"""What the findings about a new version come to: one of four words, and what to do. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from tidemill.checkpoint.findings import Finding, worst_first

Answer = Literal["compatible", "needs repartition", "needs new generation", "refused"]

# The gate's words for a change that goes well once a person says that it is meant.
TO_ACCEPT = "TIDE-CKPT-093"

# What each finding that forbids a start asks for; any other is a refusal: something is wrong that no new
# generation cures, or that must be looked at first.
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
    """Whether a new version can take over.

    Args:
        answer: `compatible`: it goes on from the checkpoint. `needs repartition`: after that verb.
            `needs new generation`: only from a beginning of its own. `refused`: not as it is.
        findings: Why, and what to know, worst first.
    """

    answer: Answer
    findings: tuple[Finding, ...] = ()

    @property
    def must_be_accepted(self) -> bool:
        """Whether it is compatible, but a person has to say first that the change is meant."""
        return self.answer == "compatible" and self.objection is not None

    @property
    def objection(self) -> Finding | None:
        """What a start would be refused for now; None if it would go through."""
        errors = [finding for finding in self.findings if finding.severity == "error"]
        return max(errors, key=lambda finding: _MILDEST_FIRST.index(_asked(finding)), default=None)


def verdict_of(findings: Iterable[Finding]) -> Verdict:
    """The verdict; the worst finding decides."""
    found = worst_first(list(findings))
    asked = [_asked(finding) for finding in found if finding.severity == "error"]
    return Verdict(max(asked, key=_MILDEST_FIRST.index, default="compatible"), tuple(found))


def _asked(finding: Finding) -> Answer:
    return _ASKS.get(finding.finding_id, "refused")
