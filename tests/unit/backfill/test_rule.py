"""The rule, cell by cell: the allowed replacements, and the refusals with their fixes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.support.declared import declared
from tidemill.backfill.bounds import parse_bounds
from tidemill.backfill.live_side import LiveSide
from tidemill.backfill.other_writers import OtherWriter
from tidemill.backfill.row_origin import EventWindow, RowOrigin, SinkOrigin
from tidemill.backfill.rule import Asked, choose
from tidemill.errors import UsageError

DAY = ("2024-01-01", "2024-01-02")
OFFSETS = (None, None, '{"orders": {"0": 5}}', '{"orders": {"0": 9}}')
EVENT_TIME = {"column": "at", "watermark": "10 minutes"}

RECORDS = RowOrigin(
    record={"kafka_topic": "topic", "kafka_partition": "kafka_partition", "kafka_offset": "o"}
)
UNPROVEN = RowOrigin(reason="it drops kafka_offset")
STATEFUL = RowOrigin(stateful=True, reason="it aggregates without windows of event time")

RUNNING = LiveSide(generation="g0001", batch_id=7, closed_until=datetime(2024, 1, 2, tzinfo=UTC))


def windows(**changes: Any) -> RowOrigin:
    length = timedelta(minutes=5)
    found: dict[str, Any] = {
        "kind": "tumbling",
        "length": length,
        "slide": length,
        "start_columns": ("window_start",),
    }
    return RowOrigin(stateful=True, window=EventWindow(**{**found, **changes}))


def delta(table: str = "bronze/orders", **keys: Any) -> dict[str, Any]:
    return {"delta": {"table": table, **keys}}


def asked(
    folder: Path,
    origin: RowOrigin,
    bounds: tuple[str | None, ...] = DAY,
    live: LiveSide | None = RUNNING,
    others: tuple[OtherWriter, ...] = (),
    **keys: Any,
) -> Asked:
    pipeline = declared(folder, "orders", **{"event_time": EVENT_TIME, **keys})
    return Asked(pipeline, parse_bounds(*bounds), origin, live, others)


def refusal_of(question: Asked) -> UsageError:
    with pytest.raises(UsageError) as refused:
        choose(question)
    assert refused.value.facts["pipeline"] == "orders"
    assert refused.value.runbook == "backfill"
    assert refused.value.fix
    return refused.value


@pytest.mark.parametrize("live", [None, RUNNING], ids=["never_ran", "live"])
@pytest.mark.parametrize("bounds", [DAY, OFFSETS], ids=["time", "offsets"])
def test_rows_that_name_their_record_are_replaced_by_it(
    tmp_path: Path, bounds: tuple[str | None, ...], live: LiveSide | None
) -> None:
    assert choose(asked(tmp_path, RECORDS, bounds, live)) == "record"


def two_sinks(**of_the_second: Any) -> dict[str, Any]:
    return {"sinks": [delta(), delta("silver/orders", transform="orders:shape", **of_the_second)]}


def shaped(origin: RowOrigin, sink: SinkOrigin) -> RowOrigin:
    return origin.model_copy(update={"sinks": {"silver/orders": sink}})


KEPT = SinkOrigin(columns={"topic": "t", "kafka_partition": "p", "o": "o", "window_start": "from"})
TOGETHER = SinkOrigin(reason="Window does not work row by row")


def test_rows_that_a_sink_shapes_one_by_one_are_replaced_as_the_others(tmp_path: Path) -> None:
    assert choose(asked(tmp_path, shaped(RECORDS, KEPT), **two_sinks())) == "record"
    assert choose(asked(tmp_path, shaped(windows(), KEPT), **two_sinks())) == "window"
    merged = two_sinks(mode="merge", key=["t", "p", "o"])
    merged["sinks"][0] = delta(mode="merge", key=["topic", "kafka_partition", "o"])
    assert choose(asked(tmp_path, shaped(RECORDS, KEPT), **merged)) == "record"


@pytest.mark.parametrize("live", [None, RUNNING], ids=["never_ran", "live"])
@pytest.mark.parametrize("origin", [RECORDS, windows(), UNPROVEN], ids=["record", "window", "unproven"])
def test_a_sink_that_brings_the_rows_of_a_batch_together_is_refused(
    tmp_path: Path, origin: RowOrigin, live: LiveSide | None
) -> None:
    error = refusal_of(asked(tmp_path, shaped(origin, TOGETHER), live=live, **two_sinks()))
    assert error.error_id == "TIDE-BACK-007"
    latest = two_sinks(mode="merge", key=["id"])
    latest["sinks"] = latest["sinks"][1:]
    error = refusal_of(asked(tmp_path, shaped(origin, TOGETHER), live=live, **latest))
    assert error.error_id == "TIDE-BACK-011"
    assert (
        error.facts["because"] == "the transform of the sink silver/orders: Window does not work row by row"
    )


def test_a_sink_that_drops_the_record_or_the_window_or_the_time_is_refused(tmp_path: Path) -> None:
    none = SinkOrigin(columns={"id": "id"})
    error = refusal_of(asked(tmp_path, shaped(RECORDS, none), **two_sinks()))
    assert (error.error_id, error.facts["because"]) == (
        "TIDE-BACK-007",
        "the transform of the sink silver/orders does not keep topic, kafka_partition, o",
    )
    assert refusal_of(asked(tmp_path, shaped(windows(), none), **two_sinks())).error_id == "TIDE-BACK-012"
    error = refusal_of(asked(tmp_path, shaped(UNPROVEN, none), live=None, **two_sinks()))
    assert (error.error_id, error.facts["time"]) == ("TIDE-BACK-012", "at")


def test_records_are_chosen_by_the_brokers_time_where_there_is_no_event_time(tmp_path: Path) -> None:
    assert choose(asked(tmp_path, RECORDS, event_time=None)) == "record"


@pytest.mark.parametrize("live", [None, RUNNING], ids=["never_ran", "live"])
def test_whole_windows_are_replaced_once_they_are_closed(tmp_path: Path, live: LiveSide | None) -> None:
    assert choose(asked(tmp_path, windows(), live=live)) == "window"


@pytest.mark.parametrize(
    ("origin", "key"),
    [(RECORDS, ["kafka_partition", "o", "topic"]), (windows(), ["device", "window_start"])],
    ids=["record", "window"],
)
def test_merged_rows_are_replaced_where_the_key_names_the_record_or_the_window(
    tmp_path: Path, origin: RowOrigin, key: list[str]
) -> None:
    merged = asked(tmp_path, origin, sinks=[delta(mode="merge", key=key)])
    assert choose(merged) == ("record" if origin is RECORDS else "window")


@pytest.mark.parametrize("origin", [RECORDS, windows(), STATEFUL, UNPROVEN])
@pytest.mark.parametrize("live", [None, RUNNING], ids=["never_ran", "live"])
def test_rows_merged_by_another_key_are_never_replaced(
    tmp_path: Path, origin: RowOrigin, live: LiveSide | None
) -> None:
    """A day's `groupBy(id).count()` would overwrite totals, an older value a newer one."""
    error = refusal_of(asked(tmp_path, origin, live=live, sinks=[delta(mode="merge", key=["id"])]))
    assert (error.error_id, error.facts["key"]) == ("TIDE-BACK-011", "id")


