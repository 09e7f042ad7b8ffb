"""A fork of a table whose rows the data files alone do not determine."""

from __future__ import annotations

import json
import re

import pytest

from tests.support.command_line import CommandLine
from tests.support.lake import Lake, LakePipeline

FEATURES = ("deletionVectors", "v2Checkpoint")


def declare(lake: Lake, name: str) -> LakePipeline:
    schema = "id long, value string"
    return lake.pipeline(
        name,
        source={"files": {"path": "landing/rows", "format": "json", "schema": schema}},
        sinks=[{"delta": {"table": f"silver/{name}", "mode": "merge", "key": ["id"]}}],
        run={"mode": "incremental"},
    )


def land(lake: Lake, value: str, *ids: int) -> None:
    file = lake.root / f"landing/rows/{value}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps({"id": one, "value": value}) + "\n" for one in ids))


def test_a_table_with_deletion_vectors_is_forked_after_the_steps_of_the_fix(
    lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    original, fork = declare(lake, "rows"), declare(lake, "copied")
    tidemill = CommandLine(lake.folder, capsys.readouterr)
    fork_it = ("checkpoint", "fork", "rows", "copied", "--reason", "a test", "--apply")
    table = f"delta.`{lake.root}/tables/silver/rows`"
    properties = ", ".join(f"'delta.feature.{feature}' = 'supported'" for feature in FEATURES)
    lake.spark.sql(
        f"CREATE TABLE {table} (id LONG, value STRING) USING delta "
        f"TBLPROPERTIES ({properties}, 'delta.enableDeletionVectors' = 'true')"
    )
    for value, ids in (("a", range(10)), ("b", (3,))):
        land(lake, value, *ids)
        original.run_incremental()

    assert tidemill(*fork_it) == 1
    assert tidemill.err.startswith("TIDE-CKPT-078")
    assert "features=deletionVectors\n" in tidemill.err
    statements = re.findall(r"(?:ALTER|REORG) TABLE .+?\)(?= and| in)", tidemill.err)
    assert len(statements) == 2
    for statement in statements:
        lake.spark.sql(statement)
    land(lake, "c", 4)
    original.run_incremental()
    assert tidemill(*fork_it) == 0, tidemill.err

    expected = {one: {3: "b", 4: "c"}.get(one, "a") for one in range(10)}
    for name in ("rows", "copied"):
        found = lake.spark.table(f"delta.`{lake.root}/tables/silver/{name}`").collect()
        assert {row["id"]: row["value"] for row in found} == expected
        assert len(found) == 10
    land(lake, "d", 11)
    fork.run_incremental()
    assert lake.spark.table(f"delta.`{lake.root}/tables/silver/copied`").count() == 11
