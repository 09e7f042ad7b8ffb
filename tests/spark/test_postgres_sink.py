"""Rows in a real PostgreSQL: by key, once, whatever crashes; and what it cannot take."""

from __future__ import annotations

import itertools
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.command_line import CommandLine
from tests.support.driver_process import START_TIMEOUT_SECONDS, drivers_of
from tests.support.followed_fixes import typed
from tests.support.killing_driver import killing, killing_driver_command
from tests.support.lake import Lake, LakePipeline
from tests.support.postgres import PASSWORD, PostgresServer
from tests.support.writer_cases import CrashedError
from tidemill.errors import DataError, SpecError, TidemillError, UnavailableError

_NUMBERS = itertools.count(1)


@pytest.fixture
def table(postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Yield a separate schema, with a table `orders` whose rows have an author."""
    monkeypatch.setenv("TIDEMILL_SECRET_CRM", postgres.connection_string)
    schema = f"test_{next(_NUMBERS)}"
    postgres.run(
        f"CREATE SCHEMA {schema}",
        f"CREATE TABLE {schema}.orders (id bigint PRIMARY KEY, price numeric(10,2), "
        "written_by text DEFAULT 'tidemill')",
    )
    yield f"{schema}.orders"
    postgres.run(f"DROP SCHEMA {schema} CASCADE")


def pipeline_of(lake: Lake, table: str, **sink: Any) -> LakePipeline:
    folder = {"path": "landing/orders", "format": "json", "max_files_per_batch": 1}
    return lake.pipeline(
        "orders",
        source={"files": {**folder, "schema": "id long, price decimal(10,2), op string"}},
        sinks=[
            {
                "postgres": {
                    "connection": "crm",
                    "table": table,
                    "key": ["id"],
                    "delete_where": "op = 'delete'",
                    "except_columns": ["op"],
                    **sink,
                }
            },
        ],
        run={"mode": "incremental"},
    )


def land(lake: Lake, *batches: list[dict[str, Any]]) -> None:
    for rows in batches:
        lake.land_rows(f"landing/orders/{next(_NUMBERS)}.json", rows)


def crash_at(step: str, number: int) -> Any:
    seen = itertools.count(1)

    def crash(done: str) -> None:
        if done == step and next(seen) == number:
            raise CrashedError(done)

    return crash


def test_each_batch_is_in_the_database_once_whatever_crashes_on_either_side(
    lake: Lake, postgres: PostgresServer, table: str
) -> None:
    first = [{"id": number, "price": number} for number in (1, 2, 3)]
    second = [{"id": 2, "price": 20.5}, {"id": 3, "op": "delete"}, {"id": 4, "price": 4}]
    land(lake, first, second)
    orders = pipeline_of(lake, table)
    rows = f"SELECT id, price::text, written_by FROM {table} ORDER BY id"
    # The server goes before the commit: nothing of the batch is there, now or at the next start.
    for _ in range(2):
        with pytest.raises(UnavailableError) as away:
            orders.run_incremental(lambda step: postgres.stop() if step == "database_written" else None)
        assert away.value.error_id == "TIDE-SINK-015"
        assert PASSWORD not in str(away.value)
    postgres.start()
    assert postgres.run(rows) == []
    # After the commit of the second batch, all of it; Spark has not noted it.
    with pytest.raises(CrashedError):
        orders.run_incremental(crash_at("database_committed", 2))
    once = [(1, "1.00", "tidemill"), (2, "20.50", "tidemill"), (4, "4.00", "tidemill")]
    assert postgres.run(rows) == once
    # A repeated batch does not undo a manual change of a row.
    postgres.run(f"UPDATE {table} SET price = 21 WHERE id = 2")
    postgres.stop()
    postgres.start()
    land(lake, [{"id": 1, "price": 10}])
    orders.run_incremental()
    assert postgres.run(rows) == [
        (1, "10.00", "tidemill"),
        (2, "21.00", "tidemill"),
        (4, "4.00", "tidemill"),
    ]
    # A database that was restored lacks rows that no batch brings again, until they are read again.
    marks = f"{table.partition('.')[0]}.tidemill_batches"
    assert postgres.run(f"SELECT batch_id FROM {marks}") == [(2,)]
    postgres.run(f"UPDATE {marks} SET batch_id = 1", f"UPDATE {table} SET price = 1 WHERE id = 1")
    land(lake, [{"id": 5, "price": 5}])
    behind = refusal(orders)
    assert (behind.error_id, behind.facts["database_batch"]) == ("TIDE-SINK-019", 1)
    tidemill = CommandLine(lake.folder, lambda: SimpleNamespace(out="", err=""))
    assert tidemill(*typed(behind.fix, "checkpoint rewind", {})) == 0
    orders.run_incremental()
    assert [(number, price) for number, price, _ in postgres.run(rows)] == [
        (1, "10.00"),
        (2, "21.00"),
        (4, "4.00"),
        (5, "5.00"),
    ]


@pytest.mark.soak
def test_real_drivers_that_are_killed_leave_each_row_once_and_no_value_in_their_log(
    tmp_path: Path, postgres: PostgresServer, table: str
) -> None:
    lake = Lake(tmp_path / "lake", None)  # type: ignore[arg-type]  # each driver brings its own session
    postgres.run(f"ALTER TABLE {table} ADD CONSTRAINT dear CHECK (price > 0)")
    pipeline_of(lake, table)
    land(lake, *([{"id": number, "price": 1}, {"id": 9, "price": number}] for number in (1, 2, 3, 4)))
    with drivers_of(lake.folder) as drivers:
        for batch_id, step, prices in (
            (1, "database_written 1", "1,1"),
            (2, "database_committed 1", "1,1,1,3"),
        ):
            variables = killing(step, batch_id, tmp_path)
            killed = replace(drivers, variables=variables, command=killing_driver_command).start(
                "orders", "incremental"
            )
            assert killed.wait(START_TIMEOUT_SECONDS) == -signal.SIGKILL, killed.output[-3000:]
            found = postgres.run(f"SELECT string_agg(trunc(price)::text, ',' ORDER BY id) FROM {table}")
            assert found == [(prices,)]
            postgres.stop()
            postgres.start()
        assert drivers.start("orders", "incremental").wait(START_TIMEOUT_SECONDS) == 0
        assert postgres.run(f"SELECT id, trunc(price)::int FROM {table} ORDER BY id") == [
            (1, 1),
            (2, 1),
            (3, 1),
            (4, 1),
            (9, 4),
        ]
        land(lake, [{"id": 5, "price": -77.25}])
        refused = drivers.start("orders", "incremental")
        assert refused.wait(START_TIMEOUT_SECONDS) == 65
    assert "TIDE-SINK-018" in refused.output
    assert "77.25" not in refused.output
    assert PASSWORD not in refused.output


def refusal(orders: LakePipeline) -> TidemillError:
    with pytest.raises((DataError, SpecError)) as refused:
        orders.run_incremental()
    return refused.value


def test_what_cannot_be_a_row_of_the_table_stops_the_pipeline_and_writes_nothing(
    lake: Lake, postgres: PostgresServer, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    postgres.run(f"ALTER TABLE {table} ADD CONSTRAINT dear CHECK (price > 0)")
    land(lake, [{"id": 1, "price": 1}, {"id": 2, "price": -77}])
    broken = refusal(pipeline_of(lake, table))
    assert (broken.error_id, broken.facts["constraint"]) == ("TIDE-SINK-018", "dear")
    assert "77" not in str(broken)
    shared = refusal(pipeline_of(lake, table, transform=twice(lake)))
    assert (shared.error_id, shared.facts["repeated_keys"]) == ("TIDE-SINK-017", 1)
    none = refusal(pipeline_of(lake, f"{table}_of_old"))
    assert (none.error_id, none.facts["found"]) == ("TIDE-SINK-016", "nothing by this name")
    other = refusal(pipeline_of(lake, table, key=["price"], except_columns=[]))
    assert other.error_id == "TIDE-SINK-016"
    assert other.facts["found"] == ("the table has no column op; no unique index has just the columns price")
    assert postgres.run(f"SELECT count(*) FROM {table}") == [(0,)]
    monkeypatch.setenv("TIDEMILL_SECRET_CRM", f"host {PASSWORD}")
    unread = refusal(pipeline_of(lake, table))
    assert unread.error_id == "TIDE-SPEC-071"
    assert PASSWORD not in str(unread)


def twice(lake: Lake) -> str:
    """Return a sink's transform that gives the first row twice."""
    return lake.transform(
        "twice",
        "def transform(rows):\n    first = rows.where('id = 1')\n    return first.unionAll(first)\n",
    )


EVERY_TYPE = {
    "a_boolean": ("true", "boolean", True),
    "a_short": ("smallint(-7)", "smallint", -7),
    "a_long": ("9007199254740993L", "bigint", 9007199254740993),
    "a_float": ("float(0.1)", "double precision", 0.10000000149011612),
    "a_double": ("0.1D + 0.2D", "double precision", 0.30000000000000004),
    "a_nan": ("double('NaN')", "double precision", "NaN"),
    "a_decimal": ("cast('12345678901234567890.123456' AS decimal(38,6))", "numeric", None),
    "a_text": ("concat('a\\tb', char(92), 'n', char(10), '\"', \"'\", 'é')", "text", "a\tb\\n\n\"'é"),
    "a_null_text": ("cast(null AS string)", "text", None),
    "an_escape": ("concat(char(92), 'N')", "character varying(5)", "\\N"),
    "bytes": ("X'00FF5C'", "bytea", "\\x00ff5c"),
    "a_date": ("DATE'1969-07-20'", "date", "1969-07-20"),
    "a_time": (
        "TIMESTAMP'2024-03-31 02:30:00.1234+01:00'",
        "timestamptz",
        "2024-03-31T01:30:00.1234+00:00",
    ),
    "a_local_time": ("TIMESTAMP_NTZ'2024-03-31 02:30:00.123456'", "timestamp", "2024-03-31T02:30:00.123456"),
    "texts": ("array('a', null, 'b,\"{}', concat(char(92), 'c'))", "text[]", ["a", None, 'b,"{}', "\\c"]),
    "no_texts": ("cast(array() AS array<string>)", "text[]", []),
    "numbers": ("array(1, null, 3)", "integer[]", [1, None, 3]),
    "document": (
        "named_struct('at', TIMESTAMP'2024-01-01 00:00:00.123456Z', 'n', cast(null AS int))",
        "jsonb",
        {"at": "2024-01-01T00:00:00.123456Z", "n": None},
    ),
    "a_map": ("map('k', 1.5D)", "jsonb", {"k": 1.5}),
    "an_id": ("'6F9619FF-8B86-D011-B42D-00CF4FC964FF'", "uuid", "6f9619ff-8b86-d011-b42d-00cf4fc964ff"),
}


def test_every_type_arrives_as_it_was(lake: Lake, postgres: PostgresServer, table: str) -> None:
    other = table.replace(".orders", ".types")
    columns = ", ".join(f'"{name}" {kind}' for name, (_, kind, _) in EVERY_TYPE.items())
    postgres.run(f"CREATE TABLE {other} (id bigint PRIMARY KEY, {columns})")
    values = ", ".join(f"{sql} AS {name}" for name, (sql, _, _) in EVERY_TYPE.items())
    query = lake.folder / "spark_apps/transforms/types.sql"
    query.write_text(f"SELECT id, {values} FROM result")
    land(lake, [{"id": 1}])
    pipeline_of(lake, other, transform="types.sql", delete_where=None, except_columns=[]).run_incremental()
    ((found,),) = postgres.run("SET LOCAL timezone = 'UTC'", f"SELECT to_jsonb(t) - 'id' FROM {other} AS t")
    expected = {name: value for name, (_, _, value) in EVERY_TYPE.items()}
    assert postgres.run(f"SELECT a_decimal::text FROM {other}") == [("12345678901234567890.123456",)]
    del found["a_decimal"], expected["a_decimal"]
    assert found == expected
