"""The token of a batch keeps its rows single in a database, whatever happens in between."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.commits import commit_of
from tidemill.sinks.batch_token import BatchToken


@pytest.fixture
def database(tmp_path: Path) -> Path:
    file = tmp_path / "orders.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE orders (batch integer)")
    return file


def write(database: Path, token: BatchToken, *, crash: bool = False) -> bool:
    """Write like a sink's function, and return True if the rows were new."""
    with closing(sqlite3.connect(database, timeout=0)) as connection, token.once(connection) as is_new:
        if is_new:
            connection.execute("INSERT INTO orders VALUES (?)", (token.batch_id,))
        if crash:
            raise KeyboardInterrupt
        return is_new


def batches(database: Path) -> list[int]:
    with closing(sqlite3.connect(database)) as connection:
        return [batch for (batch,) in connection.execute("SELECT batch FROM orders ORDER BY batch")]


def test_a_batch_is_written_once_and_one_that_crashed_again(database: Path) -> None:
    assert write(database, token(0))
    assert not write(database, token(0))
    with pytest.raises(KeyboardInterrupt):
        write(database, token(1), crash=True)
    assert batches(database) == [0]
    assert write(database, token(1))
    # A driver that was cut off comes late.
    assert not write(database, token(0))
    assert batches(database) == [0, 1]


def test_another_stream_has_its_own_numbers(database: Path) -> None:
    assert write(database, token(3))
    assert write(database, BatchToken.of(commit_of(3, pipeline="payments")))
    assert batches(database) == [3, 3]


def test_two_drivers_cannot_both_write_a_batch(database: Path) -> None:
    with closing(sqlite3.connect(database)) as connection, token(0).once(connection) as is_new:
        assert is_new
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            write(database, token(0))
    assert not write(database, token(0))


def test_a_connection_that_commits_by_itself_is_refused(database: Path) -> None:
    class Autocommitting:
        autocommit = True

    with pytest.raises(ValueError, match="autocommit"), token(0).once(Autocommitting()):
        pass
    assert batches(database) == []


def token(batch_id: int) -> BatchToken:
    made = BatchToken.of(commit_of(batch_id, driver=f"driver-{batch_id}"))
    assert made == BatchToken("orders", "g0001", "2f1c", batch_id, "orders:g0001:bronze/orders:2f1c")
    return made
