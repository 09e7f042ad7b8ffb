"""A project for the Streams page: streams in each state, and texts that must not run in the page."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import deltalake
import pyarrow as pa

from tests.support.eventually import eventually
from tests.support.small_project import INCREMENTAL, STREAM, SmallProject
from tidemill.checkpoint.current import Current, switch_generation
from tidemill.checkpoint.desired import Desired, write_desired
from tidemill.checkpoint.holds import Hold, take_hold
from tidemill.checkpoint.procedure.audit import AuditEntry, write_audit
from tidemill.checkpoint.status import read_status
from tidemill.checkpoint.verbs.backup_manifest import Manifest, backup_folder, digest_of
from tidemill.control.decide.all_streams import reconcile_streams
from tidemill.control.plane import ControlPlane

# Text that would run as code if the page did not escape it.
HOSTILE = "<img src=x onerror=alert(1)><script>alert(2)</script>"

READS_BRONZE = """
description: Sums of orders.
owner: reports
source: {delta: {table: bronze/orders}}
sinks:
  - delta: {table: silver/daily}
  - delta: {table: silver/returns}
run: {mode: incremental}
"""


def prepare(project: SmallProject) -> None:
    """Prepare a running, a held and a stopped stream, all with hostile texts, and others."""
    project.declare("orders")
    project.declare("down", STREAM.replace("tests", HOSTILE).replace("Rows made", HOSTILE))
    project.declare("hourly", INCREMENTAL)
    project.declare("daily", READS_BRONZE)
    project.declare("payments", STREAM.replace("owner: tests", "owner: till"))
    project.behave("orders", "busy")
    plane = project.plane()
    write_desired(plane.store, plane.layout, "down", Desired(state="stopped", by="tests", reason=HOSTILE))
    reconcile_streams(plane)
    # Holds of streams keep the real driver from its start, but this one is not started.
    project.declare("held")
    why = f"the till is being counted {HOSTILE}"
    hold = Hold(id="audit-1", by="alice", why=why, to_do="release hold audit-1")
    take_hold(plane.store, plane.layout, "held", hold)
    eventually(
        lambda: (status := read_status(plane.store, plane.layout, "orders")) and status.batch_id == 0,
        "the stream commits",
    )
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    rows = {
        "at": [begin + timedelta(minutes=minute) for minute in range(20)],
        "value": [float(minute % 7) for minute in range(20)],
        "who": [HOSTILE] * 20,
        HOSTILE: ["named by a stranger"] * 20,
    }
    deltalake.write_deltalake(plane.layout.table("bronze/orders"), pa.table(rows))
    reject(plane)


def reject(plane: ControlPlane) -> None:
    """Add a hostile record with a hostile reason to the quarantine of `orders`, and a hostile log line."""
    at = [datetime(2026, 1, 1, tzinfo=UTC)]
    rejected = {
        "quarantined_at": at,
        "reason": [f"because of {HOSTILE}"],
        "value": [f"value {HOSTILE}".encode()],
        "arrived_at": at,
        **{name: [f"{name} {HOSTILE}"] for name in ("topic", "file")},
        **{name: [1] for name in ("partition", "offset", "line")},
    }
    deltalake.write_deltalake(plane.layout.quarantine("orders"), pa.table(rejected))
    driver = plane.running("orders")
    assert driver is not None
    with Path(driver.log).open("a") as log:
        log.write(f"line of {HOSTILE}\n")


def give_history(plane: ControlPlane) -> None:
    """Write two generations of `hourly`, the rewind between them, and a backup before it."""
    now = datetime.now(UTC)
    for number, why in ((1, "first start"), (2, "wrong unit")):
        since = now - timedelta(hours=3 - number)
        live = Current(pipeline="hourly", number=number, generation=f"g000{number}", why=why, since=since)
        assert switch_generation(plane.store, plane.layout, live)
    backup = Manifest(
        backup="b1",
        pipeline="hourly",
        generation="g0001",
        batch_id=4,
        query_id="q",
        taken_at=now - timedelta(hours=1, minutes=30),
        by="ann",
        why="before the deploy",
        tables={},
        files={"metadata": digest_of(b"{}")},
    )
    folder = backup_folder(plane.layout, "hourly", "b1")
    plane.store.write_json(f"{folder}/manifest.json", backup.model_dump(mode="json"))
    entry = AuditEntry(
        verb="rewind",
        pipeline="hourly",
        request_id="rewind-1",
        by="ann",
        why="wrong unit",
        at=now - timedelta(hours=1),
        plan={"batches_undone": [3, 4], "batch_id": 2},
        before={"generation": "g0001"},
        after={"generation": "g0002"},
    )
    assert write_audit(plane.store, plane.layout, entry)
