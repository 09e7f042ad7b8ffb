"""Offsets that a backfill reads, decided from the broker's and the ledger's facts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.declared import declared
from tidemill.backfill.bounds import Bounds, parse_bounds
from tidemill.backfill.live_side import LiveSide
from tidemill.backfill.positions import RangeFacts, choose_offsets, offsets_condition
from tidemill.checkpoint.gate import TopicFacts
from tidemill.errors import UsageError
from tidemill.sources.offsets import Positions
from tidemill.spec.project import Pipeline

COLUMNS = {"kafka_topic": "kafka_topic", "kafka_partition": "kafka_partition", "kafka_offset": "at"}
DAY = ("2024-01-01", "2024-01-02")

# Partition 0 holds offsets 5 to 99, partition 1 is whole.
TOPICS = TopicFacts(oldest={"orders": {"0": 5, "1": 0}}, ends={"orders": {"0": 100, "1": 50}})
FOUND = RangeFacts(TOPICS, from_start={"orders": {"0": 5, "1": 0}})


@pytest.fixture
def orders(tmp_path: Path) -> Pipeline:
    return declared(tmp_path)


def live_until(end: Positions) -> LiveSide:
    return LiveSide(generation="g0001", batch_id=0, offsets=end)


def of_offsets(start: str, end: str) -> Bounds:
    return parse_bounds(None, None, start, end)


def refusal(
    pipeline: Pipeline, bounds: Bounds, live: LiveSide | None = None, *, whole: bool = False
) -> UsageError:
    with pytest.raises(UsageError) as refused:
        choose_offsets(pipeline, bounds, live, FOUND, whole=whole)
    assert refused.value.runbook == "backfill"
    return refused.value


def test_a_range_of_time_is_read_from_the_oldest_record_to_the_end(orders: Pipeline) -> None:
    assert choose_offsets(orders, parse_bounds(*DAY), None, FOUND, whole=False) == (
        TOPICS.oldest,
        TOPICS.ends,
    )


def test_what_the_live_stream_has_not_read_is_not_read(orders: Pipeline) -> None:
    live = live_until({"orders": {"0": 60, "1": 20}})
    _, end = choose_offsets(orders, parse_bounds(*DAY), live, FOUND, whole=False)
    assert end == {"orders": {"0": 60, "1": 20}}


@pytest.mark.parametrize(
    "seen",
    [{"orders": {"0": 60}}, {"orders": {"0": 60}, "gone": {"0": 3}}],
    ids=["a new partition", "a topic that is gone"],
)
def test_every_partition_of_today_is_named(orders: Pipeline, seen: Positions) -> None:
    _, end = choose_offsets(orders, parse_bounds(*DAY), live_until(seen), FOUND, whole=False)
    assert end == {"orders": {"0": 60, "1": 0}}


def test_a_partition_whose_read_records_all_expired_is_read_empty(orders: Pipeline) -> None:
    start, end = choose_offsets(
        orders, parse_bounds(*DAY), live_until({"orders": {"0": 3, "1": 0}}), FOUND, whole=False
    )
    assert start["orders"]["0"] == end["orders"]["0"] == 5


def test_a_partition_that_a_range_of_offsets_leaves_out_is_not_read(orders: Pipeline) -> None:
    bounds = of_offsets('{"orders": {"0": 10}}', '{"orders": {"0": 20}}')
    start, end = choose_offsets(orders, bounds, None, FOUND, whole=False)
    assert (start["orders"], end["orders"]) == ({"0": 10, "1": 0}, {"0": 20, "1": 0})
    assert offsets_condition(start, end, COLUMNS) == (
        "(`kafka_topic` = 'orders' AND `kafka_partition` = 0 AND `at` >= 10 AND `at` < 20)"
    )


def test_rows_of_several_partitions_are_selected_by_their_records() -> None:
    condition = offsets_condition({"orders": {"0": 5, "1": 0}}, {"orders": {"0": 9, "1": 3}}, COLUMNS)
    assert condition == (
        "(`kafka_topic` = 'orders' AND `kafka_partition` = 0 AND `at` >= 5 AND `at` < 9)"
        " OR (`kafka_topic` = 'orders' AND `kafka_partition` = 1 AND `at` >= 0 AND `at` < 3)"
    )


def test_an_empty_range_selects_no_row() -> None:
    assert offsets_condition({"orders": {"0": 5}}, {"orders": {"0": 5}}, COLUMNS) == "false"


def test_offsets_that_expired_are_refused(orders: Pipeline) -> None:
    error = refusal(orders, of_offsets('{"orders": {"0": 4}}', '{"orders": {"0": 9}}'))
    assert (error.error_id, error.facts["oldest"]) == ("TIDE-BACK-008", 5)


def test_offsets_that_the_live_stream_will_write_are_refused(orders: Pipeline) -> None:
    bounds = of_offsets('{"orders": {"0": 50}}', '{"orders": {"0": 61}}')
    error = refusal(orders, bounds, live_until({"orders": {"0": 60, "1": 20}}))
    assert (error.error_id, error.facts["reached"]) == ("TIDE-BACK-006", 60)


def test_offsets_of_a_partition_that_is_not_read_are_refused(orders: Pipeline) -> None:
    error = refusal(orders, of_offsets('{"orders": {"2": 0}}', '{"orders": {"2": 1}}'))
    assert (error.error_id, error.facts["partition"]) == ("TIDE-BACK-009", "orders-2")


def test_rows_made_of_several_records_are_refused_if_some_may_have_expired(tmp_path: Path) -> None:
    windows = declared(tmp_path, transform="orders:transform")
    error = refusal(windows, parse_bounds(*DAY), whole=True)
    assert (error.error_id, error.facts["partitions"]) == ("TIDE-BACK-008", "orders-0")

    before_the_range = RangeFacts(TOPICS, {"orders": {"0": 6, "1": 0}})
    assert choose_offsets(windows, parse_bounds(*DAY), None, before_the_range, whole=True)[0] == TOPICS.oldest
