from __future__ import annotations

from datetime import UTC, datetime

import deltalake
import pyarrow as pa
import pytest

from tests.support.command_line import CommandLine
from tests.support.conf_project import ConfProject
from tidemill.payload.quarantine import QUARANTINE_SCHEMA

SECRET_BYTES = b'{"id": "top secret \xff'


@pytest.fixture
def rejected(project: ConfProject) -> ConfProject:
    rows = [
        {
            "reason": reason,
            "topic": "orders",
            "partition": 0,
            "offset": offset,
            "arrived_at": datetime(2026, 1, 1, tzinfo=UTC),
            "key": None,
            "value": None if offset == 3 else SECRET_BYTES + b"%d" % offset,
            "quarantined_at": datetime(2026, 1, 1, 0, 0, offset, tzinfo=UTC),
            "batch_id": offset,
            "run_id": "run-1",
        }
        for offset, reason in enumerate(["not JSON", "id is missing", "not JSON", "null"])
    ]
    table = pa.Table.from_pylist(rows, schema=QUARANTINE_SCHEMA)
    deltalake.write_deltalake(project.load().layout.quarantine("orders"), table)
    return project


def test_reasons_are_counted(tidemill: CommandLine, rejected: ConfProject) -> None:
    counts = tidemill.json("quarantine", "list")
    assert [(c["pipeline"], c["reason"], c["records"]) for c in counts] == [
        ("orders", "not JSON", 2),
        ("orders", "id is missing", 1),
        ("orders", "null", 1),
    ]
    assert counts[0]["newest"] == "2026-01-01T00:00:02+00:00"
    assert tidemill("quarantine", "list", "orders") == 0
    assert len(tidemill.out.splitlines()) == 5


def test_records_are_shown_newest_first_and_without_their_content(
    tidemill: CommandLine, rejected: ConfProject
) -> None:
    rows = tidemill.json("quarantine", "show", "orders", "--limit", "3")
    assert [row["offset"] for row in rows] == [3, 2, 1]
    assert rows[2]["reason"] == "id is missing"
    assert "secret" not in tidemill.out
    assert tidemill("quarantine", "show", "orders") == 0
    assert "secret" not in tidemill.out


def test_content_is_shown_only_when_asked_for(tidemill: CommandLine, rejected: ConfProject) -> None:
    rows = tidemill.json("quarantine", "show", "orders", "--raw")
    assert [row["raw"] for row in rows] == [
        None,
        '{"id": "top secret \\xff2',
        '{"id": "top secret \\xff1',
        '{"id": "top secret \\xff0',
    ]


def test_what_a_transform_says_of_a_record_is_shown_with_its_content_only(
    tidemill: CommandLine, project: ConfProject
) -> None:
    reasons = [f"transform_failed:ValueError: no price for {name}" for name in ("secret-1", "secret-2")]
    now = datetime(2026, 1, 1, tzinfo=UTC)
    rows = [{"reason": reason, "quarantined_at": now} for reason in reasons]
    table = pa.Table.from_pylist(rows, schema=QUARANTINE_SCHEMA)
    deltalake.write_deltalake(project.load().layout.quarantine("orders"), table)
    (count,) = tidemill.json("quarantine", "list")
    assert (count["reason"], count["records"]) == ("transform_failed:ValueError", 2)
    shown = tidemill.json("quarantine", "show", "orders")
    assert [row["reason"] for row in shown] == ["transform_failed:ValueError"] * 2
    assert tidemill("quarantine", "show", "orders", "--raw", "--json") == 0
    assert "secret-1" in tidemill.out


def test_an_empty_quarantine_says_so(tidemill: CommandLine) -> None:
    assert tidemill("quarantine", "list") == 0
    assert tidemill.out == "nothing is in quarantine\n"
    assert tidemill("quarantine", "show", "orders") == 0
    assert tidemill.out == "nothing of orders is in quarantine\n"
    assert tidemill.json("quarantine", "show", "orders") == []


@pytest.mark.parametrize("verb", ["list", "show"])
def test_an_unknown_pipeline_is_wrong_usage(tidemill: CommandLine, verb: str) -> None:
    assert tidemill("quarantine", verb, "missing") == 2
    assert tidemill.err.startswith("TIDE-SPEC-011")
