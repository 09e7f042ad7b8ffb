"""`tidemill ledger` shows which expectations were violated."""

from __future__ import annotations

import pyarrow as pa
from deltalake import CommitProperties, write_deltalake

from tests.support.command_line import CommandLine
from tests.support.conf_project import ConfProject
from tidemill.ledger.entry import Code, ExpectationCounts, LedgerEntry


def test_violations_are_shown_by_the_names_of_their_expectations(
    tidemill: CommandLine, project: ConfProject
) -> None:
    counts = ExpectationCounts(
        checked=5, dropped=1, quarantined=2, violations={"known": 3, "sane": 0, "recent": 1}
    )
    entry = LedgerEntry(
        pipeline="orders",
        output="bronze/orders",
        mode="stream",
        run_id="r",
        batch_id=0,
        expectations=counts,
        code=Code(tidemill="0", digest="0", spec="0"),
    )
    metadata = CommitProperties(custom_metadata={"userMetadata": entry.to_text()})
    table = project.load().layout.table("bronze/orders")
    write_deltalake(table, pa.table({"id": ["a", "b"]}), commit_properties=metadata)
    assert tidemill("ledger", "orders") == 0
    assert "known 3, recent 1" in tidemill.out
    assert "sane" not in tidemill.out
    (commit,) = tidemill.json("ledger", "orders")
    assert ExpectationCounts.model_validate(commit["entry"]["expectations"]) == counts
    assert counts.written == 2
