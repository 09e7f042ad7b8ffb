"""Compare the results of a pipeline for different arrivals of the same rows.

The rows arrive in one batch, in random splits, and shuffled within each batch. On request, runs crash and
start again, and a backfill recomputes what they have written.

The comparison covers the rows of every table, of every sink that receives each row once, and the rejected
records with their reasons. It does not cover the order of rows, or the intermediate results that a sink
receives in mode update. A sink other than a table may receive rows again after a crash, so there each
distinct row counts once.

Each batch is a run that starts from the checkpoint of the previous one, as with a schedule. If there are
several streams, a batch may have rows of only one.

A row that is later than the watermark allows may rightly be missing. So splits that would make rows late are
skipped, unless `late: table` is set everywhere. In that case, the rows that are not in the table of late rows
must give the same result as in one batch. A backfill adds late rows, so with backfills no row is late.
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

# Maximum number of rows of a difference to show.
SHOWN_ROWS = 5


class Beside(TypedDict, total=False):
    """Further events.

    Args:
        with_crashes: Each run crashes after a step of its batches, and is started again.
        with_backfill: After each batch, a backfill recomputes what no later row can change.
        broker: Broker for real topics instead of stand-ins, `tidemill_broker`.
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
        file: The pipeline file, as for `pipeline`.
        rows: Rows in a possible order of arrival; with several streams, each row with the name of its stream,
            such as `("orders", {"id": 1})`.
        folder: Folder of the runs, each of which gets a subfolder.
        spark: The session of the test run.
        splits: Number of splits to try, the same ones each time.
        **beside: `with_crashes`, `with_backfill`, `broker`; see `Beside`.

    Raises:
        AssertionError: If a split gives another result; names the smallest such split and the rows that
            differ.
        UsageError: TIDE-TEST-006, if nothing can be compared this way.
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
    """Runs of one pipeline with the same rows, compared with the run that has them all in one batch.

    Args:
        declared: The pipeline file.
        folder: Folder of the runs.
        spark: The session.
        rows: Rows in a possible order of arrival, each with the name of its stream.
        broker: Broker for real topics.
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
        # Result of the rows that are not late in one batch, by the set of late rows.
        self._expected = {whole.late(): whole.result()}
        if not any(rows for name, rows in whole.result().items() if name not in ASIDE_OUTPUTS):
            raise nothing_to_compare(
                "One batch of these rows gives no row anywhere, so there is nothing to compare.",
                {"pipeline": declared.name, "rows": len(rows)},
                "add rows that end its windows: later ones than the watermark waits for",
            )

    def cuts(self, *, may_be_late: bool) -> list[int]:
        """Return the rows before which a batch may begin."""
        if may_be_late and self._declared.spec.keeps_late:
            return list(range(1, len(self._handed.items)))
        watermarks = {name: time.watermark for name, time in self._times.items()}
        return possible_cuts(self._handed.times, watermarks)

    def difference(self, arrival: Arrival) -> str:
        """Return the difference from the result of one batch; empty if there is none."""
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
        """Count each distinct row once for sinks other than tables."""
        tables = {*ASIDE_OUTPUTS, *(sink.table for sink in self._declared.spec.delta_sinks)}
        return {name: rows if name in tables else Counter(set(rows)) for name, rows in result.items()}


def explain(expected: Result, found: Result) -> str:
    """Return the differences, by output; empty if there are none."""
    lines = []
    for output, rows in expected.items():
        for where, more in (("in one batch", rows - found[output]), ("so", found[output] - rows)):
            shown = [f"    {row}" for row in sorted(more.elements())[:SHOWN_ROWS]]
            if shown:
                lines += [f"  {output}: {more.total()} rows only {where}", *shown]
    return "".join(f"\n{line}" for line in lines)
