"""A table that was altered between two batches: the write is refused at once, or follows the change."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.commits import commit_of
from tests.support.writer_cases import WriterCase
from tidemill.errors import DataError

# An action in a notebook, and the text that the refusal must contain.
CHANGES = [
    ("ALTER TABLE {table} ADD COLUMN added int", "unknown_in_table", ["added"]),
    (
        "ALTER TABLE {table} ADD COLUMN (added int, also string)",
        "unknown_in_table",
        ["added", "also"],
    ),
    (
        "CREATE OR REPLACE TABLE {table} USING delta AS SELECT 1L AS id",
        "missing_in_table",
        ["name"],
    ),
    (
        "CREATE OR REPLACE TABLE {table} USING delta AS SELECT 1 AS id, 'a' AS name",
        "other_type",
        {"id": 'PrimitiveType("integer") instead of PrimitiveType("long")'},
    ),
]


def by_hand(case: WriterCase, statement: str) -> None:
    case.spark.sql(statement.format(table=f"delta.`{case.path}`"))


@pytest.fixture(scope="module")
def with_one_batch(tmp_path_factory: pytest.TempPathFactory) -> Callable[[WriterCase], WriterCase]:
    """Gives a case a table with one batch of its writer: a copy, because a table may be at any path."""
    made: dict[str, Path] = {}

    def written(case: WriterCase) -> WriterCase:
        if case.name not in made:
            made[case.name] = tmp_path_factory.mktemp(case.name) / "orders"
            first = replace(case, path=made[case.name])
            first.writer().write(first.frame((1, "a")), commit_of(0))
        shutil.copytree(made[case.name], case.path)
        return case

    return written


@pytest.fixture
def written(case: WriterCase, with_one_batch: Callable[[WriterCase], WriterCase]) -> WriterCase:
    return with_one_batch(case)


@pytest.fixture
def arrow_written(arrow_case: WriterCase, with_one_batch: Callable[[WriterCase], WriterCase]) -> WriterCase:
    return with_one_batch(arrow_case)


@pytest.fixture
def spark_written(spark_case: WriterCase, with_one_batch: Callable[[WriterCase], WriterCase]) -> WriterCase:
    return with_one_batch(spark_case)


@pytest.mark.parametrize(("change", "fact", "value"), CHANGES)
def test_a_table_with_other_columns_is_refused_before_anything_is_written(
    written: WriterCase, change: str, fact: str, value: object
) -> None:
    writer = written.writer()
    by_hand(written, change)
    version, files = written.table.version(), set(written.path.glob("*.parquet"))
    with pytest.raises(DataError) as refused:
        writer.write(written.frame((2, "b")), commit_of(1))
    assert (refused.value.error_id, refused.value.facts[fact]) == ("TIDE-SINK-001", value)
    assert refused.value.facts["table"] == str(written.path)
    assert refused.value.facts["table_version"] == version
    assert refused.value.runbook == "table-schema-changed"
    assert (written.table.version(), set(written.path.glob("*.parquet"))) == (version, files)


@pytest.mark.soak
def test_a_table_whose_columns_are_put_back_goes_on(arrow_written: WriterCase) -> None:
    by_hand(arrow_written, CHANGES[0][0])
    with pytest.raises(DataError):
        arrow_written.writer().write(arrow_written.frame((2, "b")), commit_of(1))
    by_hand(arrow_written, "RESTORE TABLE {table} TO VERSION AS OF 1")
    assert arrow_written.writer().write(arrow_written.frame((2, "b")), commit_of(1)).committed
    assert arrow_written.ids() == [1, 2]


def test_a_table_with_harmless_changes_goes_on(arrow_case: WriterCase) -> None:
    """Spark's own writer is asked below, of rows deleted with a deletion vector."""
    arrow_case.writer().write(arrow_case.frame((0, "a")), commit_of(0))
    changes = [
        "ALTER TABLE {table} SET TBLPROPERTIES ('delta.enableDeletionVectors' = true)",
        "ALTER TABLE {table} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = true)",
        "ALTER TABLE {table} SET TBLPROPERTIES ('delta.appendOnly' = true)",
        "ALTER TABLE {table} SET TBLPROPERTIES ('team' = 'somebody')",
        "ALTER TABLE {table} SET TBLPROPERTIES ('delta.checkpointPolicy' = 'v2')",
        "OPTIMIZE {table}",
    ]
    for number, change in enumerate(changes, start=1):
        by_hand(arrow_case, change)
        written = arrow_case.writer().write(arrow_case.frame((number, "b")), commit_of(number))
        assert written.committed, change
    assert arrow_case.ids() == [*range(len(changes) + 1)]


def test_rows_deleted_with_a_deletion_vector_stay_deleted(written: WriterCase) -> None:
    written.writer().write(written.frame((2, "b"), (3, "c")).repartition(1), commit_of(1))
    by_hand(written, "ALTER TABLE {table} SET TBLPROPERTIES ('delta.enableDeletionVectors' = true)")
    by_hand(written, "DELETE FROM {table} WHERE id = 2")
    assert written.writer().write(written.frame((4, "d")), commit_of(2)).committed
    assert written.ids() == [1, 3, 4]


# Rules for rows or files that only Delta's own writer supports, and the words of the refusal.
SPARK_ONLY = {
    "ALTER TABLE {table} ADD CONSTRAINT positive CHECK (id > 0)": "check positive",
    "ALTER TABLE {table} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')": "columns have other names",
    "ALTER TABLE {table} SET TBLPROPERTIES ('delta.enableRowTracking' = true)": "owTracking",
    "ALTER TABLE {table} SET TBLPROPERTIES ('delta.enableInCommitTimestamps' = true)": "nCommitTimestamp",
    "ALTER TABLE {table} CLUSTER BY (id)": "ClusteredTable",
    "CREATE OR REPLACE TABLE {table} USING delta PARTITIONED BY (name) AS SELECT 1L AS id, 'a' AS name": (
        "partitioned by name"
    ),
}


@pytest.mark.parametrize("change", SPARK_ONLY)
def test_a_change_that_only_spark_can_follow_is_refused_by_the_arrow_writer(
    arrow_written: WriterCase, change: str
) -> None:
    by_hand(arrow_written, change)
    version = arrow_written.table.version()
    with pytest.raises(DataError) as refused:
        arrow_written.writer().write(arrow_written.frame((2, "b")), commit_of(1))
    assert refused.value.error_id == "TIDE-SINK-003"
    assert SPARK_ONLY[change] in str(refused.value.facts["reason"])
    assert "writer: spark" in refused.value.fix
    assert arrow_written.table.version() == version


# Delta enforces its own rules. Two of them show that Tidemill does not interfere.
SHOWN = ("CONSTRAINT", "PARTITIONED BY")


@pytest.mark.parametrize(
    "change",
    [
        change if any(word in change for word in SHOWN) else pytest.param(change, marks=pytest.mark.soak)
        for change in SPARK_ONLY
    ],
)
def test_a_change_that_only_spark_can_follow_is_followed_by_the_spark_writer(
    spark_written: WriterCase, change: str
) -> None:
    by_hand(spark_written, change)
    assert spark_written.writer().write(spark_written.frame((2, "b")), commit_of(1)).committed
    assert {"id": 2, "name": "b"} in spark_written.rows()
