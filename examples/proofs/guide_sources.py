"""The guide's examples of sources and of transformations."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

from examples.proofs import transactions as t
from examples.proofs.example import Example, Result
from examples.proofs.times import at, moment
from tests.support.line_server import line_server

if TYPE_CHECKING:
    from examples.proofs.stage import Stage

ORDERS = [
    {"order_id": "o1", "user_id": "u1", "event_time": at("12:30:00")},
    {"order_id": "o2", "user_id": "u2", "event_time": at("14:00:00")},
    {"order_id": "o3", "user_id": "u1", "event_time": at("13:30:00")},
    {"order_id": "o4", "user_id": "u4", "event_time": at("12:10:00")},
]
VISITS = [
    {"visit_id": "v1", "customer_id": "u1", "time": at("12:00:00")},
    {"visit_id": "v2", "customer_id": "u2", "time": at("12:30:00")},
    {"visit_id": "v3", "customer_id": "u1", "time": at("13:00:00")},
]
LINES = ["first line", "second line"]
DELIVERIES = [
    [{"event_id": "e1", "event_time": at("12:00:00"), "amount": 10.5}],
    [{"event_id": "e2", "event_time": at("12:05:00"), "amount": "a lot", "channel": "web"}],
]


def files_with_columns_of_their_own(stage: Stage) -> Sequence[Result]:
    """A second delivery has a column more, and an amount that is none."""
    for number, delivery in enumerate(DELIVERIES):
        stage.land(f"landing/events/{number}.json", delivery)
        stage.run("repository/landed_events")
    table = "bronze/landed_events"
    seen = stage.rows(table, "event_id", "event_time", "amount", "channel")
    events = [
        ("e1", moment(at("12:00:00")), Decimal("10.50"), None),
        ("e2", moment(at("12:05:00")), None, "web"),
    ]
    rescued = [
        {name: value for name, value in json.loads(text).items() if name != "_file_path"}
        for (text,) in stage.rows(table, "_rescued_data")
        if text is not None
    ]
    return [
        Result(table, seen, events),
        Result("_rescued_data", rescued, [{"amount": "a lot"}]),
    ]


def records_of_a_topic(stage: Stage) -> Sequence[Result]:
    """Read all records of a topic through two addresses of the broker."""
    t.send_transactions(stage)
    stage.run("raw_transactions")
    seen = stage.rows("bronze/raw_transactions", "kafka_offset")
    servers = stage.pipeline("raw_transactions").resolved.environment.spec.kafka
    addresses = [] if servers is None else servers.bootstrap_servers.split(",")
    return [
        Result("bronze/raw_transactions", seen, [(offset,) for offset in range(len(t.TRANSACTIONS))]),
        Result("addresses", [len(addresses)], [2]),
    ]


def lines_of_a_socket(stage: Stage) -> Sequence[Result]:
    """Run until all rows are in the table."""
    with line_server() as server:
        stage.listen_on("socket_lines", server.port)
        with stage.live("socket_lines") as stream:
            server.accept()
            server.send(*LINES)
            stream.wait_until(lambda: len(stage.in_memory("socket_lines")) == len(LINES), "all lines")
            seen = stage.in_memory("socket_lines")
            stream.drain()
    return [Result("memory socket_lines", seen, [(line,) for line in LINES])]


def stateless_and_count(stage: Stage) -> Sequence[Result]:
    """A filter, and a running count."""
    t.send_transactions(stage)
    stage.run("large_amounts")
    stage.run("transactions_per_user")
    large = stage.rows("silver/large_amounts", "user_id", "event_time", "amount")
    counts = stage.rows("gold/transactions_per_user", "user_id", "transactions")
    return [
        Result("silver/large_amounts", large, t.large()),
        Result("gold/transactions_per_user", counts, t.per_user()),
    ]


def sums_of_windows(stage: Stage) -> Sequence[Result]:
    """Windows that are over."""
    t.send_transactions(stage)
    stage.run("amounts_per_window")
    seen = stage.rows("gold/amounts_per_window", "user_id", "window_start", "total_amount")
    return [Result("gold/amounts_per_window", seen, t.per_window())]


def join_with_a_table(stage: Stage) -> Sequence[Result]:
    """Strangers have no name."""
    t.send_transactions(stage)
    stage.table("silver/users", t.USERS)
    stage.land("landing/users/1.json", t.USERS)
    names = {user["user_id"]: user["name"] for user in t.USERS}
    expected = [(row["event_id"], row["user_id"], names.get(row["user_id"])) for row in t.TRANSACTIONS]
    results = []
    for name in ("transactions_with_users", "transactions_with_listed_users"):
        stage.run(name)
        seen = stage.rows(f"silver/{name}", "event_id", "user_id", "name")
        results.append(Result(f"silver/{name}", seen, expected))
    return results


def join_of_two_streams(stage: Stage) -> Sequence[Result]:
    """Each pair within an hour."""
    for topic, rows in (("shop_orders", ORDERS), ("shop_visits", VISITS)):
        stage.topic(topic)
        stage.send(topic, rows)
    stage.run("orders_after_visits")
    expected = [
        (order["order_id"], visit["visit_id"])
        for order in ORDERS
        for visit in VISITS
        if order["user_id"] == visit["customer_id"]
        and timedelta(0) <= moment(order["event_time"]) - moment(visit["time"]) <= timedelta(hours=1)
    ]
    seen = stage.rows("silver/orders_after_visits", "order_id", "visit_id")
    return [Result("silver/orders_after_visits", seen, expected)]


EXAMPLES = [
    Example(
        14,
        "guide",
        "`cloudFiles`: JSON files with a schema location",
        ("repository/landed_events",),
        note="the pipeline's name determines the schema's path; values that fit no column stay in the row",
        proof=files_with_columns_of_their_own,
    ),
    Example(
        15,
        "guide",
        "Kafka by two brokers, from the earliest offset",
        ("raw_transactions",),
        note="the environment names the brokers, so that a pipeline runs everywhere; here two addresses of "
        "one broker",
        proof=records_of_a_topic,
    ),
    Example(16, "guide", "lines of a socket", ("socket_lines",), proof=lines_of_a_socket),
    Example(
        17,
        "guide",
        "select; `amount > 100`; count by user",
        ("large_amounts", "transactions_per_user"),
        note="the guide calls the count stateless, but it keeps a row per user",
        proof=stateless_and_count,
    ),
    Example(
        18,
        "guide",
        "watermark of 10 minutes, window of 5 minutes, sum of amounts by user",
        ("amounts_per_window",),
        proof=sums_of_windows,
    ),
    Example(
        19,
        "guide",
        "left join with a static table",
        ("transactions_with_users", "transactions_with_listed_users"),
        note="a Delta table in its newest version, or the files that a folder has when the batch begins",
        proof=join_with_a_table,
    ),
    Example(
        20,
        "guide",
        "inner join of two streams within an hour",
        ("orders_after_visits",),
        refused={"orders_after_visits": "TIDE-PLAN-016"},
        note="Spark 4.2 accepts it without watermarks, and keeps all rows for ever",
        proof=join_of_two_streams,
    ),
]
