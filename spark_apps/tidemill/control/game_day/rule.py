"""Which pipelines a game day can be played with, and what is drilled. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Literal

from tidemill.errors import UsageError
from tidemill.spec.project import Pipeline
from tidemill.spec.sources import Source

# In this order: each finds the copy's stream at work and leaves it so.
DRILLS = ("kill", "drain", "rewind", "restore", "backfill")

Outcome = Literal["recovered", "failed", "not possible"]


class NotPossibleError(Exception):
    """A drill for which the copy has not what it takes."""


class NotProvenError(Exception):
    """The copy's stream is not proven to be at work."""


@dataclass(frozen=True)
class DrillResult:
    """What came of one drill.

    Args:
        drill: Which.
        outcome: Whether the copy's stream was at work again afterwards, by proof of its progress.
        seconds: From the fault, or the first step of the procedure, to that proof.
        told: The proof, or why there is none.
    """

    drill: str
    outcome: Outcome
    seconds: float
    told: str


@dataclass(frozen=True)
class GameDay:
    """One game day.

    Args:
        pipeline: With a copy of which it was played.
        run_id: Names it.
        at: When it began.
        by: Who asked.
        results: Of each drill; the first one is the copy's own start.
    """

    pipeline: str
    run_id: str
    at: datetime
    by: str
    results: tuple[DrillResult, ...]

    def as_document(self) -> dict[str, Any]:
        """As plain data: Airflow makes a text of a tuple."""
        results = [asdict(result) for result in self.results]
        return {**asdict(self), "at": self.at.isoformat(), "results": results}

    @property
    def failed(self) -> list[str]:
        """Drills after which the stream was not at work."""
        return [result.drill for result in self.results if result.outcome == "failed"]


def check_drills(asked: Sequence[str]) -> tuple[str, ...]:
    """The drills that are asked for, in their order; all if none is named.

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
    """Why a copy of a pipeline would touch what is not its own, or could not run; empty if it can be played.

    The copy has the same declaration below another root. So it must read from outside the root, and write
    nothing but tables.
    """
    spec = pipeline.spec
    reasons = [] if spec.run.mode == "stream" else [f"it is no stream but {spec.run.mode}"]
    reasons += [f"its copy would write to {sink.kind}, too" for sink in spec.sinks if sink.delta is None]
    reasons += [f"its copy would not have the table {table}" for table in sorted(spec.tables.values())]
    for stream in (*spec.streams.values(), *spec.joined_files.values()):
        reasons += _why_not_read(stream.source)
    return reasons


def playable(pipelines: Iterable[Pipeline]) -> list[str]:
    """Names of the pipelines that a game day can be played with."""
    return [pipeline.name for pipeline in pipelines if not why_not(pipeline)]


def _why_not_read(source: Source) -> list[str]:
    if source.is_kafka:
        grouped = any(name.endswith("group.id") for name in source.chosen.options)
        return ["its copy would be in the same consumer group"] if grouped else []
    if source.files is None:
        return [f"its source {source.kind} cannot be read by two"]
    return [] if "://" in source.files.path else ["its copy would not have its files"]
