"""A backlog of 20,000 files with undeclared columns: every row is read once, within a time limit."""

from __future__ import annotations

import json
import time

import pytest

from tests.support.lake import Lake
from tidemill.checkpoint.source_schemas import source_schemas

FILES = 20_000
# Columns come with these files, the last two long after those that the first columns are inferred from.
NEW = {"zone": 500, "floor": 7_000, "colour": 15_000}


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("per_batch", [None, 5_000], ids=["one_batch", "several_batches"])
def test_a_backlog_of_20_000_files_is_read_once_while_three_columns_are_added(
    lake: Lake, per_batch: int | None
) -> None:
    folder = lake.root / "landing/orders"
    folder.mkdir(parents=True)
    for number in range(FILES):
        new = {name: number for name, since in NEW.items() if number >= since}
        lines = [{"id": number, "device": f"d{number % 7}", **new}, {"id": FILES + number, "x y": number}]
        (folder / f"{number:05}.json").write_text("".join(json.dumps(line) + "\n" for line in lines))
    limit = {} if per_batch is None else {"max_files_per_batch": per_batch}
    pipeline = lake.pipeline(
        "orders",
        source={
            "files": {
                "path": "landing/orders",
                "format": "json",
                "schema_evolution": "add_columns",
                **limit,
            }
        },
        sinks=[{"delta": {"table": "bronze/orders", "schema_evolution": "add_columns"}}],
        run={"mode": "incremental"},
    )
    started = time.monotonic()
    pipeline.run_incremental()
    seconds = time.monotonic() - started
    added = [
        version.added for version in source_schemas(lake.store, pipeline.resolved.layout, "orders", "source")
    ]
    print(f"\n{FILES} files, {per_batch or FILES} a batch: {seconds:.0f} s, versions {added}")  # noqa: T201
    rows = {row["id"]: row for row in lake.rows("bronze/orders")}
    assert sorted(rows) == list(range(2 * FILES))
    assert len(lake.rows("bronze/orders")) == 2 * FILES
    for number in range(FILES):
        assert {name: rows[number].get(name) for name in NEW} == {
            name: number if number >= since else None for name, since in NEW.items()
        }
        rescued = json.loads(rows[FILES + number]["_rescued_data"])
        assert rescued["x y"] == number
        assert rescued["_file_path"].endswith(f"/{number:05}.json")
    assert sorted(name for names in added for name in names) == sorted(["id", "device", *NEW])
