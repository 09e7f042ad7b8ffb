"""The log of one table: each batch committed once, to the table that is there now."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, Field, write_deltalake

from tests.support.commits import commit_of
from tests.support.race import race
from tidemill.errors import DataError, GateRefusedError, UnavailableError
from tidemill.ledger.read import read_commits, transaction_version
from tidemill.sinks.batch_commit import Written
from tidemill.sinks.library_commit import CHECKPOINT_EVERY
from tidemill.sinks.log_view import LogView
from tidemill.sinks.table_log import TableLog
from tidemill.storage.parquet_part import PartFile, write_part

COLUMNS = pa.schema([("id", pa.int64()), ("name", pa.string())])
RACES = 20


def part(table: Path, *ids: int) -> PartFile:
    rows = pa.RecordBatch.from_pydict({"id": list(ids), "name": ["x"] * len(ids)}, schema=COLUMNS)
    written = write_part(str(table), f"part-{'-'.join(map(str, ids))}.parquet", COLUMNS, [rows])
    assert written is not None
    return written


def append(log: TableLog, batch_id: int) -> Written:
    """Append a batch, which is the row of its number."""
    log.create(COLUMNS)
    return log.commit([part(Path(log.path), batch_id)], commit_of(batch_id), COLUMNS)


def ids(table: Path) -> list[int]:
    files = DeltaTable(str(table)).file_uris()
    return sorted(row for file in files for row in pq.read_table(file).column("id").to_pylist())


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return tmp_path / "orders"


@pytest.fixture
def log(table: Path) -> TableLog:
    return TableLog(str(table))


def test_a_missing_table_has_no_view_and_looking_makes_none(log: TableLog, table: Path) -> None:
    assert log.look(commit_of(0)) is None
    assert not table.exists()


def test_a_commit_says_its_rows_and_version(log: TableLog, table: Path) -> None:
    log.create(COLUMNS)
    parts = [part(table, 1, 2), part(table, 3)]
    assert log.commit(parts, commit_of(0), COLUMNS) == Written(committed=True, rows=3, version=1)
    assert ids(table) == [1, 2, 3]


def test_expired_files_of_the_log_go_with_every_hundredth_commit_and_no_other(table: Path) -> None:
    log = TableLog(str(table), {"delta.logRetentionDuration": "interval 1 days"})
    for batch_id in range(CHECKPOINT_EVERY + 1):
        append(log, batch_id)
    for file in (table / "_delta_log").iterdir():
        os.utime(file, (0, 0))
    oldest = {}
    for batch_id in range(CHECKPOINT_EVERY + 1, 2 * CHECKPOINT_EVERY):
        append(log, batch_id)
        oldest[batch_id + 1] = min(int(file.stem) for file in (table / "_delta_log").glob("*.json"))
    # Up to the log checkpoint of version 99; the next one was made at version 199.
    cleared = (2 * CHECKPOINT_EVERY - 1, 2 * CHECKPOINT_EVERY)
    assert oldest == dict.fromkeys(oldest, 0) | dict.fromkeys(cleared, CHECKPOINT_EVERY - 1)
    assert ids(table) == list(range(2 * CHECKPOINT_EVERY))


def test_the_log_is_not_listed_while_nobody_else_commits(
    log: TableLog, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(log, 0)

    def listed(_: DeltaTable) -> None:
        raise AssertionError("the log was listed")

    with monkeypatch.context() as patched:
        patched.setattr(DeltaTable, "update_incremental", listed)
        assert log.look(commit_of(1)) is None
    append(TableLog(str(table)), 1)
    assert log.look(commit_of(1)) is not None


def test_a_log_that_is_cleared_between_two_looks_leaves_no_old_view(
    log: TableLog, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(log, 0)
    other = TableLog(str(table))
    for batch_id in range(1, 4):
        append(other, batch_id)
    DeltaTable(str(table)).create_checkpoint()
    look = log._identity
    looks = []

    def cleared_after_the_first(following: int = 0) -> str | None:
        found = look(following)
        if not looks:
            for version in range(4):
                (table / f"_delta_log/{version:020}.json").unlink()
        looks.append(following)
        return found

    monkeypatch.setattr(log, "_identity", cleared_after_the_first)
    seen = log.refresh()
    assert seen is not None
    assert seen.version == 4


def test_another_writers_commits_are_seen(log: TableLog, table: Path) -> None:
    append(log, 0)
    append(TableLog(str(table)), 1)
    found = log.look(commit_of(1))
    assert found is not None
    assert (found.version, found.entry and found.entry.batch_id) == (2, 1)


def test_a_batch_that_another_driver_committed_meanwhile_is_not_committed_again(
    log: TableLog, table: Path
) -> None:
    log.create(COLUMNS)
    file = part(table, 1)
    append(TableLog(str(table)), 0)
    assert log.commit([file], commit_of(0), COLUMNS) == Written(committed=False)
    assert ids(table) == [0]


def test_a_table_dropped_between_two_batches_is_not_made_again(log: TableLog, table: Path) -> None:
    """The gate would refuse the next start, and all before this batch would be missing until then."""
    append(log, 0)
    shutil.rmtree(table)
    with pytest.raises(GateRefusedError) as refused:
        log.look(commit_of(1))
    assert (refused.value.error_id, refused.value.facts["batch_id"]) == ("TIDE-SINK-006", 0)
    assert not table.exists()


@pytest.mark.parametrize("versions", [1, 2, 5], ids=["shorter", "as long", "longer"])
def test_another_table_in_the_place_of_a_dropped_one_gets_no_batch(
    log: TableLog, table: Path, versions: int
) -> None:
    append(log, 0)
    shutil.rmtree(table)
    for version in range(versions):
        write_deltalake(str(table), pa.table({"id": [100 + version], "name": ["by hand"]}), mode="append")
    with pytest.raises(GateRefusedError) as refused:
        append(log, 1)
    assert refused.value.error_id == "TIDE-SINK-006"
    assert ids(table) == list(range(100, 100 + versions))


def test_a_table_that_was_copied_back_whole_is_written_on(log: TableLog, table: Path, tmp_path: Path) -> None:
    append(log, 0)
    shutil.copytree(table, tmp_path / "copy")
    shutil.rmtree(table)
    shutil.copytree(tmp_path / "copy", table)
    assert append(log, 1).committed
    assert ids(table) == [0, 1]


def test_a_table_dropped_before_the_commit_is_an_error_not_a_batch_that_is_there(
    log: TableLog, table: Path
) -> None:
    log.create(COLUMNS)
    file = part(table, 1)
    shutil.rmtree(table)
    with pytest.raises(UnavailableError) as refused:
        log.commit([file], commit_of(0), COLUMNS)
    assert refused.value.error_id == "TIDE-SINK-005"


def test_a_table_restored_to_before_the_last_batch_gets_no_further_one(log: TableLog, table: Path) -> None:
    for batch_id in range(3):
        append(log, batch_id)
    DeltaTable(str(table)).restore(1)
    with pytest.raises(GateRefusedError) as refused:
        append(log, 3)
    assert (refused.value.error_id, refused.value.facts["batch_id"]) == ("TIDE-SINK-006", 2)
    assert ids(table) == [0]


def right_after_a_commit(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Let `act` run between a commit and the look that follows it."""
    create = LogView.create

    def create_and_act(view: LogView, version: int, content: bytes) -> bool:
        created = create(view, version, content)
        act()
        return created

    monkeypatch.setattr(LogView, "create", create_and_act)


