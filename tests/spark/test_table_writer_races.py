"""Two drivers that write at the same moment, each with its own view of the table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame

from tests.support.commits import commit_of
from tests.support.writer_cases import WriterCase
from tidemill.engine.classify import classify
from tidemill.errors import UnavailableError
from tidemill.ledger.read import read_ledger

# A race of the spark writer takes some seconds, most of them in Delta's own look at the log.
ROUNDS = {"arrow": 8, "spark": 3}

# `make soak` goes through more of them.
LONGER = pytest.mark.parametrize("times", [1, pytest.param(5, marks=pytest.mark.soak)])


def together(frame: DataFrame, meeting: Path, name: str) -> DataFrame:
    """Return the frame's rows, which come only after the tasks of both drivers have passed the check."""
    meeting.mkdir(parents=True, exist_ok=True)
    folder = str(meeting)

    def meet(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from tests.support.eventually import eventually

        (Path(folder) / name).touch()
        eventually(lambda: len(list(Path(folder).iterdir())) == 2, "the other driver's task runs too", 60)
        yield from batches

    return frame.repartition(1).mapInArrow(meet, frame.schema)


def outcome(write: Callable[[], bool]) -> bool | str:
    """Return True if this driver committed, otherwise the id of the error that stopped it."""
    try:
        return write()
    except Exception as error:  # as the driver does
        found = classify(error)
        if not isinstance(found, UnavailableError):
            raise
        return found.error_id


def race(case: WriterCase, number: int, batches: dict[str, tuple[int, str]]) -> list[bool | str]:
    """Let both drivers write at once, and return both outcomes."""

    def write(driver: str) -> bool:
        # MERGE takes its transaction from the session, and two drivers never share one.
        own = replace(case, spark=case.spark.newSession())
        batch_id, pipeline = batches[driver]
        meeting = case.path.parent / f"meeting-{number}"
        frame = together(own.frame((batch_id, pipeline)), meeting, driver)
        try:
            return own.writer().write(frame, commit_of(batch_id, driver, pipeline)).committed
        finally:
            # One that lost before its task ran does not keep the other waiting.
            (meeting / driver).touch()

    with ThreadPoolExecutor(2) as drivers:
        return list(drivers.map(lambda driver: outcome(lambda: write(driver)), batches))


@LONGER
def test_two_drivers_that_race_for_a_batch_write_it_once(case: WriterCase, times: int) -> None:
    rounds = times * ROUNDS[case.name]
    # The table is there: racing to make it is the next test's story.
    case.writer().write(case.frame((0, "x")).where("false"), commit_of(0, pipeline="third"))
    for number in range(rounds):
        told = race(case, number, {"driver-1": (number, "orders"), "driver-2": (number, "orders")})
        # The loser learns that the batch exists, or gets an error and learns it from a repeat.
        assert told.count(True) == 1
        assert set(told) - {True} <= {False, "TIDE-CKPT-008", "TIDE-SINK-002"}
        repeated = case.writer().write(case.frame((number, "orders")), commit_of(number, "driver-3"))
        assert not repeated.committed
    assert case.ids() == list(range(rounds))
    assert len(read_ledger(str(case.path))) == rounds + 1


@pytest.mark.soak
@LONGER
def test_two_drivers_that_race_to_make_the_table_write_their_batch_once(
    case: WriterCase, tmp_path: Path, times: int
) -> None:
    for number in range(times * ROUNDS[case.name] // 3):
        fresh = replace(case, path=tmp_path / str(number) / "orders")
        told = race(fresh, number, {"driver-1": (0, "orders"), "driver-2": (0, "orders")})
        assert fresh.writer().write(fresh.frame((0, "orders")), commit_of(0, "driver-3")).committed == (
            True not in told
        )
        assert fresh.ids() == [0]


@pytest.mark.soak
@LONGER
def test_two_pipelines_that_race_for_a_table_both_get_their_batch_in(case: WriterCase, times: int) -> None:
    case.writer().write(case.frame((0, "x")).where("false"), commit_of(0, pipeline="third"))
    rounds = times * ROUNDS[case.name] // 2
    for number in range(rounds):
        told = race(case, number, {"driver-1": (number, "orders"), "driver-2": (number + 100, "payments")})
        assert told == [True, True]
    assert case.ids() == [*range(rounds), *range(100, 100 + rounds)]


@pytest.mark.parametrize(
    "declaration",
    [{"mode": "merge", "key": ["id"]}, pytest.param({"mode": "replace"}, marks=pytest.mark.soak)],
)
def test_two_drivers_that_race_to_change_rows_do_it_once(
    spark_case: WriterCase, declaration: dict[str, object]
) -> None:
    case = replace(spark_case, declaration=declaration)
    case.writer().write(case.frame((0, "before")), commit_of(0))
    told = race(case, 1, {"driver-1": (1, "orders"), "driver-2": (1, "orders")})
    assert told.count(True) == 1
    assert case.ids() == ([0, 1] if declaration["mode"] == "merge" else [1])
