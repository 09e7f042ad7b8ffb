"""Advice on the pace of batches: their duration, and the part of a backlog that each may take. Pure."""

from __future__ import annotations

import math
from datetime import timedelta
from statistics import median

from tidemill.checkpoint.doctor.advice_rule import MOST, Facts, Rule
from tidemill.checkpoint.doctor.measured import LEAST_BATCHES, Measured, words_of
from tidemill.spec.units import format_duration

# Minimum duration of a late batch, in triggers: more than a short busy period.
LATE_TRIGGERS = 2

# A full batch that takes at most the first share of the trigger leaves time for a larger one. The larger
# batch may take the second share.
SOON_DONE = 0.5
WELL_USED = 0.7

# A batch that took this many triggers and this many milliseconds took a whole backlog. With a limit, it would
# be many batches.
HUGE_TRIGGERS = 10
HUGE_MILLISECONDS = 60_000

# A start is slow if its first batch took this many times as long as a later one, with at most twice the rows.
COLD_TIMES = 5
COLD_ROWS = 2


def _late(m: Measured) -> Facts | None:
    if m.falls_behind or not m.trigger or not m.is_enough or m.milliseconds < LATE_TRIGGERS * m.trigger:
        return None
    return {
        "batch": words_of(m.milliseconds),
        "trigger": words_of(m.trigger),
        "times": round(m.milliseconds / m.trigger, 1),
        "rows": m.rows,
    }


def _held_back(m: Measured) -> Facts | None:
    if m.backlog is None or not m.is_at_limit or m.milliseconds > SOON_DONE * m.budget:
        return None
    return {
        "limit": m.limit,
        "batch": words_of(m.milliseconds),
        "trigger": words_of(m.trigger),
        "behind": _backlog(m),
    }


def _larger_limit(m: Measured) -> str:
    # The number of rows that fill most of the trigger, rounded to two digits.
    fitting = (m.limit or 0) * WELL_USED * m.budget / max(m.milliseconds, 1)
    return f"raise `max_offsets_per_batch` of its sources, to {_round(fitting)} together"


def _overloaded(m: Measured) -> Facts | None:
    if not m.falls_behind or _held_back(m) is not None:
        return None
    return {
        "batch": words_of(m.milliseconds),
        "rows": m.rows,
        "rows_per_second": _rate(m.rows, m.milliseconds),
        "behind": _backlog(m),
        "cores": m.cores,
    }


def _huge(m: Measured) -> Facts | None:
    source = [stream.spec.source for stream in m.pipeline.streams.values()]
    if m.limit is not None or not all(one.is_kafka for one in source) or not m.trigger:
        return None
    longest = max(m.batches, key=lambda batch: batch.milliseconds, default=None)
    if longest is None or longest.milliseconds < max(HUGE_TRIGGERS * m.trigger, HUGE_MILLISECONDS):
        return None
    return {
        "batch": words_of(longest.milliseconds),
        "rows": longest.rows,
        "trigger": words_of(m.trigger),
        "limit": "none",
    }


def _cold(m: Measured) -> Facts | None:
    first, later = m.batches[:1], m.batches[1:]
    if not first or not first[0].is_first or len(later) < LEAST_BATCHES:
        return None
    usual = median(batch.milliseconds for batch in later)
    rows = median(batch.rows for batch in later)
    is_cold = first[0].milliseconds >= max(COLD_TIMES * usual, m.budget) and first[0].rows <= COLD_ROWS * rows
    return {"first": words_of(first[0].milliseconds), "later": words_of(round(usual))} if is_cold else None


def _first_limit(m: Measured) -> str:
    longest = max(m.batches, key=lambda batch: batch.milliseconds)
    fitting = longest.rows * m.trigger / longest.milliseconds
    return (
        f"declare `max_offsets_per_batch` of its sources, about {_round(fitting)} together: what has piled "
        "up is many batches then, and a crash repeats only one of them"
    )


def _overhead(m: Measured) -> Facts | None:
    beside = [batch.milliseconds - batch.work_milliseconds for batch in m.batches]
    share = sum(beside) / max(sum(batch.milliseconds for batch in m.batches), 1)
    if not m.is_stream or not m.is_pressed or share < MOST:
        return None
    return {"batch": words_of(m.milliseconds), "beside_its_work": f"{share:.0%}", "rows": m.rows}


def _longer_trigger(m: Measured) -> str:
    # Half as long again, in whole seconds, because a batch of more rows takes a little longer.
    seconds = math.ceil(1.5 * m.milliseconds / 1000)
    return f"raise `run.trigger`, to {format_duration(timedelta(seconds=seconds))}"


def _backlog(m: Measured) -> str:
    first, last = m.backlog or (0, 0)
    return f"{first} -> {last}"


def _rate(rows: int, milliseconds: int) -> int:
    return round(1000 * rows / max(milliseconds, 1))


def _round(count: float) -> int:
    """Round down to two digits, to be readable."""
    digits = max(len(str(int(count))) - 2, 0)
    unit = int(10**digits)
    return max(int(count) // unit * unit, 1)


PACE_RULES = (
    Rule(
        "TIDE-TUNE-001",
        "A batch takes longer than its trigger, so that results come later than declared.",
        _late,
        lambda m: (
            f"{_longer_trigger(m)}, or choose a larger `run.size` than {m.pipeline.spec.run.size}; a "
            "finding about a sink, a partition or the state comes first"
        ),
    ),
    Rule(
        "TIDE-TUNE-002",
        "Records wait although there is time: batches are as large as they may be, and soon done.",
        _held_back,
        _larger_limit,
        lambda m: m.falls_behind,
    ),
    Rule(
        "TIDE-TUNE-003",
        "It cannot keep up: more records come than its batches can take.",
        _overloaded,
        lambda m: f"choose a larger `run.size` than {m.pipeline.spec.run.size}; mind the source's retention",
    ),
    Rule(
        "TIDE-TUNE-004",
        "Without a limit one batch has taken all that had piled up, and very long.",
        _huge,
        _first_limit,
        lambda _: False,
    ),
    Rule(
        "TIDE-TUNE-009",
        "Batches take their whole time budget, and most of it is for planning and the checkpoint's logs.",
        _overhead,
        lambda m: f"{_longer_trigger(m)}: fewer and larger batches; see that the storage answers fast",
    ),
    Rule(
        "TIDE-TUNE-014",
        "The first batch after the start took much longer than those after it: caches were cold.",
        _cold,
        lambda _: (
            "nothing, where starts are rare: at each, classes are compiled and state is read from storage. "
            "Else see why it starts (`tidemill status`), and bring changes together"
        ),
        lambda _: False,
    ),
)
