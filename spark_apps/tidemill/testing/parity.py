"""One result however rows come: all at once, cut into batches at random, shuffled within each.

Where a test asks for it, runs crash and start again, and a backfill computes again what they have written.

What is compared: the rows of every table, of every sink that is given each row once, and what was rejected
with its reason; not the order of rows, and not what a sink is given of a result that it sees change (mode
update). A sink that is no table may be given rows again behind a crash, so each counts once there.

Each batch is a run that starts from the checkpoint of the one before, as by schedule. Of several streams, a
batch may have rows of one stream alone.

A row that comes later than the watermark allows may rightly be missing. So a cut is tried only where no row
behind it would be late; but with `late: table` everywhere, and then the rows that are not in the table of
late ones must give what they give in one batch. A backfill brings late rows in, so beside one no row comes
late.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, TypedDict, Unpack

from tidemill.names import ASIDE_OUTPUTS, SOURCE_NAME
from tidemill.testing.arrivals import Arrival, Happened, nothing_to_compare, possible_cuts, time_of
from tidemill.testing.broker import Broker
from tidemill.testing.declared import Declared, find_declared
from tidemill.testing.parity_run import Handed, ParityRun, Result
from tidemill.testing.pipeline_run import PipelineRun
from tidemill.testing.rows import Row
from tidemill.testing.smallest_failure import Choices, smallest_failure

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Most rows of a difference that are shown.
SHOWN_ROWS = 5


class Beside(TypedDict, total=False):
    """What else happens.

    Args:
        with_crashes: Each run crashes after a step of its batches, and is started again.
        with_backfill: Behind each batch, a backfill computes again what no later row can change.
        broker: Real topics in the place of stand-ins, `tidemill_broker`.
    """

    with_crashes: bool
    with_backfill: bool
    broker: Broker


def assert_same_result(
    file: str | os.PathLike[str],
    rows: Sequence[Row] | Sequence[tuple[str, Row]],
    folder: str | os.PathLike[str],
    spark: SparkSession,
    splits: int = 4,
    **beside: Unpack[Beside],
) -> None:
    """Assert that a pipeline gives the same rows for one batch and for random splits of it.

    Args:
        file: The pipeline's, as of `pipeline`.
        rows: In an order in which they may arrive; of several streams, each with the name of its stream:
            `("orders", {"id": 1})`.
        folder: Of the runs, each with a folder of its own.
        spark: The session of the test run.
        splits: How many are tried; the same ones each time.
        **beside: `with_crashes`, `with_backfill`, `broker`; see `Beside`.

    Raises:
        AssertionError: With the smallest split found that gives another result, and the rows that differ.
        UsageError: TIDE-TEST-006, if nothing can be compared so.
    """
    declared = find_declared(Path(file))
    tables = declared.spec.joined
    if len(rows) < 2 or tables:
        raise nothing_to_compare(
            "There is nothing to compare: it takes two rows at least, and no table or folder that is joined.",
            {"pipeline": declared.name, "rows": len(rows), "tables": ", ".join(tables) or "none"},
            "give more rows; test a pipeline that joins one by add_rows and advance",
        )
    Path(folder).mkdir(parents=True, exist_ok=True)
    named = [row if isinstance(row, tuple) else (SOURCE_NAME, row) for row in rows]
    comparison = _Comparison(declared, Path(folder), spark, named, beside.get("broker"))
    steps = comparison.steps if beside.get("with_crashes") else 0
    backfill = beside.get("with_backfill", False)
    choices = Choices(comparison.cuts(may_be_late=not backfill), splits, steps, backfill)
    found = smallest_failure(comparison.difference, choices)
    if found is not None:
        arrival, why = found
        raise AssertionError(
            f"{declared.name}: {len(rows)} rows give another result than in one batch if they come as: "
            f"{arrival}{why}"
        )


class _Comparison:
    """Runs of one pipeline with the same rows, against the one that has them all in one batch.

    Args:
        declared: The pipeline file.
        folder: Of the runs.
        spark: The session.
        rows: In an order in which they may arrive, each with the name of its stream.
        broker: Real topics.
    """

    def __init__(
        self,
        declared: Declared,
        folder: Path,
        spark: SparkSession,
        rows: Sequence[tuple[str, Row]],
        broker: Broker | None,
    ) -> None:
        self._declared, self._folder, self._spark, self._broker = declared, folder, spark, broker
        self._times = {
            name: stream.event_time
            for name, stream in declared.spec.streams.items()
            if stream.event_time is not None
        }
        self._handed = self._handed_in(rows)
        whole = self._run(self._handed, Arrival())
        self.steps = whole.steps
        # What the rows that are not late give in one batch, by those that are.
        self._expected = {whole.late(): whole.result()}
        if not any(rows for name, rows in whole.result().items() if name not in ASIDE_OUTPUTS):
            raise nothing_to_compare(
                "One batch of these rows gives no row anywhere, so there is nothing to compare.",
                {"pipeline": declared.name, "rows": len(rows)},
                "add rows that end its windows: later ones than the watermark waits for",
            )

    def cuts(self, *, may_be_late: bool) -> list[int]:
        """Before which rows a batch may begin."""
        if may_be_late and self._declared.spec.keeps_late:
            return list(range(1, len(self._handed.items)))
        watermarks = {name: time.watermark for name, time in self._times.items()}
        return possible_cuts(self._handed.times, watermarks)

    def difference(self, arrival: Arrival) -> str:
        """What is otherwise than in one batch; empty if nothing is."""
        run = self._run(self._handed, arrival)
        late = run.late()
        if late not in self._expected:
            self._expected[late] = self._run(self._handed.without(late), Arrival()).result()
        expected, found = self._expected[late], run.result()
        if arrival.crash:
            expected, found = self._each_once(expected), self._each_once(found)
        return explain(expected, found)

    def _handed_in(self, rows: Sequence[tuple[str, Row]]) -> Handed:
        run = self._new_run()
        items = [item for name, row in rows for item in run.items([row], name)]
        times = [Happened(name, self._time_of(name, row)) for name, row in rows]
        return Handed(items, times)

    def _time_of(self, stream: str, row: Row) -> datetime | None:
        time = self._times.get(stream)
        return None if time is None else time_of(row.get(time.column))

    def _run(self, handed: Handed, arrival: Arrival) -> ParityRun:
        return ParityRun(self._new_run(), self._spark, handed, arrival)

    def _new_run(self) -> PipelineRun:
        folder = Path(mkdtemp(dir=self._folder, prefix="run_"))
        return PipelineRun(self._declared, folder, self._spark, self._broker)

    def _each_once(self, result: Result) -> Result:
        """Of sinks that are no tables."""
        tables = {*ASIDE_OUTPUTS, *(sink.table for sink in self._declared.spec.delta_sinks)}
        return {name: rows if name in tables else Counter(set(rows)) for name, rows in result.items()}


def explain(expected: Result, found: Result) -> str:
    """What differs, output by output; empty if nothing does."""
    lines = []
    for output, rows in expected.items():
        for where, more in (("in one batch", rows - found[output]), ("so", found[output] - rows)):
            shown = [f"    {row}" for row in sorted(more.elements())[:SHOWN_ROWS]]
            if shown:
                lines += [f"  {output}: {more.total()} rows only {where}", *shown]
    return "".join(f"\n{line}" for line in lines)
