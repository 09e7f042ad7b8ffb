"""Wrong delta sources: each is refused with its key and the reason."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.support.conf_project import ConfProject
from tests.support.declared import declared
from tidemill.ledger.shape import shape_of

KAFKA = (
    "kafka:\n    topic: orders\npayload:\n  json: {schema: order.json}\n"
    "event_time: {column: at, watermark: 10 minutes}\n"
)


@pytest.mark.parametrize(
    ("keys", "key", "says"),
    [
        ("starting_at: soon", "source.delta.starting_at", "expected a moment such as"),
        ("starting_at: 5", "source.delta.starting_at", "expected a moment such as"),
        (
            "starting_at: 2026-01-01T00:00:00Z, starting_version: 1",
            "source.delta",
            "from a version or from a moment",
        ),
        ("options: {startingTimestamp: '2026-01-01'}", "source.delta.options", "write `starting_at:`"),
        ("options: {readChangeFeed: true}", "source.delta.options", "write `read_changes:`"),
        ("read_changes: true, changes: skip", "source.delta", "remove `changes`"),
    ],
)
def test_a_wrong_delta_source_is_refused_with_its_key(
    project: ConfProject, keys: str, key: str, says: str
) -> None:
    project.replace(KAFKA, "delta: {table: bronze/raw, " + keys + "}\n")
    error = project.refusal()
    assert (error.error_id, error.facts["key"]) == ("TIDE-SPEC-003", key)
    assert says in error.problem


def test_the_gate_tells_a_change_feed_from_the_table_that_it_is_of(tmp_path: Path) -> None:
    formats = [
        shape_of(declared(tmp_path, source={"delta": {"table": "bronze/raw", **keys}}).spec).format
        for keys in ({}, {"read_changes": True})
    ]
    assert formats == ["", "changes"]


def test_a_moment_without_a_zone_is_in_utc(project: ConfProject) -> None:
    project.replace(KAFKA, "delta: {table: bronze/raw, starting_at: 2026-01-01 00:30:00}\n")
    source = project.resolve().spec.source.delta
    assert source is not None
    assert source.starting_at == datetime(2026, 1, 1, 0, 30, tzinfo=UTC)
