"""One run of a pipeline for a comparison: its rows by output, and the late rows of the input."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from tidemill.names import LINEAGE_COLUMNS, QUARANTINE_OUTPUT
from tidemill.sinks.batch_commit import StepDone
from tidemill.testing.arrivals import Arrival, Happened
from tidemill.testing.beside import backfill_closed, started_again
from tidemill.testing.pipeline_run import PipelineRun
from tidemill.testing.rows import Row

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Result = dict[str, Counter[str]]

# Offset and timestamp of a record differ between runs with a real topic.
_PLACES = frozenset((*LINEAGE_COLUMNS, "kafka_timestamp"))


@dataclass(frozen=True)
class Handed:
    """The input of a run.

    Args:
        items: Rows in the form of their sources.
        times: Stream and event time of each row.
    """

    items: Sequence[Any]
    times: Sequence[Happened]

    def without(self, late: frozenset[int]) -> Handed:
        """Return the input without the rows at some positions."""
        kept = [place for place in range(len(self.items)) if place not in late]
        return Handed([self.items[place] for place in kept], [self.times[place] for place in kept])


class ParityRun:
    """A run that crashes, restarts and is recomputed as an arrival says.

    Args:
        run: The pipeline's run, in a separate folder.
        spark: The session.
        handed: The input.
        arrival: The arrival of the input.
    """

    def __init__(self, run: PipelineRun, spark: SparkSession, handed: Handed, arrival: Arrival) -> None:
        self._run = run
        self._spark = spark
        self._times = handed.times
        self._arrival = arrival
        self._batches = arrival.batches(len(handed.items))
        # For each of Spark's batches, the index of its input batch.
        self._handed_in: list[int] = []
        # Number of steps in a run without a crash.
        self.steps = 0
        for place, batch in enumerate(self._batches):
            for number in batch:
                run.add_items([handed.items[number]], handed.times[number].stream)
            self._advance(place)

    def _advance(self, place: int) -> None:
        crash = self._arrival.crash
        newest = started_again(self._run_on, crash)
        self._handed_in += [place] * (newest + 1 - len(self._handed_in))
        if self._arrival.backfill:
            seen = [self._times[number].at for batch in self._batches[: place + 1] for number in batch]
            started_again(partial(backfill_closed, self._spark, self._run.resolved, seen), crash)

    def _run_on(self, step_done: StepDone) -> int:
        """Run to the end of the input; return the newest batch."""

        def count(step: str) -> None:
            self.steps += 1
            step_done(step)

        status = self._run.advance(count)
        return -1 if status.batch_id is None else status.batch_id

    def late(self) -> frozenset[int]:
        """Return the positions of the rows that are in the table of late rows.

        Raises:
            AssertionError: If the table has rows that are not in the input.
        """
        found: set[int] = set()
        rows = self._run.late()
        # Only the times of a batch's rows decide which of them are late.
        for batch, at in {(row["batch_id"], row["event_time"]) for row in rows}:
            handed_in = self._batches[self._handed_in[batch]]
            found |= {number for number in handed_in if self._times[number].at == at}
        if len(found) != len(rows):
            raise AssertionError(
                f"{self._run.declared.name}: the table of late rows has {len(rows)}, and {len(found)} of the "
                f"rows handed in have their times, if they come as: {self._arrival}"
            )
        return frozenset(found)

    def result(self) -> Result:
        """Return the rows by output, without the late ones."""
        run = self._run
        spec = run.resolved.spec
        result = {sink.table: _counted(run.table(sink.table)) for sink in spec.delta_sinks}
        for declared, sink in zip(run.declared.spec.sinks, spec.sinks, strict=True):
            if sink.memory is not None and (sink.memory.mode or spec.output_mode) != "update":
                result[declared.place] = _counted(run.sent(declared.place))
        rejected = [{"reason": row["reason"], "value": row["value"]} for row in run.quarantine()]
        return {**result, QUARANTINE_OUTPUT: _counted(rejected)}


def _counted(rows: Sequence[Row]) -> Counter[str]:
    return Counter(str({name: row[name] for name in row if name not in _PLACES}) for row in rows)
