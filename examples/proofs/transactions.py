"""The transactions of the guide's examples: one topic that most of its pipelines read."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from examples.proofs.times import DAY, Row, at, by_window, moment

if TYPE_CHECKING:
    from examples.proofs.stage import Stage


def transaction(event_id: str, user_id: str, amount: float, clock: str) -> dict[str, Any]:
    """One record."""
    return {"event_id": event_id, "user_id": user_id, "amount": amount, "event_time": at(clock)}


SENT_TWICE = transaction("e2", "u2", 40.0, "12:01:00")
# Transactions in the order of sending. The last but one is far ahead of the others and closes their windows.
TRANSACTIONS = [
    transaction("e1", "u1", 120.0, "12:00:10"),
    SENT_TWICE,
    transaction("e3", "u1", 80.5, "12:03:30"),
    transaction("e4", "u2", 250.0, "12:07:00"),
    SENT_TWICE,
    transaction("e5", "u3", 99.0, "12:08:00"),
    transaction("e6", "u1", 300.0, "12:14:00"),
    transaction("e7", "u2", 100.0, "12:16:00"),
    transaction("e8", "u3", 500.0, "13:30:00"),
    transaction("e9", "u1", 20.0, "12:02:00"),
]
WATERMARK = timedelta(minutes=10)

# u3 is a stranger.
USERS = [{"user_id": "u1", "name": "Ada"}, {"user_id": "u2", "name": "Ben"}]

# When each arrived at the broker: one every two minutes.
ARRIVALS = [DAY + timedelta(hours=14, minutes=2 * number) for number in range(len(TRANSACTIONS))]


def send_transactions(stage: Stage) -> None:
    """Fill the topic, once."""
    if stage.topic("transactions"):
        milliseconds = [int(arrival.timestamp() * 1000) for arrival in ARRIVALS]
        stage.send_at("transactions", zip(TRANSACTIONS, milliseconds, strict=True))


def event_time(row: Row) -> datetime:
    """Return the event time."""
    return moment(row["event_time"])


def large() -> list[tuple[Any, ...]]:
    """Those above 100."""
    return [(row["user_id"], event_time(row), row["amount"]) for row in TRANSACTIONS if row["amount"] > 100]


def per_user() -> list[tuple[Any, ...]]:
    """Return the number of transactions of each user."""
    return list(Counter(row["user_id"] for row in TRANSACTIONS).items())


def per_window() -> list[tuple[Any, ...]]:
    """Return the sum of each user in each closed window of 5 minutes."""
    sums: Counter[tuple[Any, ...]] = Counter()
    for start, rows in by_window(TRANSACTIONS, event_time, 5, WATERMARK).items():
        for row in rows:
            sums[row["user_id"], start] += row["amount"]
    return [(*key, total) for key, total in sums.items()]


def arrivals_per_window() -> list[tuple[Any, ...]]:
    """Return the number of arrivals in each closed window of 5 minutes."""
    arrived = [{"at": arrival} for arrival in ARRIVALS]
    windows = by_window(arrived, lambda row: row["at"], 5, WATERMARK)
    return [(start, len(rows)) for start, rows in windows.items()]


def distinct() -> list[tuple[Any, ...]]:
    """Each once."""
    rows = {row["event_id"]: row for row in TRANSACTIONS}
    return [(row["event_id"], row["user_id"], row["amount"]) for row in rows.values()]


def sessions() -> list[tuple[Any, ...]]:
    """User, start and number of events of each session that is over."""
    gap = timedelta(minutes=5)
    now = max(map(event_time, TRANSACTIONS)) - WATERMARK
    found: list[tuple[Any, ...]] = []
    for user in sorted({row["user_id"] for row in TRANSACTIONS}):
        times = sorted(event_time(row) for row in TRANSACTIONS if row["user_id"] == user)
        session = [times[0]]
        for time in [*times[1:], datetime.max.replace(tzinfo=DAY.tzinfo)]:
            if time - session[-1] < gap:
                session.append(time)
                continue
            if session[-1] + gap <= now:
                found.append((user, session[0], len(session)))
            session = [time]
    return found
