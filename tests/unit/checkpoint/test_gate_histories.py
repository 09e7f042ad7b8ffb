"""No false refusal: whatever crashes, maintenance and our own verbs leave, the next driver may start."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from tests.support.histories import History
from tests.support.history_files import write_history
from tidemill.checkpoint.findings import Finding
from tidemill.checkpoint.gate import CheckpointFacts, examine, gather_facts
from tidemill.ledger.code import code_of
from tidemill.ledger.shape import shape_of
from tidemill.storage.store import Store

HISTORIES = 10_000
# Of these the files are written and read, too; a table costs some milliseconds to open.
HISTORIES_IN_FILES = 150


def refusals(facts: CheckpointFacts) -> list[Finding]:
    return [finding for finding in examine(facts) if finding.severity == "error"]


def test_ten_thousand_healthy_histories_start_every_time() -> None:
    starts = 0
    for seed in range(HISTORIES):
        for facts in History(seed).starts(lives=3):
            assert refusals(facts) == [], f"seed {seed}: {facts}"
            starts += 1
    assert starts == HISTORIES * 4


def test_the_files_of_a_history_say_what_happened_and_start(tmp_path: Path) -> None:
    for seed in range(HISTORIES_IN_FILES):
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
