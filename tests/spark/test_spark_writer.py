"""Features that only the spark writer has: merge, replace, clustered and partitioned tables."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.commits import commit_of
from tests.support.writer_cases import CrashedError, WriterCase, crash_at
from tidemill.errors import DataError
from tidemill.ledger.read import read_ledger


@pytest.fixture
def merging(spark_case: WriterCase) -> WriterCase:
    return replace(spark_case, declaration={"mode": "merge", "key": ["id"]})


@pytest.fixture
def replacing(spark_case: WriterCase) -> WriterCase:
    return replace(spark_case, declaration={"mode": "replace"})


def names(case: WriterCase) -> dict[object, object]:
    return {row["id"]: row["name"] for row in case.rows()}


def test_a_merge_updates_rows_with_the_same_key_and_inserts_the_others(merging: WriterCase) -> None:
    merging.writer().write(merging.frame((1, "a"), (2, "b")).repartition(1), commit_of(0))
    written = merging.writer().write(merging.frame((2, "B"), (3, "c")), commit_of(1))
    # Two rows, although the file with rows 1 and 2 was rewritten.
    assert (written.committed, written.rows) == (True, 2)
    assert read_ledger(str(merging.path))[0].rows == 2
    assert names(merging) == {1: "a", 2: "B", 3: "c"}
    assert len(merging.rows()) == 3


def test_a_repeated_merge_changes_nothing_even_if_rows_were_changed_since(merging: WriterCase) -> None:
    merging.writer().write(merging.frame((1, "a")), commit_of(0))
    merging.spark.sql(f"UPDATE delta.`{merging.path}` SET name = 'b'").collect()
    version = merging.table.version()
    assert not merging.writer().write(merging.frame((1, "a")), commit_of(0, "driver-2")).committed
    assert (names(merging), merging.table.version()) == ({1: "b"}, version)


@pytest.mark.soak
def test_an_empty_merge_commits_its_batch(merging: WriterCase) -> None:
    merging.writer().write(merging.frame((1, "a")), commit_of(0))
    assert merging.writer().write(merging.frame((1, "a")).where("false"), commit_of(1)).committed
    assert merging.table.transaction_version(commit_of(1).app_id) == 1
    assert [commit.entry.batch_id for commit in read_ledger(str(merging.path)) if commit.entry] == [1, 0]


@pytest.mark.soak
def test_a_result_with_several_rows_for_a_key_is_refused(merging: WriterCase) -> None:
    merging.writer().write(merging.frame((1, "a")), commit_of(0))
    version = merging.table.version()
    with pytest.raises(DataError) as refused:
        merging.writer().write(merging.frame((1, "b"), (1, "c"), (2, "d")), commit_of(1))
    assert refused.value.error_id == "TIDE-SINK-004"
    assert refused.value.facts == {"table": str(merging.path), "key": "id", "rows_of_one_key": 2}
    assert (names(merging), merging.table.version()) == ({1: "a"}, version)


def test_the_batch_after_a_refused_merge_is_not_taken_for_the_refused_one(merging: WriterCase) -> None:
    """MERGE takes its transaction from the session: what one batch left there would be the next's."""
    merging.writer().write(merging.frame((1, "a")), commit_of(0))
    with pytest.raises(DataError):
        merging.writer().write(merging.frame((1, "b"), (1, "c")), commit_of(5))
    plain = replace(merging, declaration={})
    plain.writer().write(plain.frame((9, "i")), commit_of(1))
    assert merging.table.transaction_version(commit_of(1).app_id) == 1
    newest = read_ledger(str(merging.path))[0].entry
    assert newest is not None
    assert newest.batch_id == 1
    by_hand = merging.spark.sql(f"INSERT INTO delta.`{merging.path}` VALUES (10, 'j')")
    by_hand.collect()
    assert merging.table.history(1)[0].get("userMetadata") is None


def test_a_replaced_table_holds_the_last_batch_only(replacing: WriterCase) -> None:
    replacing.writer().write(replacing.frame((1, "a"), (2, "b")), commit_of(0))
    replacing.writer().write(replacing.frame((3, "c")), commit_of(1))
    assert replacing.ids() == [3]


@pytest.mark.soak
def test_an_empty_batch_empties_a_replaced_table(replacing: WriterCase) -> None:
    replacing.writer().write(replacing.frame((1, "a")), commit_of(0))
    replacing.writer().write(replacing.frame((1, "a")).where("false"), commit_of(1))
    assert replacing.ids() == []


@pytest.mark.parametrize("declaration", [{"mode": "merge", "key": ["id"]}, {"mode": "replace"}])
def test_a_crash_after_the_commit_and_a_repeat_change_rows_once(
    spark_case: WriterCase, declaration: dict[str, object]
) -> None:
    case = replace(spark_case, declaration=declaration)
    with pytest.raises(CrashedError):
        case.writer(crash_at("committed")).write(case.frame((1, "a")), commit_of(0))
    assert not case.writer().write(case.frame((1, "again")), commit_of(0, "driver-2")).committed
    assert names(case) == {1: "a"}


def test_a_clustered_table_is_made_clustered_and_stays_readable_without_a_jvm(spark_case: WriterCase) -> None:
    case = replace(spark_case, declaration={"cluster_by": ["name"]})
    case.writer().write(case.frame((1, "a"), (2, "b")), commit_of(0))
    detail = case.spark.sql(f"DESCRIBE DETAIL delta.`{case.path}`").collect()[0]
    assert detail["clusteringColumns"] == ["name"]
    assert case.table.transaction_version(commit_of(0).app_id) == 0
    assert case.ids() == [1, 2]


def test_a_partitioned_table_is_made_partitioned(spark_case: WriterCase) -> None:
    case = replace(spark_case, declaration={"partition_by": ["name"]})
    case.writer().write(case.frame((1, "a"), (2, "b")), commit_of(0))
    case.writer().write(case.frame((3, "a")), commit_of(1))
    assert case.table.metadata().partition_columns == ["name"]
    assert names(case) == {1: "a", 2: "b", 3: "a"}


def test_options_of_a_sink_reach_deltas_writer(spark_case: WriterCase) -> None:
    case = replace(spark_case, declaration={"options": {"maxRecordsPerFile": 1}})
    case.writer().write(case.frame((1, "a"), (2, "b"), (3, "c")).repartition(1), commit_of(0))
    assert len(case.data_files()) == 3
