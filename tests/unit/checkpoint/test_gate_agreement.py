"""G1 and G4 as decisions: checkpoint, ledger and transactions side by side."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.gate_facts import SHAPE, TABLES, errors_of, facts_of, refusal_of, table_of
from tidemill.checkpoint.current import Base
from tidemill.checkpoint.gate import TableFacts, check, examine
from tidemill.checkpoint.gate.facts import Declared, DriverFacts, SourceFacts
from tidemill.checkpoint.reading.log_files import OffsetsFile
from tidemill.ledger.entry import Shape
from tidemill.names import ASIDE_OUTPUTS


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
    assert examine(facts_of(planned, committed, *tables)) == []


@pytest.mark.parametrize(
    ("planned", "committed", "table"), [(None, None, 0), (None, None, 7), (7, 6, 8), (6, 6, 7)]
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


def test_one_healthy_table_does_not_hide_another() -> None:
    assert refusal_of(facts_of(7, 7, 7, 3)).facts["table"] == TABLES[1]


batch_numbers = st.none() | st.integers(0, 20)


@given(committed=batch_numbers, started=st.booleans(), table=batch_numbers)
def test_a_table_more_than_one_ahead_or_behind_is_always_refused(
    committed: int | None, started: bool, table: int | None
) -> None:
    done = -1 if committed is None else committed
    last = -1 if table is None else table
    facts = facts_of(done + 1 if started else committed, committed, table)
    if last > done + 1 or (last > done and not started):
        assert refusal_of(facts).error_id == "TIDE-CKPT-004"
    elif last < done:
        assert refusal_of(facts).error_id == "TIDE-CKPT-005"
    else:
        check(facts)


@pytest.mark.parametrize("aside", ASIDE_OUTPUTS)
@pytest.mark.parametrize(("planned", "committed", "last"), [(3, 3, None), (3, 3, 0), (3, 2, 3), (3, 3, 3)])
def test_a_table_of_records_set_aside_has_some_batches_and_none_too_many(
    planned: int, committed: int, last: int | None, aside: str
) -> None:
    check(facts_of(planned, committed, committed, asides={aside: table_of(last, query_id=None)}))


@pytest.mark.parametrize("aside", ASIDE_OUTPUTS)
@pytest.mark.parametrize(("planned", "committed", "last"), [(3, 3, 4), (4, 3, 5), (None, None, 0)])
def test_one_ahead_of_the_checkpoint_is_refused(
    planned: int | None, committed: int | None, last: int, aside: str
) -> None:
    error = refusal_of(facts_of(planned, committed, asides={aside: table_of(last)}))
    assert (error.error_id, error.facts["table"]) == ("TIDE-CKPT-004", aside)


@pytest.mark.parametrize("last", [3, None])
def test_rows_taken_back_by_hand_are_refused_because_delta_would_skip_their_batches(last: int | None) -> None:
    """RESTORE to batch 3, checkpoint cut to batch 3: everything agrees, but for the transaction."""
    error = refusal_of(facts_of(last, last, tables={TABLES[0]: table_of_transaction(last, 7)}))
    assert (error.error_id, error.runbook) == ("TIDE-CKPT-018", "checkpoint-ahead-of-table")
    assert (error.facts["table_batch"], error.facts["transaction"]) == (last, 7)


def table_of_transaction(last: int | None, transaction: int) -> TableFacts:
    return table_of(last, transaction=transaction)


@pytest.mark.parametrize("aside", ASIDE_OUTPUTS)
def test_rows_taken_back_from_those_set_aside_are_refused(aside: str) -> None:
    facts = facts_of(7, 7, 7, asides={aside: table_of(3, transaction=6)})
    error = refusal_of(facts)
    assert (error.error_id, error.facts["table"]) == ("TIDE-CKPT-018", aside)


def test_the_running_batch_taken_back_by_hand_is_refused() -> None:
    """Batch 7 is planned, was written, and restored away: its repetition would write nothing."""
    assert (
        refusal_of(facts_of(7, 6, tables={TABLES[0]: table_of_transaction(6, 7)})).error_id == "TIDE-CKPT-018"
    )


def test_offsets_other_than_the_written_ones_are_refused() -> None:
    """A driver that was fenced off has overwritten `offsets/7`."""
    ends = {7: {"source": {"orders": {"0": 80}}}, 6: {"source": {"orders": {"0": 71}}}}
    facts = facts_of(7, 7, tables={TABLES[0]: table_of(7, ends=ends)})
    error = refusal_of(facts)
    assert (error.error_id, error.runbook) == ("TIDE-CKPT-017", "checkpoint-offsets-differ")
    assert error.facts["file"] == "offsets/6"
    assert (error.facts["checkpoint"], error.facts["ledger"]) == (
        {"orders": {"0": 70}},
        {"orders": {"0": 71}},
    )


def test_offsets_of_batches_that_were_purged_are_not_compared() -> None:
    ends = {7: {"source": {"orders": {"0": 80}}}, 2: {"source": {"orders": {"0": 31}}}}
    check(facts_of(7, 7, tables={TABLES[0]: table_of(7, ends=ends)}))


def test_another_query_than_the_tables_is_refused_first() -> None:
    error = refusal_of(replace(facts_of(3, 3, 7), query_id="other"))
    assert (error.error_id, error.runbook) == ("TIDE-CKPT-001", "checkpoint-of-another-pipeline")
    assert (error.facts["checkpoint_query"], error.facts["table_query"]) == ("other", "2f1c")


@pytest.mark.parametrize("topics", [frozenset({"payments"}), frozenset({"payments", "returns"})])
def test_offsets_of_another_topic_are_refused(topics: frozenset[str]) -> None:
    error = refusal_of(facts_of(3, 3, 3, declared=Declared(SHAPE, topics)))
    assert (error.error_id, error.runbook) == ("TIDE-CKPT-003", "checkpoint-of-another-pipeline")
    assert error.facts["checkpoint_topics"] == ["orders"]
    assert error.facts["pipeline_topics"] == sorted(topics)


@pytest.mark.parametrize("topics", [frozenset({"orders", "new"}), frozenset()])
def test_topics_that_the_pipeline_may_have_are_no_reason(topics: frozenset[str]) -> None:
    """A topic that is added begins at its start; a pattern's topics come and go."""
    check(facts_of(3, 3, 3, declared=Declared(SHAPE, topics)))


