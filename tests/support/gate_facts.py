"""The gate's facts, made in the test: a checkpoint over one topic and what each table says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tidemill.checkpoint.findings import Finding
from tidemill.checkpoint.gate import CheckpointFacts, TableFacts, check, examine
from tidemill.checkpoint.gate.facts import BatchLog, Declared, SourceFacts
from tidemill.checkpoint.reading.log_files import CommitsFile, OffsetsFile
from tidemill.errors import GateRefusedError
from tidemill.ledger.entry import Shape

TABLES = ("bronze/orders", "silver/orders")
SHAPE = Shape(source="kafka", output_mode="append", shuffle_partitions=2, tables=TABLES)
DECLARED = Declared(SHAPE, frozenset({"orders"}))


def facts_of(
    planned: int | None, committed: int | None, *tables: int | None, **other: Any
) -> CheckpointFacts:
    """Return the facts of a complete checkpoint, whose batch N ends at offset 10 * (N + 1)."""
    offsets = range(0 if planned is None else planned + 1)
    commits = range(0 if committed is None else committed + 1)
    found = {name: table_of(last) for name, last in zip(TABLES, tables, strict=False)}
    facts = CheckpointFacts(
        "orders",
        "g0001",
        DECLARED,
        query_id="2f1c",
        offsets=BatchLog(tuple(offsets)),
        commits=BatchLog(tuple(commits)),
        planned_batches={n: OffsetsFile(n, 1, {"0": {"orders": {"0": 10 * (n + 1)}}}) for n in offsets[-3:]},
        newest_commit=None if committed is None else CommitsFile(committed, 1),
        source=SourceFacts(log=True, initial={"orders": {"0": 0}}),
        tables=found,
    )
    return replace(facts, **other)


def table_of(last: int | None, **other: Any) -> TableFacts:
    """Return a table that the checkpoint's query has written, up to a batch."""
    wrote = last is not None
    facts = TableFacts(last, wrote, "2f1c" if wrote else None, last, traced=wrote)
    return replace(facts, **other)


def refusal_of(facts: CheckpointFacts) -> GateRefusedError:
    """Return the error with which the gate refuses."""
    with pytest.raises(GateRefusedError) as refused:
        check(facts)
    return refused.value


def errors_of(facts: CheckpointFacts) -> list[Finding]:
    """Return all findings that forbid the start."""
    return [finding for finding in examine(facts) if finding.severity == "error"]
