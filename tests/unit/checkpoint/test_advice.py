"""Advice from measured values: each rule fires at its threshold, and not just below it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.declared import declared
from tidemill.checkpoint.doctor.advice import RULES, advice
from tidemill.checkpoint.doctor.measured import Measured, MeasuredBatch, MeasuredState, MeasuredTopic
from tidemill.checkpoint.doctor.measured_table import MANY_SMALL_FILES, MeasuredTable
from tidemill.checkpoint.findings import Finding

GB = 2**30
# The measured pipeline has a trigger of 10 s, four cores, 4 GB, and a limit of 1,000 records.
RUN = {"trigger": "10 seconds", "shuffle_partitions": 4}
LIMIT = {"topic": "orders", "max_offsets_per_batch": 1000}
SIZES = {"sizes": {"small": {"driver": {"cores": 4, "memory": "4g"}}}}
UNEVEN = {"0": 900, "1": 50, "2": 25, "3": 25}
EVEN = {str(partition): 1000 for partition in range(4)}

Change = Callable[[Measured], Measured]


def measured(folder: Path, **keys: Any) -> Measured:
    """Ten batches of a second, half full, with an even topic and a little state: nothing to say of it."""
    declaration = {"source": {"kafka": LIMIT}, "run": RUN, **keys}
    pipeline = declared(folder, environment=SIZES, **declaration)
    batches = [MeasuredBatch(500, 1_000, 900, 0, 0, {"bronze/orders": 900}, "bronze/orders")] * 10
    return Measured(pipeline, batches, MeasuredState(100, GB, 100), [MeasuredTopic("orders", EVEN)])


def batches(**changes: Any) -> Change:
    """Return measured values in which all batches are like this."""
    return lambda m: replace(m, batches=[replace(batch, **changes) for batch in m.batches])


def behind(first: int, last: int) -> Change:
    """Return measured values whose backlog changes from one number to another."""

    def change(m: Measured) -> Measured:
        step = (last - first) / (len(m.batches) - 1)
        waiting = [round(first + step * place) for place in range(len(m.batches))]
        return replace(m, batches=[replace(b, behind=w) for b, w in zip(m.batches, waiting, strict=True)])

    return change


def one_batch(**changes: Any) -> Change:
    """Only the first is so."""
    return lambda m: replace(m, batches=[replace(m.batches[0], **changes), *m.batches[1:]])


def only(count: int) -> Change:
    return lambda m: replace(m, batches=m.batches[:count])


def state(**changes: int) -> Change:
    return lambda m: replace(m, state=replace(m.state or MeasuredState(), **changes))


def topic(rows: dict[str, int], waiting: dict[str, int] | None = None) -> Change:
    return lambda m: replace(m, topics=[MeasuredTopic("orders", rows, waiting or {})])


def both(*changes: Change) -> Change:
    def change(m: Measured) -> Measured:
        for one in changes:
            m = one(m)
        return m

    return change


def long(milliseconds: int, **more: Any) -> Change:
    """Return batches that take this long, nearly all of it for their work."""
    return batches(milliseconds=milliseconds, work_milliseconds=milliseconds - 50, **more)


def table(small: int = MANY_SMALL_FILES, left: str = "") -> Change:
    """Return measured values of a table with this number of 20 kB files and one large file."""
    found = MeasuredTable("bronze/orders", small + 1, small, 20_000 * small, left)
    return lambda m: replace(m, tables=[MeasuredTable("bronze/few", 20_000, 7, 7), found])


NO_LIMIT = {"source": {"kafka": {"topic": "orders"}}}
EIGHT = {"run": {**RUN, "shuffle_partitions": 9}}
TWO = {"run": {**RUN, "shuffle_partitions": 2}}
IN_MEMORY = {"run": {**TWO["run"], "state_store": "memory"}}
BY_SCHEDULE = {"run": {"mode": "incremental", "shuffle_partitions": 4}}
AT_ONCE = {"run": {**RUN, "trigger": "0 seconds"}}
TABLE_AND_MORE = {"sinks": [{"delta": {"table": "bronze/orders"}}, {"foreach_batch": {"function": "a:b"}}]}
SPLIT = {"source": {"kafka": {**LIMIT, "options": {"minPartitions": 8}}}}
SLOW_FUNCTION = {"bronze/orders": 1_000, "foreach_batch:a:b": 9_000}

# Rule, measured values, the declaration, and the text that the advice must contain.
Speaks = tuple[str, Change, dict[str, Any], dict[str, object], str]
SPEAKS: list[Speaks] = [
    (
        "TIDE-TUNE-001",
        long(30_000),
        {},
        {"batch": "30 seconds", "trigger": "10 seconds", "times": 3.0},
        "45 seconds",
    ),
    (
        "TIDE-TUNE-002",
        both(batches(rows=1000), behind(500, 9_000)),
        {},
        {"limit": 1000, "behind": "500 -> 9000"},
        "7000",
    ),
    (
        "TIDE-TUNE-003",
        both(long(9_500), behind(500, 9_000)),
        {},
        {"behind": "500 -> 9000", "cores": 4},
        "`run.size`",
    ),
    (
        "TIDE-TUNE-003",
        both(long(500), behind(500, 9_000)),
        AT_ONCE,
        {"batch": "500 milliseconds"},
        "`run.size`",
    ),
    ("TIDE-TUNE-004", one_batch(milliseconds=120_000, rows=60_000), NO_LIMIT, {"rows": 60_000}, "about 5000"),
    ("TIDE-TUNE-005", long(10_000), TWO, {"shuffle_partitions": 2, "cores": 4}, "repartition orders 4"),
    (
        "TIDE-TUNE-006",
        both(long(10_000), state(commit_milliseconds=20_000)),
        EIGHT,
        {"shuffle_partitions": 9, "of_it_writing_state": "5 seconds"},
        "repartition orders 8",
    ),
    (
        "TIDE-TUNE-007",
        both(long(10_000), topic({"0": 9, "1": 9})),
        {},
        {"partitions": 2, "cores": 4},
        "minPartitions: 4",
    ),
    ("TIDE-TUNE-008", state(bytes=2 * GB), {}, {"state_bytes": 2 * GB, "memory": "4g"}, "`run.size`"),
    ("TIDE-TUNE-005", long(10_000), IN_MEMORY, {"cores": 4}, "a new checkpoint"),
    ("TIDE-TUNE-008", state(bytes=2 * GB), IN_MEMORY, {"memory": "4g"}, "`run.state_store: rocksdb`"),
    (
        "TIDE-TUNE-009",
        batches(milliseconds=10_000, work_milliseconds=3_000),
        {},
        {"beside_its_work": "70%"},
        "`run.trigger`, to 15 seconds",
    ),
    (
        "TIDE-TUNE-010",
        one_batch(dropped=50),
        {},
        {"dropped_rows": 50, "rows": 5_000},
        "`event_time.watermark`",
    ),
    (
        "TIDE-TUNE-011",
        long(10_000, sinks=SLOW_FUNCTION),
        TABLE_AND_MORE,
        {"sink": "foreach_batch:a:b", "of_a_batch": "90%", "with_reading": "no"},
        "pipeline of its own",
    ),
    (
        "TIDE-TUNE-011",
        long(60_000, sinks={"kafka:alerts": 50_000}, reader="kafka:alerts"),
        {**BY_SCHEDULE, "sinks": [{"kafka": {"topic": "alerts"}}]},
        {"sink": "kafka:alerts", "with_reading": "yes"},
        "pipeline of its own",
    ),
    (
        "TIDE-TUNE-012",
        topic(UNEVEN),
        {},
        {"topic": "orders", "partition": "0", "partitions": 4, "rows_of_it": 900, "rows_of_all": 1000},
        "minPartitions: 8",
    ),
    (
        "TIDE-TUNE-012",
        topic(EVEN, {"0": 0, "1": 0, "2": 0, "3": 5_000}),
        {},
        {"partition": "3", "behind_of_it": 5_000, "behind_of_all": 5_000},
        "the producer's",
    ),
    (
        "TIDE-TUNE-013",
        table(),
        {},
        {"table": "bronze/orders", "files": 10_001, "small_files": 10_000, "mean_size": "20.0 kB"},
        "tidemill table maintain bronze/orders --apply, or each day the DAG table_maintenance; a longer "
        "`run.trigger` than 10 seconds",
    ),
    (
        "TIDE-TUNE-014",
        one_batch(milliseconds=10_000, is_first=True),
        {},
        {"first": "10 seconds", "later": "1 second"},
        "bring changes together",
    ),
    ("TIDE-TUNE-013", table(), BY_SCHEDULE, {"files": 10_001}, "the DAG table_maintenance"),
    ("TIDE-TUNE-013", table(left="needs Spark: clustering"), {}, {"files": 10_001}, "OPTIMIZE it by Spark"),
]

SILENT = [
    (
        "a backlog that goes up and down",
        lambda m: replace(m, batches=[*behind(9_000, 500)(m).batches, *behind(500, 9_000)(m).batches]),
        {},
    ),
    ("a few records that are on their way", both(long(9_500), behind(5, 999)), {}),
    ("planning of a run by schedule", batches(milliseconds=60_000, work_milliseconds=3_000), BY_SCHEDULE),
    ("nothing is wrong", lambda m: m, {}),
    ("a first batch within its trigger", one_batch(milliseconds=9_999, is_first=True), {}),
    ("a first batch of more rows", one_batch(milliseconds=10_000, rows=1_001, is_first=True), {}),
    ("a slow batch that was not the first", one_batch(milliseconds=10_000), {}),
    (
        "a first batch before there are others",
        both(one_batch(milliseconds=10_000, is_first=True), only(3)),
        {},
    ),
    (
        "a first batch beside others that are slow",
        both(batches(milliseconds=2_001), one_batch(milliseconds=10_000, is_first=True)),
        {},
    ),
    ("nothing was measured", only(0), {}),
    ("too few batches to tell", both(long(30_000), only(2)), {}),
    ("not late by much", long(9_900), {}),
    ("a run by schedule has no trigger", long(30_000), BY_SCHEDULE),
    ("a full batch, and nothing waits", batches(rows=1000), {}),
    ("what waits is read by larger batches", behind(9_000, 500), {}),
    (
        "a long batch within ten triggers",
        one_batch(milliseconds=60_000),
        {**NO_LIMIT, "run": {"trigger": "7s"}},
    ),
    ("a long batch with a limit", one_batch(milliseconds=120_000), {}),
    ("few partitions that are enough", lambda m: m, TWO),
    ("many partitions that cost little", long(10_000), EIGHT),
    ("partitions that are split already", both(long(10_000), topic({"0": 9})), SPLIT),
    ("less than half of the memory", state(bytes=2 * GB - 1), {}),
    ("few rows were late", one_batch(dropped=49), {}),
    ("a table that reads the rows", long(10_000, sinks={"bronze/orders": 9_900}), {}),
    ("a slow sink with time left", batches(sinks={"foreach_batch:a:b": 990}), TABLE_AND_MORE),
    ("two sinks that share the time", long(10_000, sinks={"foreach_batch:a:b": 5_900}), TABLE_AND_MORE),
    ("a partition with half of the records", topic({"0": 1_000, "1": 500, "2": 250, "3": 250}), {}),
    ("a partition with most of few records", topic({"0": 998, "1": 1}), {}),
    ("two partitions, one with three quarters", topic({"0": 3_000, "1": 1_000}), {}),
    ("one partition", topic({"0": 100_000}), {}),
    ("an uneven topic whose partitions are split", topic(UNEVEN), SPLIT),
    ("small files as maintenance leaves them in a day", table(MANY_SMALL_FILES - 1), {}),
]


@pytest.mark.parametrize("case", SPEAKS, ids=[f"{case[0]}-{i}" for i, case in enumerate(SPEAKS)])
def test_a_rule_speaks_of_its_values_and_names_what_to_change(tmp_path: Path, case: Speaks) -> None:
    rule, change, keys, facts, fix = case
    told = advice(change(measured(tmp_path, **keys)))
    (found,) = [one for one in told if one.finding_id == rule]
    assert facts.items() <= found.facts.items()
    assert fix in found.fix
    assert found.pipeline == "orders"


@pytest.mark.parametrize(("change", "keys"), [case[1:] for case in SILENT], ids=[case[0] for case in SILENT])
def test_a_rule_is_silent_beside_its_values(tmp_path: Path, change: Change, keys: dict[str, Any]) -> None:
    assert advice(change(measured(tmp_path, **keys))) == []


def test_every_rule_is_seen_to_speak() -> None:
    assert {case[0] for case in SPEAKS} == {rule.finding_id for rule in RULES}


def test_advice_is_a_warning_only_where_the_stream_suffers(tmp_path: Path) -> None:
    uneven = topic(UNEVEN)

    def severity(change: Change, **keys: Any) -> str:
        found: Finding = advice(change(measured(tmp_path, **keys)))[-1]
        return found.severity

    assert severity(uneven) == "note"
    assert severity(both(uneven, long(10_000))) == "warning"
    assert severity(both(batches(rows=1000), behind(9_000, 2_000))) == "note"
    assert severity(both(batches(rows=1000), behind(500, 9_000))) == "warning"
    assert severity(one_batch(milliseconds=120_000), **NO_LIMIT) == "note"
