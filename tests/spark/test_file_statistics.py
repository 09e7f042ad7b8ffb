"""Statistics in the log let queries skip files, and never a file with a row that is asked for."""

from __future__ import annotations

import json
from functools import reduce
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from tests.support.commits import commit_of
from tests.support.writer_cases import WriterCase

COLUMNS = (
    "id long, number double, real float, name string, at timestamp, local timestamp_ntz, day date, "
    "price decimal(12,2), wide decimal(38,10), ok boolean"
)
LONG = "z" * 100
# One file each; what a bound gets wrong is between two of them.
FILES = [
    "SELECT 1L id, -1.5D number, float(0.1) real, 'a' name, TIMESTAMP'1969-07-20 20:17:40.123456Z' at, "
    "TIMESTAMP_NTZ'2024-03-31 02:30:00.000001' local, DATE'1969-07-20' day, -12.34 price, "
    "12345678901234567890.5 wide, true ok",
    "SELECT -7L id, 1.5D number, float(-0.5) real, CONCAT(REPEAT('z', 99), 'é') name, "
    "TIMESTAMP'2024-01-01 00:00:00.000001Z' at, TIMESTAMP_NTZ'2024-01-01 00:00:00' local, "
    "DATE'2024-02-29' day, 0.10 price, -0.0000000001 wide, false ok",
    f"SELECT 9007199254740993L id, 2.5D number, float(0.25) real, '{LONG}' name, "
    "TIMESTAMP'2024-01-01 00:00:00.000999Z' at, TIMESTAMP_NTZ'1900-01-01 00:00:00' local, "
    "DATE'0001-01-01' day, 9999999999.99 price, 0 wide, NULL ok",
    "SELECT NULL id, NULL number, NULL real, NULL name, NULL at, NULL local, NULL day, NULL price, "
    "NULL wide, NULL ok",
    *(
        f"SELECT 10L id, double('{number}') number, float('{real}') real, NULL name, NULL at, NULL local, "
        "NULL day, NULL price, NULL wide, NULL ok"
        for number, real in (("NaN", "NaN"), ("Infinity", "-Infinity"))
    ),
]
QUERIES = [
    "id < 0",
    "id >= 9007199254740993",
    "id = 9007199254740992",
    "id IS NULL",
    "id IS NOT NULL",
    "number < -1",
    "number > 1e300",
    "number = double('NaN')",
    "number < double('NaN')",
    "real = float(0.1)",
    "real < -1e30",
    "real > 1",
    "name = 'a'",
    f"name = '{LONG}'",
    f"name > '{LONG}'",
    f"name > '{LONG[:32]}'",
    f"name <= '{LONG[:32]}'",
    "name = CONCAT(REPEAT('z', 99), 'é')",
    "at = TIMESTAMP'1969-07-20 20:17:40.123456Z'",
    "at > TIMESTAMP'2024-01-01 00:00:00.000Z'",
    "at >= TIMESTAMP'2024-01-01 00:00:00.000999Z'",
    "at > TIMESTAMP'2024-01-01 00:00:00.000999Z'",
    "at < TIMESTAMP'1970-01-01 00:00:00Z'",
    "local > TIMESTAMP_NTZ'2024-03-31 02:30:00'",
    "local = TIMESTAMP_NTZ'2024-03-31 02:30:00.000001'",
    "local < TIMESTAMP_NTZ'1900-01-01 00:00:01'",
    "day < DATE'1000-01-01'",
    "day = DATE'2024-02-29'",
    "price < 0",
    "price = 0.1",
    "price >= 9999999999.99",
    "wide > 12345678901234567890",
    "wide < 0",
    "ok",
    "NOT ok",
    "ok IS NULL",
]


def table_of(case: WriterCase) -> DataFrame:
    return case.spark.read.format("delta").load(str(case.path))


def matching(rows: list[Row]) -> list[str]:
    """Return rows as texts, because a NaN differs from itself."""
    return sorted(str(row) for row in rows)


