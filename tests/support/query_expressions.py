"""Expressions that Spark and DataFusion read differently, each with the value that Spark gives it."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa

AT = datetime(2026, 3, 1, 7, 8, 9, 120000, tzinfo=UTC)

# A row of values and a row of nulls; 1 March 2026 is a Sunday.
ROWS = pa.table(
    {
        "at": pa.array([AT, None], pa.timestamp("us", "UTC")),
        "site": ["aab", None],
        "amount": pa.array([7, None], pa.int64()),
        "deviceId": ["d1", None],
        "tags": pa.array([["x", None, "x"], None], pa.list_(pa.string())),
        "payload": pa.array([{"firmWare": 2}, None], pa.struct({"firmWare": pa.int64()})),
    }
)

EXPRESSIONS: list[tuple[str, Any]] = [
    ("date_format(at, 'yyyy-MM-dd HH:mm:ss.SSS')", "2026-03-01 07:08:09.120"),
    ("date_format(at, 'EEE d MMM yy, h a')", "Sun 1 Mar 26, 7 AM"),
    ("date_format(at, 'yyyy''T''MM')", "2026T03"),
    ("DATE_FORMAT ( at , 'MM' )", "03"),
    ("to_date('01/02/2026', 'dd/MM/yyyy')", date(2026, 2, 1)),
    ("upper(date_format(at, 'MMM'))", "MAR"),
    ("round(log(amount), 4)", 1.9459),
    ("log(7, amount)", 1.0),
    ("regexp_replace(site, 'a', 'x')", "xxb"),
    ("concat(site, '-', site)", "aab-aab"),
    ("concat(site, CAST(NULL AS STRING))", None),
    ("substr(site, -2)", "ab"),
    ("substring(site, 2)", "ab"),
    ("date_part('dow', at)", 1),
    ("extract(DOW FROM at)", 1),
    ("extract(YEAR FROM at)", 2026),
    ("amount / 2", 3.5),
    ("10 - amount / 2", 6.5),
    ("array_remove(tags, 'x')", [None]),
    ("'date_format(at)' || ' a/b'", "date_format(at) a/b"),
    ("`site`", "aab"),
    ("deviceid", "d1"),
    ("payload.firmware", 2),
]