def test_a_restore_right_after_a_commit_is_noticed(
    log: TableLog, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = append(log, 0).version
    right_after_a_commit(monkeypatch, lambda: DeltaTable(str(table)).restore(before))
    with pytest.raises(GateRefusedError) as refused:
        append(log, 1)
    assert (refused.value.error_id, refused.value.facts["batch_id"]) == ("TIDE-SINK-006", 1)


def test_a_table_changed_right_after_a_commit_is_written_on(
    log: TableLog, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(log, 0)
    longer = {"delta.logRetentionDuration": "interval 60 days"}
    right_after_a_commit(monkeypatch, lambda: DeltaTable(str(table)).alter.set_table_properties(longer))
    assert [append(log, batch).committed for batch in (1, 2)] == [True, True]
    assert ids(table) == [0, 1, 2]


def test_a_restore_that_takes_back_rows_of_others_is_followed(log: TableLog, table: Path) -> None:
    append(log, 0)
    write_deltalake(str(table), pa.table({"id": [100], "name": ["by hand"]}), mode="append")
    DeltaTable(str(table)).restore(1)
    assert append(log, 1).committed
    assert ids(table) == [0, 1]


def add_column(table: Path) -> None:
    DeltaTable(str(table)).alter.add_columns([Field("added", "long")])


def drop_column(table: Path) -> None:
    write_deltalake(str(table), pa.table({"id": [9]}), mode="overwrite", schema_mode="overwrite")


def retype_column(table: Path) -> None:
    changed = pa.table({"id": ["9"], "name": ["x"]})
    write_deltalake(str(table), changed, mode="overwrite", schema_mode="overwrite")


@pytest.mark.parametrize(
    ("change", "fact", "value"),
    [
        (add_column, "unknown_in_table", ["added"]),
        (drop_column, "missing_in_table", ["name"]),
        (
            retype_column,
            "other_type",
            {"id": 'PrimitiveType("string") instead of PrimitiveType("long")'},
        ),
    ],
)
def test_a_change_of_columns_between_files_and_commit_is_refused(
    log: TableLog, table: Path, change: Callable[[Path], None], fact: str, value: object
) -> None:
    log.create(COLUMNS)
    file = part(table, 1)
    change(table)
    version = DeltaTable(str(table)).version()
    with pytest.raises(DataError) as refused:
        log.commit([file], commit_of(0), COLUMNS)
    assert (refused.value.error_id, refused.value.facts[fact]) == ("TIDE-SINK-001", value)
    assert (refused.value.facts["table"], refused.value.facts["table_version"]) == (str(table), version)
    assert DeltaTable(str(table)).version() == version


def make_partitioned(table: Path) -> None:
    write_deltalake(str(table), pa.table({"id": [9], "name": ["x"]}), partition_by=["name"])


def make_checked(table: Path) -> None:
    DeltaTable.create(str(table), COLUMNS)
    DeltaTable(str(table)).alter.add_constraint({"positive": "id > 0"})


def make_not_null(table: Path) -> None:
    DeltaTable.create(str(table), pa.schema([pa.field("id", pa.int64(), nullable=False), COLUMNS.field(1)]))


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (make_partitioned, "partitioned by name"),
        (make_checked, "check positive"),
        (make_not_null, "id is not null"),
    ],
)
def test_a_table_with_rules_for_rows_is_refused_because_files_are_added_unchecked(
    log: TableLog, table: Path, make: Callable[[Path], None], reason: str
) -> None:
    make(table)
    version = DeltaTable(str(table)).version()
    with pytest.raises(DataError) as refused:
        append(log, 1)
    assert (refused.value.error_id, refused.value.facts["reason"]) == ("TIDE-SINK-003", reason)
    assert DeltaTable(str(table)).version() == version