def log_statistics(case: WriterCase) -> list[dict[str, Any]]:
    """Return the statistics of each file in the log."""
    found = []
    for commit in sorted((case.path / "_delta_log").glob("*.json")):
        for line in commit.read_text().splitlines():
            action = json.loads(line)
            if "add" in action:
                found.append(json.loads(action["add"]["stats"]))
    return found


@pytest.fixture(scope="module", params=["arrow", pytest.param("spark", marks=pytest.mark.soak)])
def written(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, spark: SparkSession
) -> WriterCase:
    """Return a table with one file for each select."""
    case = WriterCase(request.param, tmp_path_factory.mktemp("statistics") / "orders", spark)
    writer = case.writer(columns=COLUMNS)
    fields = spark.createDataFrame([], COLUMNS).schema
    casts = [f"CAST({field.name} AS {field.dataType.simpleString()}) AS {field.name}" for field in fields]
    for batch_id, select in enumerate(FILES):
        writer.write(spark.sql(select).selectExpr(*casts).repartition(1), commit_of(batch_id))
    return case


@pytest.mark.soak
def test_a_query_gives_the_same_rows_with_and_without_skipping(written: WriterCase) -> None:
    table = table_of(written)
    # Conditions as columns: all files are read, and each row says itself which conditions it meets.
    rows = table.selectExpr("struct(*) AS row", "array(" + ", ".join(QUERIES) + ") AS met").collect()
    # Each is a separate scan with separate skipping, and all are one job.
    scans = [
        table.where(query).select(F.lit(number).alias("number"), F.struct("*").alias("row"))
        for number, query in enumerate(QUERIES)
    ]
    read = reduce(DataFrame.unionAll, scans).collect()
    differing = {}
    for number, query in enumerate(QUERIES):
        expected = matching([row["row"] for row in rows if row["met"][number]])
        found = matching([row["row"] for row in read if row["number"] == number])
        if found != expected:
            differing[query] = (found, expected)
    assert differing == {}


def test_files_without_a_matching_row_are_skipped(written: WriterCase) -> None:
    """The statistics are used, or agreeing with them would prove nothing."""
    conditions = [
        "id < 0",
        "name = 'a'",
        "at < TIMESTAMP'1970-01-01 00:00:00Z'",
        "local < TIMESTAMP_NTZ'1900-01-01 00:00:01'",
        "day < DATE'1000-01-01'",
        "price < 0",
        "id IS NULL",
    ]
    read = {condition: len(table_of(written).where(condition).inputFiles()) for condition in conditions}
    # A file with NaN or infinity has no bounds. Of its columns only id has values.
    unbounded = {"id < 0": 3} if written.name == "arrow" else {}
    assert read == dict.fromkeys(conditions, 1) | unbounded


def test_the_log_holds_counts_bounds_and_nulls_of_each_file(case: WriterCase) -> None:
    columns = "id long, name string, number double"
    rows = case.spark.createDataFrame([(3, "b", 0.5), (-7, "a", None), (5, None, -2.5)], columns)
    case.writer(columns=columns).write(rows.repartition(1), commit_of(0))
    (found,) = log_statistics(case)
    assert {name: found[name] for name in ("numRecords", "minValues", "maxValues", "nullCount")} == {
        "numRecords": 3,
        "minValues": {"id": -7, "name": "a", "number": -2.5},
        "maxValues": {"id": 5, "name": "b", "number": 0.5},
        "nullCount": {"id": 0, "name": 1, "number": 1},
    }


def test_counting_rows_reads_no_file(written: WriterCase) -> None:
    """Delta answers from numRecords; a wrong one would be a wrong count."""
    assert table_of(written).count() == len(FILES)


