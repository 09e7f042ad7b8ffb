"""Spark types for each PostgreSQL column: only those whose values are not rounded, cut or moved."""

from __future__ import annotations

import pytest
from pyspark.sql import types as T

from tidemill.sinks.postgres_columns import DatabaseColumn, DatabaseTable, holds, misfits, natural_type
from tidemill.sinks.postgres_sql import create_table

ITEMS = T.ArrayType(T.StructType([T.StructField("at", T.TimestampType())]))

FITS: list[tuple[T.DataType, list[str], list[str]]] = [
    (T.BooleanType(), ["boolean"], ["integer", "text"]),
    (T.ShortType(), ["smallint", "bigint", "numeric(5,0)", "numeric(7,2)"], ["numeric(6,2)", "real"]),
    (T.IntegerType(), ["integer", "bigint", "numeric"], ["smallint", "text", "double precision"]),
    (T.LongType(), ["bigint", "numeric(19,0)"], ["integer", "numeric(18,0)"]),
    (T.FloatType(), ["real", "double precision"], ["numeric"]),
    (T.DoubleType(), ["double precision"], ["real", "numeric"]),
    (T.DecimalType(10, 2), ["numeric", "numeric(10,2)", "numeric(12,4)"], ["numeric(10,4)", "numeric(12,1)"]),
    (
        T.StringType(),
        ["text", "character varying(20)", "uuid", "jsonb", "enum"],
        ["integer", "character(3)", "date"],
    ),
    (T.BinaryType(), ["bytea"], ["text"]),
    (T.DateType(), ["date"], ["timestamp with time zone"]),
    (
        T.TimestampType(),
        ["timestamp with time zone", "timestamp(6) with time zone"],
        ["timestamp without time zone", "timestamp(3) with time zone", "date"],
    ),
    (T.TimestampNTZType(), ["timestamp without time zone"], ["timestamp with time zone"]),
    (T.ArrayType(T.LongType()), ["bigint[]", "jsonb"], ["integer[]", "bigint", "text"]),
    (T.ArrayType(T.ArrayType(T.LongType())), ["jsonb"], ["bigint[]"]),
    (ITEMS, ["jsonb", "json"], ["text", "text[]"]),
    (T.MapType(T.StringType(), T.DoubleType()), ["jsonb"], ["hstore"]),
    (T.MapType(T.IntegerType(), T.DoubleType()), [], ["jsonb"]),
    (T.DayTimeIntervalType(), [], ["interval", "jsonb", "text"]),
    (T.NullType(), [], ["text", "jsonb"]),
]


@pytest.mark.parametrize(("kind", "fit", "misfit"), FITS, ids=[kind.simpleString() for kind, _, _ in FITS])
def test_a_column_takes_what_it_holds_as_it_is(kind: T.DataType, fit: list[str], misfit: list[str]) -> None:
    assert [holds(target, kind) for target in fit] == [True] * len(fit)
    assert [holds(target, kind) for target in misfit] == [False] * len(misfit)
    # The type to make a table with is one of them.
    assert not fit or holds(natural_type(kind), kind)


ROWS = T.StructType().add("id", "long").add("name", "string").add("at", "timestamp")
TABLE = (
    DatabaseColumn("id", "bigint", required=True),
    DatabaseColumn("name", "text"),
    DatabaseColumn("at", "timestamp with time zone"),
)


@pytest.mark.parametrize(
    ("columns", "keys", "key", "found"),
    [
        (TABLE, [{"id"}, {"name", "at"}], ["id"], []),
        (TABLE, [{"id"}, {"name", "at"}], ["at", "name"], []),
        (TABLE, [{"id", "name"}], ["id"], ["no unique index has just the columns id"]),
        (TABLE, [{"id"}], ["ID"], ["the rows have no key column ID"]),
        (TABLE[:2], [{"id"}], ["id"], ["the table has no column at"]),
        (
            (*TABLE, DatabaseColumn("owner", "text", required=True), DatabaseColumn("note", "text")),
            [{"id"}],
            ["id"],
            ["owner needs a value and has no default"],
        ),
        (
            (TABLE[0], DatabaseColumn("name", "text", computed=True), DatabaseColumn("at", "date")),
            [{"id"}],
            ["id"],
            ["name is computed by the database", "at timestamp does not fit into date"],
        ),
    ],
)
def test_rows_and_table_are_compared_as_a_whole(
    columns: tuple[DatabaseColumn, ...], keys: list[set[str]], key: list[str], found: list[str]
) -> None:
    table = DatabaseTable(columns, frozenset(frozenset(each) for each in keys))
    assert list(misfits(ROWS, key, table)) == found


def test_a_name_cannot_leave_its_quotes() -> None:
    shown = create_table("public.orders", [("id", "bigint"), ('a"); DROP TABLE x; --', "text")], ["id"])
    assert shown == (
        'CREATE TABLE "public"."orders" ("id" bigint, "a""); DROP TABLE x; --" text, PRIMARY KEY ("id"))'
    )
