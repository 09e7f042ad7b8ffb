"""The number of rewindable batches, and the finding if more are requested."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.declared import declared
from tidemill.checkpoint.current import Current
from tidemill.checkpoint.reading.state_folder import GenerationFiles, StateFolder
from tidemill.checkpoint.retention.clock import SourceRetention, shortest_of_brokers
from tidemill.checkpoint.retention.policy import reach_findings
from tidemill.checkpoint.retention.rule import (
    DEFAULT_REWINDABLE,
    MARGIN_BATCHES,
    MAX_FILES,
    MIN_BATCHES,
    Retention,
    retention_findings,
    retention_of,
    table_properties,
)
from tidemill.engine.session_conf import session_conf
from tidemill.spec.project import Pipeline
from tidemill.spec.units import format_duration

FOLDER = Path("/nowhere")
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def kept(transform: str | None = None, **run: Any) -> Retention:
    return retention_of(declared(FOLDER, transform=transform, run=run).spec)


def test_a_wish_that_fits_is_kept_with_a_margin() -> None:
    found = kept(trigger="1 minute", rewindable="3 days")
    assert found.batches == 3 * 24 * 60 + MARGIN_BATCHES
    assert found.rewindable == timedelta(days=3)
    assert retention_findings("orders", found) == []


def test_a_wish_of_too_many_files_is_cut_and_says_what_is_kept() -> None:
    found = kept(trigger="10 seconds", rewindable="3 days")
    assert found.files <= MAX_FILES
    (finding,) = retention_findings("orders", found)
    assert (finding.finding_id, finding.severity) == ("TIDE-CKPT-060", "warning")
    assert finding.facts["asked"] == "3 days"
    assert finding.facts["kept"] == format_duration(found.rewindable)


def test_what_the_warning_proposes_fits() -> None:
    (finding,) = retention_findings("orders", kept(trigger="10 seconds", rewindable="3 days"))
    proposal = str(finding.facts["kept"])
    assert kept(trigger="10 seconds", rewindable=proposal).reaches
    seconds = finding.fix.partition("run.trigger to ")[2].split()[0]
    assert kept(trigger=f"{seconds} seconds", rewindable="3 days").reaches


def test_without_a_wish_there_is_nothing_to_warn_of() -> None:
    found = kept(trigger="0 seconds", transform="orders:transform")
    assert not found.reaches
    assert retention_findings("orders", found) == []
    assert kept(trigger="10 seconds").rewindable == DEFAULT_REWINDABLE


def test_state_of_a_transform_leaves_room_for_fewer_batches() -> None:
    plain = kept(trigger="10 seconds", rewindable="3 days")
    stateful = kept("orders:transform", trigger="10 seconds", rewindable="3 days")
    more_partitions = kept(
        "orders:transform", trigger="10 seconds", rewindable="3 days", shuffle_partitions=64
    )
    assert plain.batches > stateful.batches > more_partitions.batches >= MIN_BATCHES


@pytest.mark.parametrize(
    ("run", "batches"),
    [
        ({"mode": "incremental", "schedule": "@daily", "rewindable": "3 days"}, MIN_BATCHES),
        ({"mode": "incremental", "schedule": "@hourly", "rewindable": "3 days"}, 72 * 10 + MARGIN_BATCHES),
        ({"mode": "incremental", "schedule": "*/15 * * * *", "rewindable": "1 day"}, 960 + MARGIN_BATCHES),
        ({"mode": "incremental", "rewindable": "1 day"}, 240 + MARGIN_BATCHES),
        ({"rewindable": "0 seconds"}, MIN_BATCHES),
    ],
)
def test_incremental_runs_count_several_batches_each(run: dict[str, Any], batches: int) -> None:
    assert kept(**run).batches == batches


@given(
    trigger=st.integers(0, 86_400),
    rewindable=st.integers(0, 3653 * 24),
    partitions=st.integers(1, 4096),
    transform=st.sampled_from([None, "orders:transform"]),
)
def test_the_rule_holds_for_every_declaration(
    trigger: int, rewindable: int, partitions: int, transform: str | None
) -> None:
    found = kept(
        transform,
        trigger=f"{trigger} seconds",
        rewindable=f"{rewindable} hours",
        shuffle_partitions=partitions,
    )
    assert found.batches >= MIN_BATCHES
    assert found.files <= MAX_FILES or found.batches == MIN_BATCHES
    assert found.reaches == (found.rewindable >= found.asked)
    assert found.log_retention >= found.asked
    assert found.deleted_file_retention >= found.asked


@pytest.mark.parametrize(
    ("batches", "hours", "rewindable", "found"),
    [
        (100, 1, "2 days", True),
        (99, 1, "2 days", False),
        (100, 49, "2 days", False),
        (100, 1, None, False),
    ],
    ids=["too fast", "not full yet", "reaches", "nobody asked"],
)
def test_batches_that_come_faster_than_the_schedule_says_are_found(
    batches: int, hours: int, rewindable: str | None, found: bool
) -> None:
    run = {"mode": "incremental", "schedule": "@daily"} | ({"rewindable": rewindable} if rewindable else {})
    checkpoint = GenerationFiles("g0001", "/lake/state/orders/g0001", commits=tuple(range(batches)))
    folder = StateFolder(
        "orders",
        (Current(pipeline="orders", generation="g0001", why="first start"),),
        {"g0001": checkpoint},
        first_batch_at=NOW - timedelta(hours=hours),
    )
    ids = [finding.finding_id for finding in reach_findings(folder, kept(**run), NOW)]
    assert ids == (["TIDE-CKPT-064"] if found else [])


def test_spark_is_told() -> None:
    pipeline = declared(FOLDER, run={"trigger": "1 minute", "rewindable": "1 day"})
    conf = session_conf(pipeline)
    assert conf["spark.sql.streaming.minBatchesToRetain"] == str(24 * 60 + MARGIN_BATCHES)


def test_new_tables_keep_longer_only_where_deltas_own_defaults_are_too_short() -> None:
    assert table_properties(kept(rewindable="3 days")) == {}
    assert table_properties(kept(rewindable="10 days")) == {
        "delta.deletedFileRetentionDuration": "interval 264 hours"
    }
    assert table_properties(kept(rewindable="40 days")) == {
        "delta.logRetentionDuration": "interval 984 hours",
        "delta.deletedFileRetentionDuration": "interval 984 hours",
    }


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ([timedelta(days=2), None], "2 days"),
        ([timedelta(days=2), "silent"], "2 days"),
        ([None, None], "for ever"),
        # It may keep less.
        ([None, "silent"], "unknown"),
        (["silent", "silent"], "unknown"),
    ],
)
def test_a_source_keeps_for_ever_only_if_each_of_its_brokers_says_so(told: list[Any], expected: str) -> None:
    sources = {name: {"kafka": {"topic": name}} for name in ("left", "right")}
    pipeline = declared(FOLDER, source=None, sources=sources, transform="joined:join")
    answers = iter(told)

    def ask(_: Pipeline) -> SourceRetention | None:
        keeps = next(answers)
        return None if keeps == "silent" else SourceRetention("topic", keeps, certain=True)

    found = shortest_of_brokers(pipeline, ask)
    words = (
        "unknown" if found is None else "for ever" if found.keeps is None else format_duration(found.keeps)
    )
    assert words == expected
