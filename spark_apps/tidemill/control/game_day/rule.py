"""The pipelines with which a game day can run, and the drills. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Literal

from tidemill.errors import UsageError
from tidemill.spec.project import Pipeline
from tidemill.spec.sources import Source

# Run in this order: each needs a running stream and leaves it running.
DRILLS = ("kill", "drain", "rewind", "restore", "backfill")

Outcome = Literal["recovered", "failed", "not possible"]


class NotPossibleError(Exception):
    """A drill that the copy does not support."""


class NotProvenError(Exception):
    """The copy's stream is not proven to run."""


@dataclass(frozen=True)
class DrillResult:
    """Result of one drill.

    Args:
        drill: The drill.
        outcome: `recovered` if the copy's stream was proven to make progress afterwards.
        seconds: Time from the fault, or the first step of the procedure, to that proof.
        told: The proof, or the reason why it is missing.
    """

    drill: str
    outcome: Outcome
    seconds: float
    told: str


@dataclass(frozen=True)
class GameDay:
    """One game day.

    Args:
        pipeline: The pipeline that was copied.
        run_id: Its id.
        at: Time at which it began.
        by: The requester.
        results: Results of the drills; the first one is the start of the copy.
    """

    pipeline: str
    run_id: str
    at: datetime
    by: str
    results: tuple[DrillResult, ...]

    def as_document(self) -> dict[str, Any]:
        """Return plain data with lists, because Airflow turns tuples into text."""
        results = [asdict(result) for result in self.results]
        return {**asdict(self), "at": self.at.isoformat(), "results": results}

    @property
    def failed(self) -> list[str]:
        """Return the drills after which the stream did not run."""
        return [result.drill for result in self.results if result.outcome == "failed"]


def check_drills(asked: Sequence[str]) -> tuple[str, ...]:
    """Return the requested drills in their order; all if none is named.

    Raises:
        UsageError: TIDE-CTRL-093.
    """
    unknown = sorted(set(asked) - {*DRILLS})
    if unknown:
        raise UsageError(
            "TIDE-CTRL-093",
            "There is no such drill.",
            facts={"drill": ascii(unknown[0][:80]), "known": ", ".join(DRILLS)},
            fix="name some of these, or none for all",
        )
    return tuple(drill for drill in DRILLS if not asked or drill in asked)


def why_not(pipeline: Pipeline) -> list[str]:
    """Return why a copy would touch data that is not its own, or could not run; empty if it can.

    The copy has the same declaration with another root. So it must read from outside the root, and write only
    tables.
    """
    spec = pipeline.spec
    reasons = [] if spec.run.mode == "stream" else [f"it is no stream but {spec.run.mode}"]
    reasons += [f"its copy would write to {sink.kind}, too" for sink in spec.sinks if sink.delta is None]
    reasons += [f"its copy would not have the table {table}" for table in sorted(spec.tables.values())]
    for stream in spec.parts.values():
        reasons += _why_not_read(stream.source)
    return reasons


def playable(pipelines: Iterable[Pipeline]) -> list[str]:
    """Return the names of the pipelines with which a game day can run."""
    return [pipeline.name for pipeline in pipelines if not why_not(pipeline)]


def _why_not_read(source: Source) -> list[str]:
    if source.is_kafka:
        grouped = any(name.endswith("group.id") for name in source.chosen.options)
        return ["its copy would be in the same consumer group"] if grouped else []
    if source.files is None:
        return [f"its source {source.kind} cannot be read by two"]
    return [] if "://" in source.files.path else ["its copy would not have its files"]