def test_rows_without_proof_are_replaced_by_their_time_where_the_pipeline_never_ran(tmp_path: Path) -> None:
    assert choose(asked(tmp_path, UNPROVEN, live=None)) == "time"


@pytest.mark.parametrize(("origin", "live"), [(UNPROVEN, RUNNING), (STATEFUL, RUNNING), (STATEFUL, None)])
def test_rows_without_proof_are_refused_otherwise(
    tmp_path: Path, origin: RowOrigin, live: LiveSide | None
) -> None:
    error = refusal_of(asked(tmp_path, origin, live=live))
    assert (error.error_id, error.facts["because"]) == ("TIDE-BACK-007", origin.reason)


def test_records_of_a_table_do_not_count_as_a_brokers(tmp_path: Path) -> None:
    """Rows of the table may also name a record, but not one that this pipeline has read."""
    error = refusal_of(asked(tmp_path, RECORDS, source={"delta": {"table": "silver/orders"}}))
    assert error.error_id == "TIDE-BACK-007"


def test_a_replaced_table_is_written_only_if_no_stream_keeps_its_state(tmp_path: Path) -> None:
    sinks = [delta(mode="replace")]
    assert choose(asked(tmp_path, STATEFUL, (), None, sinks=sinks)) == "everything"
    assert refusal_of(asked(tmp_path, STATEFUL, (), RUNNING, sinks=sinks)).error_id == "TIDE-BACK-010"


