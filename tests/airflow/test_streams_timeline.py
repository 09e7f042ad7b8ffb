"""The time line of a pipeline's checkpoints, after real operations on real files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.pipelines_on_disk import PipelineOnDisk
from tests.support.runbook_run import RunbookRun
from tests.support.stores import StorePlace
from tests.support.streams_page import streams_page

TOPIC = """
description: Orders.
owner: tests
source: {kafka: {topic: orders}}
sinks:
  - delta: {table: bronze/%(name)s}
"""


def test_the_time_line_has_generations_backups_and_what_each_verb_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # No broker answers here.
    monkeypatch.setattr("tidemill.sources.offsets.ANSWER_TIMEOUT_SECONDS", 0.1)
    with streams_page(tmp_path) as page:
        page.project.declare("orders", TOPIC)
        orders = PipelineOnDisk(StorePlace("local", page.project.folder, {"root": ".data"})).ran(5)
        for verb, form in (("backup", {}), ("rewind", {"to": "2"})):
            run = RunbookRun(page.project, verb, {**form, "reason": f"a {verb}", "dry_run": False})
            run.plan()
            run.apply()
        page.look()
        told = page.get("/api/pipelines/orders/checkpoints").json()
    assert [(each["generation"], each["is_live"]) for each in told["generations"]] == [
        ("g0002", True),
        ("g0001", False),
    ]
    (backup,) = told["backups"]
    assert (backup["generation"], backup["batch_id"], backup["by"]) == ("g0001", 4, "ann")
    assert backup["size_bytes"] > 0
    lines = {each["verb"]: each for each in told["audit"]}
    assert lines["backup"]["request_id"] == backup["backup"]
    rewind = lines["rewind"]
    places = ("from_generation", "from_batch", "to_generation", "to_batch")
    assert [rewind[place] for place in places] == ["g0001", 4, "g0002", 2]
    assert "batches 3-4 are undone" in rewind["lines"]
    assert rewind["at"] <= rewind["ended_at"]
    assert orders.live == "g0002"