# Values at the limits of their types, as Spark's expressions: Python has no datetime for most of them.
# Halves of the range: Spark 4.2 raises ArithmeticException for a filter by the ends of int64 or int32.
_EARLY = (-(2**62), -62_135_596_800_000_001, -62_135_596_800_000_000)
MICROSECONDS = (*_EARLY, 253_402_300_799_999_999, 253_402_300_800_000_000, 2**62)
DAYS = (-(2**30), -719_163, -719_162, 2_932_896, 2_932_897, 2**30)
# Spark's Parquet reader finds no such text by equality.
NOT_UTF8 = "CAST(unhex('FFFE') AS string)"
AT_LIMITS = {
    "at timestamp": [f"timestamp_micros({number}L)" for number in MICROSECONDS],
    "local timestamp_ntz": [f"CAST(timestamp_micros({number}L) AS timestamp_ntz)" for number in MICROSECONDS],
    "day date": [f"date_from_unix_date({number})" for number in DAYS],
    "wide decimal(38,0)": [f"CAST('{sign}{'9' * 38}' AS decimal(38,0))" for sign in ("", "-")],
    "narrow decimal(38,38)": [f"CAST('{text}' AS decimal(38,38))" for text in ("1e-38", "0." + "9" * 38)],
    "number double": [f"double('{text}')" for text in ("NaN", "-Infinity", "Infinity", "-0.0", "4.9e-324")],
    "real float": [f"float('{text}')" for text in ("NaN", "3.4028235e38", "1.4e-45")],
    "name string": [NOT_UTF8]
    + [
        f"CAST(unhex('{content.hex()}') AS string)"
        for content in (
            ("a" * 32 + "\U0010ffff" * 2).encode(),
            "\U00020bb7".encode(),
            b"b" * 5000,
        )
    ],
    "small tinyint": ["CAST(-128 AS tinyint)", "CAST(127 AS tinyint)"],
    "ok boolean": ["true", "false"],
    "raw binary": ["unhex('00')", "unhex('ff')"],
    "at_all array<timestamp>": [f"array(timestamp_micros({2**63 - 1}L), timestamp_micros({-(2**63)}L))"],
    "inner struct<at: timestamp, day: date>": [
        f"struct(timestamp_micros({2**63 - 1}L) AS at, date_from_unix_date({2**31 - 1}) AS day)"
    ],
    "by_day map<date, timestamp>": [f"map(date_from_unix_date({-(2**31)}), timestamp_micros({-(2**63)}L))"],
}
# Spark compares no maps, and no instants at the ends of int64.
NESTED = ("at_all", "inner", "by_day")


def test_rows_at_the_limits_of_their_types_are_written_and_found(arrow_case: WriterCase) -> None:
    spark = arrow_case.spark
    columns = {column.partition(" ")[0]: values for column, values in AT_LIMITS.items()}
    writer = arrow_case.writer(columns=", ".join(["id long", *AT_LIMITS]))
    fields = spark.createDataFrame([], ", ".join(AT_LIMITS)).schema
    count = max(map(len, columns.values()))
    for place in range(count):
        values = [
            f"CAST({chosen[place % len(chosen)]} AS {field.dataType.simpleString()}) AS {name}"
            for field, (name, chosen) in zip(fields, columns.items(), strict=True)
        ]
        row = spark.sql(f"SELECT {place}L AS id, {', '.join(values)}")
        writer.write(row.repartition(1), commit_of(place))
    table = table_of(arrow_case)
    conditions = {
        (name, value): [place for place in range(count) if place % len(values) == number]
        for name, values in columns.items()
        if name not in NESTED
        for number, value in enumerate(values)
        if value != NOT_UTF8
    }
    scans = [
        table.where(f"{name} = {value}").select(F.lit(number).alias("number"), "id")
        for number, (name, value) in enumerate(conditions)
    ]
    read = reduce(DataFrame.unionAll, scans).collect()
    found = {
        condition: sorted(row["id"] for row in read if row["number"] == number)
        for number, condition in enumerate(conditions)
    }
    assert found == conditions
    assert table.where("hex(name) = 'FFFE'").count() == len(range(0, count, len(columns["name"])))
    assert table.where(" AND ".join(f"{name} IS NOT NULL" for name in NESTED)).count() == count