@pytest.mark.parametrize(
    ("keys", "bounds"),
    [
        ({"source": {"rate": {}}, "event_time": None}, DAY),
        ({"source": {"rate_per_batch": {}}, "event_time": None}, DAY),
        ({"sinks": [{"console": {}}]}, DAY),
    ],
)
def test_what_has_no_past_or_no_table_is_refused(
    tmp_path: Path, keys: dict[str, Any], bounds: tuple[str, ...]
) -> None:
    assert refusal_of(asked(tmp_path, RECORDS, bounds, **keys)).error_id == "TIDE-BACK-002"


@pytest.mark.parametrize(("mode", "bounds"), [("append", ()), ("replace", DAY)])
def test_a_range_that_does_not_go_with_the_table_is_refused(
    tmp_path: Path, mode: str, bounds: tuple[str, ...]
) -> None:
    error = refusal_of(asked(tmp_path, RECORDS, bounds, None, sinks=[delta(mode=mode)]))
    assert (error.error_id, error.facts["table_mode"]) == ("TIDE-BACK-003", mode)


@pytest.mark.parametrize(
    ("origin", "bounds", "event_time"),
    [(windows(), OFFSETS, EVENT_TIME), (UNPROVEN, OFFSETS, EVENT_TIME), (UNPROVEN, DAY, None)],
)
def test_a_range_that_does_not_select_such_rows_is_refused(
    tmp_path: Path, origin: RowOrigin, bounds: tuple[str | None, ...], event_time: Any
) -> None:
    error = refusal_of(asked(tmp_path, origin, bounds, None, event_time=event_time))
    assert error.error_id == "TIDE-BACK-004"


def test_a_range_that_cuts_through_windows_is_refused_with_the_near_one(tmp_path: Path) -> None:
    error = refusal_of(asked(tmp_path, windows(), ("2024-01-01T00:01", "2024-01-01T00:09")))
    assert error.error_id == "TIDE-BACK-005"
    assert error.facts["near_range"] == "2024-01-01T00:00:00+00:00 to 2024-01-01T00:10:00+00:00"


@pytest.mark.parametrize("closed_until", [None, datetime(2024, 1, 1, 23, 59, tzinfo=UTC)])
def test_windows_that_the_live_stream_may_still_write_are_refused(
    tmp_path: Path, closed_until: datetime | None
) -> None:
    live = RUNNING.model_copy(update={"closed_until": closed_until})
    error = refusal_of(asked(tmp_path, windows(), live=live))
    assert error.error_id == "TIDE-BACK-006"
    assert error.facts["closed_until"] == (None if closed_until is None else closed_until.isoformat())


def test_windows_that_overlap_are_closed_when_the_last_one_is(tmp_path: Path) -> None:
    """The last window that starts in the day ends five minutes after it."""
    sliding = windows(kind="sliding", length=timedelta(minutes=10))
    error = refusal_of(asked(tmp_path, sliding))
    assert (error.error_id, error.facts["end"]) == ("TIDE-BACK-006", "2024-01-02T00:05:00+00:00")
    assert choose(asked(tmp_path, sliding, ("2024-01-01", "2024-01-01T23:55"))) == "window"


@pytest.mark.parametrize("origin", [windows(kind="session"), windows(start_columns=())])
def test_windows_that_rows_cannot_be_told_by_are_refused(tmp_path: Path, origin: RowOrigin) -> None:
    assert refusal_of(asked(tmp_path, origin)).error_id == "TIDE-BACK-012"


@pytest.mark.parametrize("columns", [{"end_columns": ("e",)}, {"struct_columns": ("w",)}])
def test_windows_are_told_by_their_end_or_by_both(tmp_path: Path, columns: dict[str, Any]) -> None:
    assert choose(asked(tmp_path, windows(start_columns=(), **columns))) == "window"


@pytest.mark.parametrize(
    ("origin", "topics"),
    [
        (RECORDS, frozenset({"orders"})),
        (RECORDS, frozenset({"payments", "orders"})),
        (RECORDS, None),
        (windows(), frozenset({"payments"})),
    ],
    ids=["same_topic", "also_same", "unknown", "windows"],
)
def test_a_table_that_another_pipeline_writes_is_refused(
    tmp_path: Path, origin: RowOrigin, topics: frozenset[str] | None
) -> None:
    other = OtherWriter("copy", "bronze/orders", topics)
    error = refusal_of(asked(tmp_path, origin, others=(other,)))
    assert (error.error_id, error.facts["other_pipeline"]) == ("TIDE-BACK-015", "copy")


def test_rows_of_another_topic_are_never_taken_for_the_pipelines_own(tmp_path: Path) -> None:
    other = OtherWriter("payments", "bronze/orders", frozenset({"payments"}))
    assert choose(asked(tmp_path, RECORDS, others=(other,))) == "record"
