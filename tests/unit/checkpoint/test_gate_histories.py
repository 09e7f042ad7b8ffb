"""No false refusal: whatever crashes, maintenance and our own operations leave, the next driver may start."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.histories import History
from tests.support.history_files import write_history
from tidemill.checkpoint.findings import Finding
from tidemill.checkpoint.gate import CheckpointFacts, examine, gather_facts
from tidemill.ledger.code import code_of
from tidemill.ledger.shape import shape_of
from tidemill.storage.store import Store

# Seeds by tier. A smaller set also writes and reads files, because opening a table takes milliseconds.
HISTORIES = [range(1_000), pytest.param(range(1_000, 10_000), marks=pytest.mark.soak)]
HISTORIES_IN_FILES = [range(30), pytest.param(range(30, 150), marks=pytest.mark.soak)]


def refusals(facts: CheckpointFacts) -> list[Finding]:
    return [finding for finding in examine(facts) if finding.severity == "error"]


@pytest.mark.parametrize("seeds", HISTORIES, ids=len)
def test_healthy_histories_start_every_time(seeds: range) -> None:
    starts = 0
    for seed in seeds:
        for facts in History(seed).starts(lives=3):
            assert refusals(facts) == [], f"seed {seed}: {facts}"
            starts += 1
    assert starts == len(seeds) * 4


@pytest.mark.parametrize("seeds", HISTORIES_IN_FILES, ids=len)
def test_the_files_of_a_history_say_what_happened_and_start(tmp_path: Path, seeds: range) -> None:
    for seed in seeds:
        history = History(seed)
        expected = last(history.starts(lives=3))
        pipeline = write_history(tmp_path / str(seed), history)
        declared = replace(expected.declared, shape=shape_of(pipeline.spec), code=code_of(pipeline).digest)
        store = Store(pipeline.layout.root)
        found = gather_facts(store, pipeline, expected.generation)
        assert refusals(found) == [], f"seed {seed}: {found}"
        assert (found.offsets.numbers, found.commits.numbers) == (
            expected.offsets.numbers,
            expected.commits.numbers,
        )
        assert (found.query_id, found.base, found.declared) == (
            expected.query_id,
            expected.base,
            declared,
        )
        assert (found.next_start, found.source.log) == (expected.next_start, expected.source.log)
        assert (found.tables, found.asides) == (expected.tables, expected.asides), f"seed {seed}"


def last(facts: Iterator[CheckpointFacts]) -> CheckpointFacts:
    *_, newest = facts
    return newest
