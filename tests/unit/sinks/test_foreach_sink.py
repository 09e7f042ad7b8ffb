"""Calls of the project's sink code, and handling of its failures. There is no Spark, so rows are plain."""

from __future__ import annotations

from typing import Any, cast

import pytest
from pyspark.sql import DataFrame

from tests.support.commits import commit_of
from tidemill.errors import DataError, TidemillError, UnavailableError
from tidemill.sinks.batch_token import BatchToken
from tidemill.sinks.foreach_sink import _write_partition, call_with_batch

NO_ROWS = cast("DataFrame", None)


class Writer:
    """Keeps what it is called with."""

    calls: list[Any]
    answer: object = True

    def open(self, partition_id: int, batch_id: int) -> object:
        type(self).calls = [("open", partition_id, batch_id)]
        return self.answer

    def process(self, row: object) -> None:
        if row == "bad":
            raise ValueError(row)
        self.calls.append(row)

    def close(self, error: BaseException | None) -> None:
        self.calls.append(error if error is None else type(error).__name__)


class Declining(Writer):
    answer = False


class Silent(Writer):
    answer = None


class Bare:
    """Has what it must have."""

    seen: list[object] = []  # noqa: RUF012  # of the class, to be looked at

    def process(self, row: object) -> None:
        self.seen.append(row)


def test_a_writer_is_opened_given_its_rows_and_closed() -> None:
    _write_partition(Writer, 7, iter(["a", "b"]))  # type: ignore[arg-type,list-item]
    assert Writer.calls == [("open", 0, 7), "a", "b", None]
    _write_partition(Declining, 7, iter(["a"]))  # type: ignore[arg-type,list-item]
    assert Declining.calls == [("open", 0, 7), None]
    _write_partition(Bare, 7, iter(["a"]))  # type: ignore[arg-type,list-item]
    assert Bare.seen == ["a"]


def test_a_failure_closes_the_writer_and_fails_the_batch() -> None:
    with pytest.raises(ValueError, match="bad"):
        _write_partition(Writer, 7, iter(["a", "bad", "b"]))  # type: ignore[arg-type,list-item]
    assert Writer.calls == [("open", 0, 7), "a", "ValueError"]


def test_a_writer_that_does_not_say_whether_it_wants_its_rows_loses_none() -> None:
    with pytest.raises(TypeError, match="True or False"):
        _write_partition(Silent, 7, iter(["a"]))  # type: ignore[arg-type,list-item]
    assert Silent.calls == [("open", 0, 7), "TypeError"]


class OperationalError(Exception):
    """An error with the name that every database driver uses."""


@pytest.mark.parametrize(
    ("raised", "kind", "error_id"),
    [
        (ValueError("wrong value of a record"), DataError, "TIDE-SINK-014"),
        (ConnectionRefusedError(111, "refused", "/address/of a record"), UnavailableError, "TIDE-SINK-015"),
        (OperationalError("server closed the connection"), UnavailableError, "TIDE-SINK-015"),
        (UnavailableError("TIDE-SINK-099", "Its own."), UnavailableError, "TIDE-SINK-099"),
    ],
)
def test_a_function_that_fails_fails_the_batch(
    raised: Exception, kind: type[TidemillError], error_id: str
) -> None:
    seen = []

    def write(_: DataFrame, token: BatchToken) -> None:
        seen.append(token.batch_id)
        raise raised

    with pytest.raises(kind) as failed:
        call_with_batch(NO_ROWS, write, commit_of(4))
    assert failed.value.error_id == error_id
    assert "of a record" not in str(failed.value)
    assert seen == [4]