def test_one_driver_that_races_another_for_a_batch_commits_it(tmp_path: Path) -> None:
    """Two drivers find no table, create it, write files and commit batch 0 at the same moment."""
    written = race(partial(commit_same_batch, tmp_path), RACES)
    for number in range(RACES):
        assert sorted((written["one"][number], written["other"][number])) == [False, True]
        assert ids(tmp_path / str(number)) == [7]


def commit_same_batch(folder: Path, number: int, name: str) -> bool:
    log = TableLog(str(folder / str(number)))
    log.create(COLUMNS)
    row = pa.RecordBatch.from_pydict({"id": [7], "name": [name]}, schema=COLUMNS)
    file = write_part(log.path, f"part-{name}.parquet", COLUMNS, [row])
    assert file is not None
    return log.commit([file], commit_of(0, driver=name), COLUMNS).committed


def test_pipelines_that_race_for_one_table_all_get_their_batches_in(tmp_path: Path) -> None:
    table = tmp_path / "shared"
    TableLog(str(table)).create(COLUMNS)
    written = race(partial(commit_own_batch, table), RACES)
    assert written == {"one": [True] * RACES, "other": [True] * RACES}
    assert ids(table) == sorted([*range(RACES), *range(1000, 1000 + RACES)])
    assert {transaction_version(str(table), commit_of(0, pipeline=name).app_id) for name in written} == {
        RACES - 1
    }
    assert len(read_commits(str(table))) == 2 * RACES + 1


def commit_own_batch(table: Path, number: int, name: str) -> bool:
    log = TableLog(str(table))
    log.create(COLUMNS)
    file = part(table, number if name == "one" else 1000 + number)
    return log.commit([file], commit_of(number, pipeline=name), COLUMNS).committed
