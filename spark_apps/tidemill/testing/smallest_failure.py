"""Try random arrivals of rows, and find a small one that fails."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tidemill.errors import UsageError
from tidemill.testing.arrivals import Arrival

# Maximum number of cuts in an arrival: each is a run of a second or two.
MOST_CUTS = 2

# Maximum number of runs that search for a smaller arrival after one has failed.
SHRINKING_RUNS = 15


@dataclass(frozen=True)
class Choices:
    """The choices for arrivals.

    Args:
        cuts: Rows before which a batch may begin.
        tries: Number of arrivals to try.
        steps: Number of steps of a run, after any of which it may crash; 0 for no crashes.
        backfill: True if each is tried with backfills.
    """

    cuts: Sequence[int]
    tries: int
    steps: int = 0
    backfill: bool = False


def smallest_failure(difference: Callable[[Arrival], str], choices: Choices) -> tuple[Arrival, str] | None:
    """Try arrivals; return the smallest failing one that was found, and its difference.

    Fewer cuts are smaller, then an unshuffled order, then no further events.

    Raises:
        UsageError: TIDE-TEST-008, without hypothesis.
    """
    # The first run has this arrival.
    outcomes = {Arrival(): ""}

    def outcome(arrival: Arrival) -> str:
        if arrival not in outcomes:
            failed = any(outcomes.values())
            spent = len(outcomes) > choices.tries + (SHRINKING_RUNS if failed else 0)
            outcomes[arrival] = "" if spent else difference(arrival)
        return outcomes[arrival]

    found = _search(choices, outcome)
    if found is None:
        return None
    plain = Arrival()
    for simpler in ("cuts", "shuffle", "crash", "backfill"):
        candidate = replace(found, **{simpler: getattr(plain, simpler)})
        found = candidate if outcome(candidate) else found
    return found, outcomes[found]


def _search(choices: Choices, outcome: Callable[[Arrival], str]) -> Arrival | None:
    try:
        from hypothesis import HealthCheck, Phase, given, settings
    except ImportError as error:
        raise UsageError(
            "TIDE-TEST-008",
            "The parity kit needs hypothesis, which chooses how rows come.",
            fix="install tidemill with the extra `testing`",
        ) from error

    @settings(
        max_examples=choices.tries + 1,
        phases=(Phase.generate, Phase.shrink),
        # The same arrivals each time, so that a failing test fails again.
        derandomize=True,
        database=None,
        deadline=None,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    @given(_arrivals(choices))
    def search(arrival: Arrival) -> None:
        if outcome(arrival):
            raise _DiffersError(arrival)

    try:
        search()
    except _DiffersError as failure:
        return failure.arrival
    return None


def _arrivals(choices: Choices) -> Any:
    """Return the strategy of arrivals; with crashes or backfills, there are several batches if possible."""
    from hypothesis import strategies as st

    cuts: Any = st.just(())
    if choices.cuts:
        fewest = 1 if choices.steps or choices.backfill else 0
        one = st.sampled_from(_from_the_middle(choices.cuts))
        cuts = st.lists(one, unique=True, min_size=fewest, max_size=MOST_CUTS).map(sorted).map(tuple)
    steps = _from_the_middle(range(1, choices.steps + 1))
    crash = st.sampled_from(steps) if steps else st.just(0)
    return st.builds(Arrival, cuts, st.integers(0, 2**16), crash, st.just(choices.backfill))


def _from_the_middle(values: Sequence[int]) -> list[int]:
    """Sort values from the middle, because hypothesis tries the first ones first, and tries may be few."""
    middle = len(values) // 2
    return [values[place] for place in sorted(range(len(values)), key=lambda place: abs(place - middle))]


class _DiffersError(Exception):
    """Reports to hypothesis that an arrival fails."""

    def __init__(self, arrival: Arrival) -> None:
        super().__init__(str(arrival))
        self.arrival = arrival