def test_a_generation_that_no_longer_lives_and_writes_is_refused() -> None:
    error = refusal_of(facts_of(7, 7, tables={TABLES[0]: table_of(7, written_by="g0000")}))
    assert (error.error_id, error.runbook) == ("TIDE-CKPT-019", "two-drivers")
    assert error.facts["written_by"] == "g0000"


def test_a_first_start_would_append_what_a_backfill_has_written() -> None:
    filled = TableFacts(backfilled_to={"orders": {"0": 7}}, traced=True)
    facts = facts_of(None, None, query_id=None, tables={TABLES[0]: filled}, source=SourceFacts())
    error = refusal_of(facts)
    assert error.error_id == "TIDE-CKPT-009"
    assert error.facts["backfilled_to"] == {"orders": {"0": 7}}
    assert "starting_offsets" in error.fix
    # Once a checkpoint was begun, that comes too late.
    begun = refusal_of(facts_of(0, None, tables={TABLES[0]: filled}))
    assert (begun.error_id, "checkpoint reset" in begun.fix) == ("TIDE-CKPT-009", True)
    # A reset has said where to begin.
    check(replace(facts, base=Base(generation="g0000", tables=dict.fromkeys(TABLES))))
    # Once it has run live, its batches define its position.
    check(facts_of(0, 0, 0))


def test_a_sink_that_was_added_is_told_from_a_table_that_was_dropped() -> None:
    before = SHAPE.model_copy(update={"tables": TABLES[:1]})
    facts = facts_of(7, 7)
    added = refusal_of(replace(facts, tables={TABLES[0]: table_of(7, shape=before), TABLES[1]: TableFacts()}))
    assert (added.error_id, added.runbook, added.facts["table"]) == ("TIDE-CKPT-028", "sink-added", TABLES[1])
    dropped = refusal_of(
        replace(facts, tables={TABLES[0]: table_of(7, shape=SHAPE), TABLES[1]: TableFacts()})
    )
    assert dropped.error_id == "TIDE-CKPT-005"


@pytest.mark.parametrize(("told", "refused"), [(6, False), (7, False), (8, True)])
def test_without_tables_the_drivers_word_is_compared(told: int, refused: bool) -> None:
    driver = DriverFacts("run-1", "running", "g0001", told, 3600.0)
    for facts in (facts_of(7, 7, last_driver=driver), facts_of(7, 7, told_batch=told)):
        assert [found.finding_id for found in errors_of(facts)] == (["TIDE-CKPT-004"] if refused else [])


@pytest.mark.parametrize(
    ("state", "age", "warned"), [("running", 5.0, True), ("running", 60.0, False), ("stopped", 5.0, False)]
)
def test_a_driver_heard_of_a_moment_ago_is_a_warning(state: str, age: float, warned: bool) -> None:
    """Refusing would keep a pipeline down after each crash; the epoch fences the other one off."""
    facts = facts_of(7, 7, 7, last_driver=DriverFacts("run-1", state, "g0001", 7, age))
    check(facts)
    assert [(f.finding_id, f.severity) for f in examine(facts)] == [("TIDE-CKPT-090", "warning")] * warned


@pytest.mark.parametrize(("checkpoint", "refuses"), [(7, True), (None, False)])
def test_a_stream_that_the_newest_batch_did_not_read_has_no_offsets_in_it(
    checkpoint: int | None, refuses: bool
) -> None:
    """A driver that was fenced off had the stream declared, and planned the batch again."""
    ends = {"north": {"logOffset": 3}, "south": None if checkpoint is None else {"logOffset": checkpoint}}
    streams = {name: Declared(Shape(**{**SHAPE.model_dump(), "source": "files"})) for name in ends}
    table = table_of(7, ends={7: {"north": {"logOffset": 3}}})
    facts = facts_of(
        7,
        6,
        declared=Declared(SHAPE, streams=streams),
        planned_batches={7: OffsetsFile(7, 2, ends)},
        sources={name: SourceFacts(log=True) for name in ends},
    )
    facts = replace(facts, tables=dict.fromkeys(TABLES, table))
    found = [(f.finding_id, f.facts["stream"]) for f in errors_of(facts) if f.finding_id == "TIDE-CKPT-017"]
    assert found == ([("TIDE-CKPT-017", "south")] * 2 if refuses else [])
