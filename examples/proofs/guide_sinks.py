"""The guide's examples of sinks, late data and restarts."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from examples.proofs import transactions as t
from examples.proofs.example import Example, Result
from examples.proofs.times import window_start

if TYPE_CHECKING:
    from pathlib import Path

    from examples.proofs.stage import Stage

DATABASE = "PROCESSED_EVENTS_DATABASE"

# Number of rows that the pipeline reads in one batch.
BATCH = 3
CLOCKS = [
    *("12:00:00", "12:03:00", "12:30:00"),
    *("12:21:00", "12:31:00", "12:32:00"),
    *("12:02:00", "12:22:00", "13:30:00"),
]
LATE = [t.transaction(f"l{number}", "u1", 1.0, clock) for number, clock in enumerate(CLOCKS)]
EXISTING = [{"id": number} for number in range(4)]
ADDED = [{"id": number} for number in range(4, 6)]


def table_modes(stage: Stage) -> Sequence[Result]:
    """The same count as a whole table with each batch, and by key."""
    t.send_transactions(stage)
    for name in ("transactions_table", "transactions_per_user", "newest_per_user"):
        stage.run(name)
    appended = stage.rows("bronze/transactions", "event_id")
    whole = stage.rows("gold/transactions_per_user", "user_id", "transactions")
    merged = stage.rows("gold/newest_per_user", "user_id", "transactions")
    return [
        Result("append: bronze/transactions", appended, [(row["event_id"],) for row in t.TRANSACTIONS]),
        Result("complete: gold/transactions_per_user", whole, t.per_user()),
        Result("update: gold/newest_per_user", merged, t.per_user()),
    ]


def json_to_a_topic(stage: Stage) -> Sequence[Result]:
    """Key and value of each record."""
    t.send_transactions(stage)
    stage.topic("output_topic")
    stage.run("transactions_to_topic")
    names = ("user_id", "event_id", "amount")
    expected = [(row["user_id"], {name: row[name] for name in names}) for row in t.TRANSACTIONS]
    return [Result("topic output_topic", stage.received("output_topic"), expected)]


def code_of_ones_own(stage: Stage) -> Sequence[Result]:
    """A driver that dies after the function was called; the next one calls it again."""
    t.send_transactions(stage)
    database = stage.lake.folder / "processed_events.db"
    os.environ[DATABASE] = str(database)
    try:
        ended = _die_after_the_function(stage)
        once = _processed(database)
        stage.run("processed_events")
    finally:
        del os.environ[DATABASE]
    expected = [(row["event_id"], row["user_id"], row["amount"]) for row in t.TRANSACTIONS]
    return [
        Result("database, before the crash", once, expected),
        Result("database, after the repeated batch", _processed(database), expected),
        Result("batches that the checkpoint holds as ended", ended, [0]),
    ]


def _die_after_the_function(stage: Stage) -> list[int]:
    """Number of batches that were ended by then."""

    def die(step: str) -> None:
        if step == "function_called":
            raise KeyError(step)

    pipeline = stage.pipeline("processed_events")
    try:
        pipeline.run_incremental(die)
    except KeyError:
        return [stage.ended_batches("processed_events")]
    return []


def _processed(database: Path) -> list[Any]:
    connection = sqlite3.connect(database)
    try:
        return list(connection.execute("SELECT event_id, user_id, amount FROM processed_events"))
    finally:
        connection.close()


def arrivals(stage: Stage) -> Sequence[Result]:
    """Count the arrivals per window by the broker's clock."""
    t.send_transactions(stage)
    stage.run("arrivals_per_window")
    seen = stage.rows("gold/arrivals_per_window", "window_start", "arrivals")
    return [Result("gold/arrivals_per_window", seen, t.arrivals_per_window())]


def late_events(stage: Stage) -> Sequence[Result]:
    """On time, late and still open are all that was sent."""
    stage.topic("late_transactions")
    stage.send("late_transactions", LATE)
    stage.run("late_transactions")
    late, windows = _late_and_on_time()
    seen = stage.rows("gold/transactions_on_time", "window_start", "events")
    return [
        Result("gold/transactions_on_time", seen, list(windows.items())),
        Result(
            "late/late_transactions", [row["offset"] for row in stage.lake.late("late_transactions")], late
        ),
    ]


def _late_and_on_time() -> tuple[list[int], dict[datetime, int]]:
    """Places of the late records, and events of each window that is over: batch by batch.

    Spark drops by the watermark of the batch before, which knows of the batches before that one.
    """
    length, late, windows = timedelta(minutes=5), list[int](), dict[datetime, int]()
    now = before = datetime.min.replace(tzinfo=t.DAY.tzinfo)
    for begin in range(0, len(LATE), BATCH):
        batch = LATE[begin : begin + BATCH]
        for place, row in enumerate(batch, begin):
            start = window_start(t.event_time(row), 5)
            if start + length <= before:
                late.append(place)
            else:
                windows[start] = windows.get(start, 0) + 1
        before, now = now, max(now, *(t.event_time(row) - t.WATERMARK for row in batch))
    return late, {start: count for start, count in windows.items() if start + length <= now}


def restart(stage: Stage) -> Sequence[Result]:
    """The second run reads only what was added."""
    stage.table("bronze/existing", EXISTING)
    stage.run("delta_to_delta")
    stage.table("bronze/existing", ADDED)
    stage.run("delta_to_delta")
    entries = [commit.entry for commit in stage.lake.ledger("silver/existing_copy") if commit.entry]
    return [
        Result(
            "silver/existing_copy",
            stage.rows("silver/existing_copy", "id"),
            [(row["id"],) for row in EXISTING + ADDED],
        ),
        Result(
            "rows of each batch", [entry.rows for entry in entries if entry.rows], [len(EXISTING), len(ADDED)]
        ),
    ]


EXAMPLES = [
    Example(
        21,
        "guide",
        "Delta in append, complete or update mode",
        ("transactions_table", "transactions_per_user", "newest_per_user"),
        refused={"per_user_complete": "TIDE-MODE-006", "per_user_update": "TIDE-MODE-005"},
        note="Delta has no update mode; a merge by key has the same effect",
        proof=table_modes,
    ),
    Example(
        22,
        "guide",
        "key and `to_json(struct(*))` to Kafka",
        ("transactions_to_topic",),
        note="delivery is at least once, because a repeated batch is sent again",
        proof=json_to_a_topic,
    ),
    Example(
        23,
        "guide",
        "`foreachBatch` that appends, with `persist`",
        ("processed_events",),
        note="the guide's function would append a repeated batch again. Here the transaction of the rows "
        "also stores the batch's token. The rows are cached",
        proof=code_of_ones_own,
    ),
    Example(
        24,
        "guide",
        "count in windows, with the time of processing",
        ("arrivals_per_window",),
        reported={"arrivals_by_clock": "TIDE-PLAN-040"},
        note="the clock gives different rows in a backfill; the broker's timestamp gives the same rows",
        proof=arrivals,
    ),
    Example(
        25,
        "guide",
        "late events into a separate place",
        ("late_transactions",),
        refused={"late_by_filter": "TIDE-DATA-002"},
        note="Spark has no column `watermark` and no setting `dropLateEventsInWatermark`; `late: table` "
        "keeps late events",
        proof=late_events,
    ),
    Example(
        26,
        "guide",
        "Delta to Delta, restarted from a named checkpoint",
        ("delta_to_delta",),
        refused={"own_checkpoint": "TIDE-SPEC-003"},
        note="a checkpoint belongs to one pipeline and has its name; a reader has no checkpoint",
        proof=restart,
    ),
]
