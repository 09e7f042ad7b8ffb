"""One result however rows come: all at once, cut into batches at random, shuffled within each.

What is compared: the rows of every table, of every sink that is given each row once, and what was rejected
with its reason; not the order of rows, and not what a sink is given of a result that it sees change (mode
update). A cut is tried only where no row behind it would come later than the watermark allows: a row that is
late may rightly be missing.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any

from tidemill.errors import UsageError
from tidemill.names import ASIDE_OUTPUTS, LATE_OUTPUT, QUARANTINE_OUTPUT
from tidemill.testing.pipeline_run import PipelineRun, find_declared
from tidemill.testing.rows import Row

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Most cuts of one split: each is a run of a second or two.
MOST_CUTS = 2

# Most runs that look for a smaller split once one fails.
SHRINKING_RUNS = 15

# Most rows of a difference that are shown.
SHOWN_ROWS = 5

Result = dict[str, Counter[str]]


@dataclass(frozen=True)
class Split:
    """How rows come.

    Args:
        cuts: Before which rows a new batch begins, ascending.
        shuffle: Seed of the order within each batch; 0 leaves it as it is.
    """

    cuts: tuple[int, ...] = ()
    shuffle: int = 0

    def batches(self, count: int) -> list[list[int]]:
        """Places of so many rows, batch by batch."""
        ends = [*self.cuts, count]
        batches = [list(range(start, end)) for start, end in zip([0, *self.cuts], ends, strict=True)]
        if self.shuffle:
            chance = random.Random(self.shuffle)  # noqa: S311  # repeatable, no secret
            for batch in batches:
                chance.shuffle(batch)
        return batches

    def __str__(self) -> str:
        cuts = ", ".join(map(str, self.cuts))
        cut = f"cut before {'row' if len(self.cuts) == 1 else 'rows'} {cuts}" if cuts else "one batch"
        return f"{cut}, each batch shuffled (seed {self.shuffle})" if self.shuffle else cut


def assert_same_result(
    file: str | os.PathLike[str],
    rows: Sequence[Row],
    folder: str | os.PathLike[str],
    spark: SparkSession,
    splits: int = 4,
) -> None:
    """Assert that a pipeline gives the same rows for one batch and for random splits of it.

    Args:
        file: The pipeline's, as of `pipeline`.
        rows: In an order in which they may arrive, for the one source.
        folder: Of the runs, each with a folder of its own.
        spark: The session of the test run.
        splits: How many are tried; the same ones each time.

    Raises:
        AssertionError: With the smallest split found that gives another result, and the rows that differ.
        UsageError: TIDE-TEST-006, if nothing can be compared so.
    """
    declared = find_declared(Path(file))
    sources = 1 if declared.spec.sources is None else len(declared.spec.sources)
    if len(rows) < 2 or sources > 1:
        raise _nothing_to_compare(
            "There is nothing to compare: it takes two rows at least, and one source.",
            {"pipeline": declared.name, "rows": len(rows), "sources": sources},
            "give more rows; test a pipeline of several sources by add_rows and advance",
        )
    event_time = declared.spec.event_time
    times = [None if event_time is None else time_of(row.get(event_time.column)) for row in rows]
    cuts = possible_cuts(times, timedelta(0) if event_time is None else event_time.watermark)
    Path(folder).mkdir(parents=True, exist_ok=True)

    def new_run() -> PipelineRun:
        return PipelineRun(declared, Path(mkdtemp(dir=folder, prefix="run_")), spark)

    first = new_run()
    items = first.items(rows)
    expected = result_of(first, items, Split())
    if not any(rows for output, rows in expected.items() if output not in ASIDE_OUTPUTS):
        raise _nothing_to_compare(
            "One batch of these rows gives no row anywhere, so there is nothing to compare.",
            {"pipeline": declared.name, "rows": len(rows)},
            "add rows that end its windows: later ones than the watermark waits for",
        )

    def difference(split: Split) -> str:
        return explain(expected, result_of(new_run(), items, split))

    found = smallest_failure(difference, cuts, splits)
    if found is not None:
        split, why = found
        raise AssertionError(
            f"{declared.name}: {len(rows)} rows give another result than in one batch if they come as: "
            f"{split}{why}"
        )


def time_of(value: object) -> datetime | None:
    """When a row happened; None where it does not say so.

    Raises:
        UsageError: TIDE-TEST-006, if it is no time.
    """
    try:
        moment = value if value is None or isinstance(value, datetime) else datetime.fromisoformat(str(value))
    except ValueError as error:
        raise _nothing_to_compare(
            "The event time of a row is no time, so it is not known which rows would be late.",
            {"reason": error},
            "write a datetime, or ISO 8601",
        ) from error
    return moment.replace(tzinfo=UTC) if moment is not None and moment.tzinfo is None else moment


def possible_cuts(times: Sequence[datetime | None], watermark: timedelta) -> list[int]:
    """Rows before which a batch may begin without making any of them late; all of them without times."""
    found = []
    for cut in range(1, len(times)):
        seen = [moment for moment in times[:cut] if moment is not None]
        still = [moment for moment in times[cut:] if moment is not None]
        if not seen or not still or min(still) >= max(seen) - watermark:
            found.append(cut)
    return found


def result_of(run: PipelineRun, items: Sequence[Any], split: Split) -> Result:
    """Run the pipeline; its rows by output."""
    for batch in split.batches(len(items)):
        run.add_items(items[place] for place in batch)
        run.advance()
    spec = run.resolved.spec
    result = {sink.table: _counted(run.table(sink.table)) for sink in spec.delta_sinks}
    for declared, sink in zip(run.declared.spec.sinks, spec.sinks, strict=True):
        if sink.memory is not None and (sink.memory.mode or spec.output_mode) != "update":
            result[declared.place] = _counted(run.sent(declared.place))
    rejected = [{"reason": row["reason"], "value": row["value"]} for row in run.quarantine()]
    late = Counter(["a late row"] * len(run.late()))
    return {**result, QUARANTINE_OUTPUT: _counted(rejected), LATE_OUTPUT: late}


def explain(expected: Result, found: Result) -> str:
    """What differs, output by output; empty if nothing does."""
    lines = []
    for output, rows in expected.items():
        for where, more in (("in one batch", rows - found[output]), ("so", found[output] - rows)):
            shown = [f"    {row}" for row in sorted(more.elements())[:SHOWN_ROWS]]
            if shown:
                lines += [f"  {output}: {more.total()} rows only {where}", *shown]
    return "".join(f"\n{line}" for line in lines)


def smallest_failure(
    difference: Callable[[Split], str], cuts: Sequence[int], splits: int
) -> tuple[Split, str] | None:
    """Try so many splits; of those that fail, the smallest one that was found, and its difference.

    Fewer cuts are smaller, and then an order that is not shuffled.

    Raises:
        UsageError: TIDE-TEST-008, without hypothesis.
    """
    try:
        from hypothesis import HealthCheck, Phase, given, settings
        from hypothesis import strategies as st
    except ImportError as error:
        raise UsageError(
            "TIDE-TEST-008",
            "The parity kit needs hypothesis, which chooses the splits.",
            fix="install tidemill with the extra `testing`",
        ) from error
    # The first run is this one.
    outcomes = {Split(): ""}

    def outcome(split: Split) -> str:
        if split not in outcomes:
            failed = any(outcomes.values())
            spent = len(outcomes) > splits + (SHRINKING_RUNS if failed else 0)
            outcomes[split] = "" if spent else difference(split)
        return outcomes[split]

    some_cuts = (
        st.lists(st.sampled_from(cuts), unique=True, max_size=MOST_CUTS).map(sorted).map(tuple)
        if cuts
        else st.just(())
    )

    @settings(
        max_examples=splits + 1,
        phases=(Phase.generate, Phase.shrink),
        # The same splits each time: a test that fails, fails again.
        derandomize=True,
        database=None,
        deadline=None,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.builds(Split, some_cuts, st.integers(0, 2**16)))
    def search(split: Split) -> None:
        if outcome(split):
            raise _DiffersError(split)

    try:
        search()
    except _DiffersError as failure:
        return failure.split, outcomes[failure.split]
    return None


class _DiffersError(Exception):
    """Tells hypothesis that a split fails."""

    def __init__(self, split: Split) -> None:
        super().__init__(str(split))
        self.split = split


def _nothing_to_compare(problem: str, facts: Mapping[str, object], fix: str) -> UsageError:
    return UsageError("TIDE-TEST-006", problem, facts=facts, fix=fix)


def _counted(rows: Sequence[Row]) -> Counter[str]:
    return Counter(str(dict(row)) for row in rows)
