"""The gate: healthy histories start, everything else is refused with what Spark would have done."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given
from hypothesis import strategies as st

from tests.support.checkpoints import write_checkpoint
from tests.support.commits import commit_of
from tests.support.declared import declared
from tidemill.checkpoint.current import read_or_create_current
from tidemill.checkpoint.gate import LEDGER_LOOK_BACK, CheckpointFacts, TableFacts, check, gather_facts
from tidemill.errors import GateRefusedError
from tidemill.ledger.read import transaction_version
from tidemill.sinks.table_log import TableLog
from tidemill.spec.project import Pipeline
from tidemill.storage.store import Store

TABLES = ("bronze/orders", "silver/orders")


def facts_of(
    planned: int | None, committed: int | None, *tables: int | None, **other: Any
) -> CheckpointFacts:
    found = {name: TableFacts(last, "2f1c") for name, last in zip(TABLES, tables, strict=False)}
    return CheckpointFacts("orders", "g0001", "2f1c", planned, committed, (), found, **other)


def refusal_of(facts: CheckpointFacts) -> GateRefusedError:
    with pytest.raises(GateRefusedError) as refused:
        check(facts)
    return refused.value


@pytest.mark.parametrize(
    ("planned", "committed", "tables"),
    [
        (None, None, (None, None)),
        (0, None, (None, None)),
        (0, None, (0, None)),
        (0, None, (0, 0)),
        (0, 0, (0, 0)),
        (7, 6, (6, 6)),
        (7, 6, (7, 6)),
        (7, 6, (7, 7)),
        (7, 7, (7, 7)),
    ],
)
def test_checkpoint_and_tables_that_a_crash_can_leave_may_start(
    planned: int | None, committed: int | None, tables: tuple[int | None, ...]
) -> None:
    check(facts_of(planned, committed, *tables))


@pytest.mark.parametrize(
    ("planned", "committed", "table"),
    [(None, None, 0), (None, None, 7), (7, 6, 8), (9, 6, 8), (6, 6, 7), (None, 6, 7)],
)
def test_a_table_ahead_of_the_checkpoint_is_refused(
    planned: int | None, committed: int | None, table: int
) -> None:
    error = refusal_of(facts_of(planned, committed, table))
    assert (error.error_id, error.runbook) == ("TIDE-CKPT-004", "checkpoint-behind-table")
    assert error.facts == {
        "pipeline": "orders",
        "generation": "g0001",
        "table": TABLES[0],
        "checkpoint_batch": committed,
        "table_batch": table,
    }


@pytest.mark.parametrize(("committed", "table"), [(0, None), (7, None), (7, 6), (7, 0)])
def test_a_table_behind_the_checkpoint_is_refused(committed: int, table: int | None) -> None:
    error = refusal_of(facts_of(committed, committed, table))
    assert (error.error_id, error.runbook) == ("TIDE-CKPT-005", "checkpoint-ahead-of-table")
    assert (error.facts["checkpoint_batch"], error.facts["table_batch"]) == (committed, table)


def test_one_healthy_table_does_not_hide_another(tmp_path: Path) -> None:
    assert refusal_of(facts_of(7, 7, 7, 3)).facts["table"] == TABLES[1]


def test_another_query_than_the_tables_is_refused_first() -> None:
    error = refusal_of(replace(facts_of(3, 3, 7), query_id="other"))
    assert (error.error_id, error.runbook) == ("TIDE-CKPT-001", "checkpoint-of-another-pipeline")
    assert (error.facts["checkpoint_query"], error.facts["table_query"]) == ("other", "2f1c")


def test_offsets_of_another_topic_are_refused() -> None:
    offsets = ({"payments": {"0": 5}},)
    error = refusal_of(replace(facts_of(3, 3, 3, topics=frozenset({"orders"})), newest_offsets=offsets))
    assert (error.error_id, error.runbook) == ("TIDE-CKPT-003", "checkpoint-of-another-pipeline")
    assert error.facts["checkpoint_topics"] == ["payments"]
    assert error.facts["pipeline_topics"] == ["orders"]


@pytest.mark.parametrize(
    ("topics", "offsets"),
    [
        (frozenset({"orders", "new"}), ({"orders": {"0": 5}},)),
        (frozenset({"orders"}), (None,)),
        (frozenset({"orders"}), (17, {"logOffset": 3})),
        # A pattern's topics come and go.
        (frozenset(), ({"payments": {"0": 5}},)),
    ],
)
def test_offsets_that_the_pipeline_may_have_are_no_reason(
    topics: frozenset[str], offsets: tuple[Any, ...]
) -> None:
    check(replace(facts_of(3, 3, 3, topics=topics), newest_offsets=offsets))


def lives(seed: int, tables: int, steps: int) -> Iterator[CheckpointFacts]:
    """What the gate would find after each step of drivers that crash and start again anywhere.

    A batch: planned, then in each table that does not have it, then committed.
    """
    chance = random.Random(seed)
    planned: int | None = None
    committed: int | None = None
    written: list[int | None] = [None] * tables
    for _ in range(steps):
        behind = [number for number, batch in enumerate(written) if batch != planned]
        if planned == committed:
            planned = 0 if planned is None else planned + 1
        elif behind:
            # A driver writes in order; one that crashed and started again begins with the first table.
            written[chance.choice(behind)] = planned
        else:
            committed = planned
        yield facts_of(planned, committed, *written)


@given(seed=st.integers(), tables=st.integers(1, 2), steps=st.integers(1, 60))
def test_whatever_a_crash_leaves_may_start(seed: int, tables: int, steps: int) -> None:
    for facts in lives(seed, tables, steps):
        check(facts)


batch_numbers = st.none() | st.integers(0, 20)


@given(committed=batch_numbers, started=st.booleans(), table=batch_numbers)
def test_a_table_more_than_one_ahead_or_behind_is_always_refused(
    committed: int | None, started: bool, table: int | None
) -> None:
    done = -1 if committed is None else committed
    last = -1 if table is None else table
    planned = done + 1 if started else committed
    facts = facts_of(planned, committed, table)
    if last > done + 1 or (last > done and not started):
        assert refusal_of(facts).error_id == "TIDE-CKPT-004"
    elif last < done:
        assert refusal_of(facts).error_id == "TIDE-CKPT-005"
    else:
        check(facts)


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    return declared(tmp_path, "orders")


@pytest.fixture
def store(pipeline: Pipeline) -> Store:
    return Store(pipeline.layout.root)


def write_batches(pipeline: Pipeline, batch_ids: range) -> None:
    columns = pa.schema([("id", pa.int64())])
    log = TableLog(pipeline.layout.table("bronze/orders"))
    log.create(columns)
    for batch_id in batch_ids:
        log.commit([], commit_of(batch_id), columns)


def test_facts_of_a_new_pipeline(pipeline: Pipeline, store: Store) -> None:
    facts = gather_facts(store, pipeline, "g0001")
    assert facts == CheckpointFacts(
        "orders", "g0001", tables={"bronze/orders": TableFacts(None)}, topics=frozenset({"orders"})
    )
    check(facts)


def test_facts_are_those_of_checkpoint_and_table(pipeline: Pipeline, store: Store) -> None:
    write_checkpoint(Path(pipeline.layout.checkpoint("orders", "g0001")), range(4), range(3))
    write_batches(pipeline, range(4))
    facts = gather_facts(store, pipeline, "g0001")
    assert (facts.query_id, facts.planned, facts.committed) == ("2f1c", 3, 2)
    assert facts.newest_offsets == ({"orders": {"0": 40}},)
    assert facts.tables == {"bronze/orders": TableFacts(3, "2f1c")}
    check(facts)


def test_a_table_that_was_restored_to_an_older_version_is_behind(pipeline: Pipeline, store: Store) -> None:
    """Delta keeps the transaction version of commits that a RESTORE took back."""
    write_checkpoint(Path(pipeline.layout.checkpoint("orders", "g0001")), range(4), range(4))
    write_batches(pipeline, range(4))
    path = pipeline.layout.table("bronze/orders")
    DeltaTable(path).restore(2)
    assert transaction_version(path, commit_of(0).app_id) == 3
    facts = gather_facts(store, pipeline, "g0001")
    assert facts.tables == {"bronze/orders": TableFacts(1, "2f1c")}
    assert refusal_of(facts).error_id == "TIDE-CKPT-005"


def test_a_table_that_was_restored_to_its_beginning_has_no_batch(pipeline: Pipeline, store: Store) -> None:
    write_checkpoint(Path(pipeline.layout.checkpoint("orders", "g0001")), range(2), range(2))
    write_batches(pipeline, range(2))
    DeltaTable(pipeline.layout.table("bronze/orders")).restore(0)
    facts = gather_facts(store, pipeline, "g0001")
    assert facts.tables == {"bronze/orders": TableFacts(None)}
    assert refusal_of(facts).error_id == "TIDE-CKPT-005"


def test_a_table_that_others_wrote_often_is_compared_by_its_transaction(
    pipeline: Pipeline, store: Store
) -> None:
    write_checkpoint(Path(pipeline.layout.checkpoint("orders", "g0001")), range(2), range(2))
    write_batches(pipeline, range(2))
    for _ in range(LEDGER_LOOK_BACK):
        write_deltalake(pipeline.layout.table("bronze/orders"), pa.table({"id": [1]}), mode="append")
    facts = gather_facts(store, pipeline, "g0001")
    assert facts.tables == {"bronze/orders": TableFacts(1)}
    check(facts)


def test_another_generation_and_another_pipeline_have_no_part_in_the_facts(
    pipeline: Pipeline, store: Store
) -> None:
    write_batches(pipeline, range(4))
    assert gather_facts(store, pipeline, "g0002").tables == {"bronze/orders": TableFacts(None)}
    other = replace(pipeline, name="payments")
    assert gather_facts(store, other, "g0001").tables == {"bronze/orders": TableFacts(None)}


def test_a_checkpoint_of_a_topic_that_the_pipeline_does_not_read_is_refused(
    pipeline: Pipeline, store: Store
) -> None:
    folder = Path(pipeline.layout.checkpoint("orders", "g0001"))
    write_checkpoint(folder, range(3), range(3), topic="payments")
    write_batches(pipeline, range(3))
    assert refusal_of(gather_facts(store, pipeline, "g0001")).error_id == "TIDE-CKPT-003"


def test_a_torn_newest_batch_is_refused(pipeline: Pipeline, store: Store) -> None:
    folder = Path(pipeline.layout.checkpoint("orders", "g0001"))
    write_checkpoint(folder, range(3), range(2))
    (folder / "offsets/2").write_text("v1\n")
    with pytest.raises(GateRefusedError) as refused:
        gather_facts(store, pipeline, "g0001")
    assert (refused.value.error_id, refused.value.facts) == ("TIDE-CKPT-007", {"file": f"{folder}/offsets/2"})


def test_the_state_folder_of_another_pipeline_is_refused(pipeline: Pipeline, store: Store) -> None:
    read_or_create_current(store, pipeline.layout, "payments")
    state = Path(pipeline.layout.state("payments"))
    state.rename(pipeline.layout.state("orders"))
    with pytest.raises(GateRefusedError) as refused:
        read_or_create_current(store, pipeline.layout, "orders")
    assert refused.value.error_id == "TIDE-CKPT-006"
    assert refused.value.facts["belongs_to"] == "payments"


def test_the_first_start_makes_the_first_generation_and_later_ones_keep_it(
    pipeline: Pipeline, store: Store
) -> None:
    first = read_or_create_current(store, pipeline.layout, "orders")
    assert (first.generation, first.pipeline, first.why) == ("g0001", "orders", "first start")
    assert read_or_create_current(store, pipeline.layout, "orders") == first


def test_a_first_start_would_append_what_a_backfill_has_written() -> None:
    found = {"bronze/orders": TableFacts(None, None, {"source": {"orders": {"0": 7}}})}
    refused = refusal_of(CheckpointFacts("orders", "g0001", tables=found))
    assert refused.error_id == "TIDE-CKPT-009"
    assert refused.facts["backfilled_to"] == {"source": {"orders": {"0": 7}}}
    # Once it has run live, batches tell where it stands.
    check(CheckpointFacts("orders", "g0001", "2f1c", 0, 0, tables={"bronze/orders": TableFacts(0, "2f1c")}))


@pytest.mark.parametrize(
    ("source", "mode", "refused"),
    [
        ({"topic": "orders"}, {}, True),
        ({"topic": "orders", "starting_offsets": {"orders": {"0": 7}}}, {}, False),
        ({"topic": "orders"}, {"mode": "merge", "key": ["id"]}, False),
    ],
)
def test_the_ledger_tells_of_a_backfill_before_the_first_start(
    tmp_path: Path, source: dict[str, Any], mode: dict[str, Any], refused: bool
) -> None:
    pipeline = declared(
        tmp_path,
        source={"kafka": source},
        sinks=[{"delta": {"table": "bronze/orders", **mode}}],
        environment={"kafka": {"bootstrap_servers": "localhost:1"}},
    )
    log = TableLog(pipeline.layout.table("bronze/orders"))
    columns = pa.schema([("id", pa.int64())])
    log.create(columns)
    commit = commit_of(0, pipeline=pipeline.name)
    entry = commit.entry.model_copy(update={"mode": "backfill", "generation": None, "query_id": None})
    log.commit([], replace(commit, app_id="none", entry=entry), columns)
    facts = gather_facts(Store(pipeline.layout.root), pipeline, "g0001").tables["bronze/orders"]
    assert facts.backfilled_to == ({"source": {"orders": {"0": 1}}} if refused else None)
