"""Pages about writes outside of the stream: backfills, and tables changed by hand."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from deltalake import DeltaTable, Field
from deltalake.schema import PrimitiveType

from tests.support.paper_batches import COLUMNS
from tests.support.patient import TABLE, Patient
from tests.support.runbook_acts import batch, put_back
from tests.support.runbook_pages import runbook_pages
from tests.support.runbook_story import Refused, Story, Told, each_story
from tidemill.backfill.plan import load_plan
from tidemill.backfill.progress import ProgressFile
from tidemill.ledger.entry import Code, LedgerEntry, OffsetRange
from tidemill.sinks.batch_commit import BatchCommit
from tidemill.sinks.table_log import TableLog

LEDGER = "tidemill ledger PIPELINE"
START = "tidemill start PIPELINE"
STATUS = "tidemill status PIPELINE"
STOP = "tidemill stop PIPELINE"
PLAN_REWIND = "tidemill checkpoint rewind PIPELINE --to BATCH"
REWIND = PLAN_REWIND + " --reason TEXT --apply"
PLAN_BACKFILL = "tidemill backfill plan PIPELINE --from BEGIN --to END"
BACKFILL = "tidemill backfill apply PIPELINE --from BEGIN --to END"
PLAN_CHUNKS = f"{PLAN_BACKFILL} --chunk SIZE"
BACKFILL_STATUS = "tidemill backfill status PIPELINE"
APPLY_PLAN = "tidemill backfill apply PIPELINE --plan DIGEST"
STOP_BACKFILL = "tidemill backfill stop PIPELINE --reason TEXT"
PLAN_LATER = f"{PLAN_BACKFILL} --publish later"
PUBLISH = "tidemill backfill publish PIPELINE --plan DIGEST"
ABORT = "tidemill backfill abort PIPELINE --plan DIGEST"
DOWNSTREAM = "tidemill backfill downstream PIPELINE --plan DIGEST"
TWO_TABLES = """
description: Orders as they came, twice.
owner: tests
source: {kafka: {topic: orders}}
sinks:
  - delta: {table: bronze/orders}
  - delta: {table: silver/orders}
"""
EXPECTING = """
description: Orders that have a number.
owner: tests
source: {kafka: {topic: orders}}
sinks:
  - delta:
      table: bronze/orders
      expectations:
        numbered: {expect: id IS NOT NULL, on_violation: fail}
"""
FILES = """
description: Readings from files.
owner: tests
source:
  files: {path: landing, format: json, schema: "device string, at timestamp"}
event_time: {column: at, watermark: 1 hour}
sinks:
  - delta: {table: bronze/orders}
"""


def columns_changed(patient: Patient) -> None:
    """Add a column by hand, so that the next driver refuses its batch."""
    patient.ran(2)
    log = patient.table() / "_delta_log"
    DeltaTable(str(patient.table())).alter.add_columns([Field("note", PrimitiveType("string"))])
    newest = max(log.glob("*.json"))
    patient.put_back = newest.unlink
    patient.drivers.behave("orders", "run")
    assert patient.tidemill("start", "orders") == 1


def last_error_by_the_doctor(patient: Patient) -> list[str]:
    """Return the last driver's error and its runbook page, or an empty list if there is no error."""
    found = patient.doctor().get("TIDE-CKPT-059")
    return [] if found is None else [found["facts"]["error"], found["runbook"]]


def rule_added(patient: Patient) -> None:
    patient.ran(2)
    table = DeltaTable(str(patient.table()))
    table.alter.add_constraint({"positive": "id >= 0"})
    patient.put_back = lambda: DeltaTable(str(patient.table())).alter.drop_constraint("positive")
    assert patient.tidemill("start", "orders") == 1


def half_written(patient: Patient) -> None:
    """Write batch 2 to one of two tables; the driver with the new code refuses to write the other."""
    patient.ran(2, TWO_TABLES)
    patient.batches.write(patient.batches.plan(), TABLE)
    patient.driver_ends("TIDE-SINK-007", 66)


def put_the_old_code_back(patient: Patient) -> None:
    patient.drivers.behave("orders", "run")


def every_row_is_in_both_tables(patient: Patient) -> None:
    ids = patient.ids()
    assert ids == patient.ids("silver/orders") == list(range(len(ids)))
    assert len(ids) >= 30


def violated(patient: Patient) -> None:
    """Let a driver end because a row violates an expectation."""
    patient.ran(2, EXPECTING)
    patient.driver_ends("TIDE-EXP-001", 65)


def quarantine_them(patient: Patient) -> None:
    patient.redeclare("on_violation: fail", "on_violation: quarantine")
    patient.drivers.behave("orders", "run")


def restored_under_a_driver(patient: Patient) -> None:
    """Remove the newest batch from the table by a manual RESTORE while the stream runs."""
    patient.ran(2)
    patient.restore_table_by_hand(1)
    patient.driver_ends("TIDE-SINK-006", 66)
    patient.put_back = lambda: (patient.restore_table_by_hand(2), put_the_old_code_back(patient))


def range_is_wrong(patient: Patient) -> None:
    patient.declare(FILES)


def told_modes(patient: Patient) -> set[str]:
    return {entry["mode"] for entry in patient.commits()}


def is_backfilled(patient: Patient) -> None:
    assert told_modes(patient) == {"backfill"}


def moment_is_unreadable(patient: Patient) -> None:
    patient.values["RIGHT"], patient.values["BEGIN"] = patient.values["BEGIN"], "yesterday"


def moment_is_right(patient: Patient) -> None:
    patient.values["BEGIN"] = patient.values["RIGHT"]


def digest_is_read(patient: Patient) -> None:
    """Set DIGEST to the digest that the plan has printed."""
    (file,) = (patient.drivers.folder / ".data" / "backfills").glob("*/plan.json")
    patient.values["DIGEST"] = file.parent.name.rpartition("-")[2]


def rows_are_staged(patient: Patient) -> None:
    """Record that Spark has staged the rows."""
    progress_of(patient).change(staged_at=datetime.now(UTC))


def rows_are_published(patient: Patient) -> None:
    now = datetime.now(UTC)
    progress_of(patient).change(staged_at=now, published={}, finished_at=now, finished_by="r")


def progress_of(patient: Patient) -> ProgressFile:
    plane = patient.drivers.plane()
    plan = load_plan(plane.store, plane.layout, "orders", patient.values["DIGEST"])
    return ProgressFile(plane.store, plane.layout, plan, "r")


def filled_before_the_first_start(patient: Patient) -> None:
    """Let a backfill write up to offset 20, without any run of the stream."""
    patient.declare()
    entry = LedgerEntry(
        pipeline="orders",
        output="bronze/orders",
        mode="backfill",
        run_id="backfill-1",
        sources={"source": OffsetRange(start={"orders": {"0": 0}}, end={"orders": {"0": 20}})},
        code=Code(tidemill="test", digest="d", spec="s"),
    )
    log = TableLog(str(patient.table()))
    log.create(COLUMNS)
    log.commit([], BatchCommit("backfill-1", 0, entry), COLUMNS)


def name_where_the_backfill_ended(patient: Patient) -> None:
    offsets = patient.findings()["TIDE-CKPT-009"]["facts"]["backfilled_to"]
    patient.redeclare("topic: orders", f"topic: orders, starting_offsets: {json.dumps(offsets)}")


STORIES = [
    Story(
        "table-schema-changed",
        "a column was added by hand",
        columns_changed,
        ("TIDE-SINK-001", "table-schema-changed"),
        [put_back, START],
        seen=last_error_by_the_doctor,
    ),
    Story(
        "table-schema-changed",
        "a rule was added by hand",
        rule_added,
        ("TIDE-SINK-003",),
        [put_back, START],
        seen=Patient.told_by_status,
    ),
    Story(
        "half-written-batch",
        "the old code finishes it",
        half_written,
        ("TIDE-SINK-007",),
        [STATUS, put_the_old_code_back, START, STOP, START],
        seen=Patient.told_by_status,
        over=every_row_is_in_both_tables,
    ),
    Story(
        "half-written-batch",
        "the new code computes all of it",
        half_written,
        ("TIDE-SINK-007",),
        [PLAN_REWIND, REWIND, put_the_old_code_back, START],
        seen=Patient.told_by_status,
        over=every_row_is_in_both_tables,
    ),
    Story(
        "expectation-failed",
        "rows of a topic go to the quarantine",
        violated,
        ("TIDE-EXP-001",),
        [
            STATUS,
            quarantine_them,
            START,
            "tidemill quarantine list PIPELINE",
            "tidemill quarantine show PIPELINE --raw",
            LEDGER,
        ],
        seen=Patient.told_by_status,
        over=batch(2),
    ),
    Story(
        "checkpoint-ahead-of-table",
        "the table was restored while the stream ran",
        restored_under_a_driver,
        ("TIDE-SINK-006",),
        [LEDGER, put_back, START],
        seen=Patient.told_by_status,
        over=batch(2),
    ),
    Story(
        "backfill",
        "rows of a range are wrong",
        range_is_wrong,
        (),
        [
            moment_is_unreadable,
            Refused(PLAN_BACKFILL, "TIDE-BACK-001"),
            moment_is_right,
            PLAN_BACKFILL,
            digest_is_read,
            APPLY_PLAN,
            PLAN_CHUNKS,
            BACKFILL_STATUS,
            BACKFILL,
            STOP_BACKFILL,
            LEDGER,
        ],
        over=is_backfilled,
    ),
    Story(
        "backfill",
        "rows are looked at before they come into the table",
        range_is_wrong,
        (),
        [
            PLAN_LATER,
            digest_is_read,
            Refused(PUBLISH, "TIDE-BACK-061"),
            APPLY_PLAN,
            rows_are_staged,
            Refused(DOWNSTREAM, "TIDE-BACK-064"),
            ABORT,
            APPLY_PLAN,
            rows_are_published,
            PUBLISH,
            DOWNSTREAM,
        ],
        over=is_backfilled,
    ),
    Story(
        "backfill",
        "a first start is refused after it",
        filled_before_the_first_start,
        ("TIDE-CKPT-009",),
        [name_where_the_backfill_ended],
        over=lambda patient: patient.batches.admit(),
    ),
]


@each_story(STORIES)
def test_the_pages_commands_end_what_the_page_is_about(story: Story, patient: Patient) -> None:
    Told(story, runbook_pages()[story.page], patient).tell()
