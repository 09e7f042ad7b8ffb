"""The command that the fix of a refused backfill names solves the problem."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

from deltalake import DeltaTable

from tests.support.eventually import eventually
from tests.support.followed_fixes import Trouble, asked, each, gate, nowhere, raised
from tests.support.paper_batches import COLUMNS
from tests.support.paper_broker import PaperBroker
from tests.support.patient import ORDERS, PLACEHOLDERS, TABLE, Patient
from tests.unit.runbooks import test_source_pages as sources
from tests.unit.runbooks import test_write_pages as pages
from tidemill.backfill.plan import load_plan
from tidemill.backfill.progress import read_progress
from tidemill.backfill.replaced_meanwhile import check_not_replaced
from tidemill.backfill.row_origin import EventWindow, RowOrigin, keep_origin
from tidemill.checkpoint.warm_start import WarmStart, write_warm_start
from tidemill.control.ask.bounded_run import backfill_run, start_bounded
from tidemill.ledger.entry import Code, LedgerEntry
from tidemill.sinks.batch_commit import BatchCommit
from tidemill.sinks.table_log import TableLog

PLAN = asked("backfill", "plan", "PIPELINE", "--from", "BEGIN", "--to", "END")
RANGE = ("--from", PLACEHOLDERS["BEGIN"], "--to", PLACEHOLDERS["END"])
RESET = "checkpoint reset"
STREAMS = """
description: Orders of two topics.
owner: tests
sources:
  here: {kafka: {topic: orders}}
  there: {kafka: {topic: others}}
transform: orders:transform
sinks:
  - delta: {table: bronze/orders}
"""
TIMED = ORDERS.replace("sinks:", "event_time: {column: kafka_timestamp, watermark: 1 minute}\nsinks:")


def code(patient: Patient, text: str) -> None:
    file = patient.drivers.folder / "spark_apps/transforms/orders.py"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def several_streams(patient: Patient) -> None:
    """Set up the checkpoint and table of one stream, for a pipeline that now has two."""
    patient.ran(3)
    PaperBroker({"orders": {0: (0, 1000)}, "others": {0: (0, 1000)}}).stand_in(patient.patch)
    code(patient, "def transform(here, there):\n    return here.unionByName(there)\n")
    patient.declare(STREAMS)


def made_of(origin: RowOrigin, sink: str = "bronze/orders"):
    """Set up three written batches with rows of this origin."""

    def ran(patient: Patient) -> None:
        patient.ran(3)
        patient.has_broker()
        code(patient, "def transform(orders):\n    return orders\n")
        patient.declare(TIMED.replace("bronze/orders", sink) + "transform: orders:transform\n")
        keep_origin(patient.batches.store, patient.pipeline, origin)

    return ran


def tables_moved_away(patient: Patient) -> None:
    shutil.move(patient.table(), patient.drivers.folder / "moved")


def began_without_offsets(patient: Patient) -> None:
    """Set up a driver that has begun but has not yet recorded its first offsets."""
    patient.declare()
    patient.has_broker()
    patient.batches.plan()
    (patient.checkpoint / "sources/0/0").unlink()


def plan_is_void(patient: Patient) -> None:
    patient.declare(pages.FILES)


def reads_changes(patient: Patient) -> None:
    """Set up a pipeline that reads the changes of a table, which was written before."""
    sources.write_readings(patient)
    patient.declare(sources.TABLE_AS_SOURCE)
    DeltaTable(str(patient.table("bronze/readings"))).alter.set_table_properties(
        {"delta.enableChangeDataFeed": "true"}
    )
    patient.ran(2, sources.TABLE_AS_SOURCE.replace("readings}", "readings, read_changes: true}"))


def waits_to_be_published(patient: Patient) -> None:
    patient.declare(pages.FILES)
    assert patient.run(pages.PLAN_LATER) == 0, patient.tidemill.err
    pages.digest_is_read(patient)
    pages.rows_are_staged(patient)


def half_published(patient: Patient) -> None:
    """Kill the driver between two tables; the next one publishes the rest."""
    waits_to_be_published(patient)
    pages.progress_of(patient).change(since={"bronze/orders": 0})

    def goes_on(*_: object) -> int:
        pages.rows_are_published(patient)
        return 0

    patient.patch.setattr("tidemill.cli.foreground.run_in_foreground", goes_on)


def at_work(patient: Patient) -> None:
    """Start a driver that carries out the plan."""
    waits_to_be_published(patient)
    patient.drivers.hold_back("orders")
    start_bounded(patient.plane, backfill_run("orders", patient.values["DIGEST"]))


def another_at_work(patient: Patient) -> None:
    """Start a driver that carries out one plan, and plan another."""
    at_work(patient)
    patient.values["OTHER"] = str(patient.tidemill.json("backfill", "plan", "orders", *RANGE)["digest"])


def began_with_a_past(patient: Patient) -> None:
    """Set up a warm reset, which left windows in the tables that its generation must not write again."""
    patient.ran(3)
    patient.has_broker()
    past = WarmStart(
        start={"orders": {"0": 0}}, end={"orders": {"0": 10}}, written_until=datetime(2026, 1, 1, tzinfo=UTC)
    )
    write_warm_start(patient.batches.store, str(patient.checkpoint), past)


def goes_on_from_its_past(patient: Patient) -> None:
    """Let a driver build a flow whose transform has no windows."""
    # Imported here, because it loads PySpark.
    from tidemill.engine.warm_start import without_written

    batches = patient.batches
    run = SimpleNamespace(
        store=batches.store,
        pipeline=patient.pipeline,
        generation=batches.generation,
        checkpoint=str(batches.checkpoint),
    )
    without_written(cast("Any", run), cast("Any", SimpleNamespace(origin=RowOrigin())))


def replaced_meanwhile(patient: Patient) -> None:
    """Commit another backfill of the range to the table after these rows were computed."""
    waits_to_be_published(patient)
    entry = LedgerEntry(
        pipeline="orders",
        output=TABLE,
        mode="backfill",
        run_id="backfill-2",
        plan="0123456789ab",
        code=Code(tidemill="test", digest="d", spec="s"),
    )
    log = TableLog(str(patient.table()))
    log.create(COLUMNS)
    log.commit([], BatchCommit("backfill-2", 0, entry), COLUMNS)
    patient.patch.setattr("tidemill.cli.foreground.run_in_foreground", lambda *_: 0)


def publishes(patient: Patient) -> None:
    """Run the checks of a driver before it publishes; do nothing if no rows wait."""
    plane, digest = patient.plane, patient.values["DIGEST"]
    progress = read_progress(plane.store, plane.layout, "orders", digest)
    if progress is not None:
        plan = load_plan(plane.store, plane.layout, "orders", digest)
        check_not_replaced(plane.store, plane.layout, plan, progress)


ABORT = asked("backfill", "abort", "PIPELINE", "--plan", "DIGEST")


def aborts_after_its_end(patient: Patient) -> Mapping[str, str]:
    plane = patient.plane
    eventually(lambda: plane.running("orders", "backfill") is None, "the driver ends")
    return ABORT(patient)


TROUBLES = [
    Trouble(
        "TIDE-BACK-002",
        "a change feed",
        reads_changes,
        RESET,
        seen=PLAN,
        first=tables_moved_away,
        after=gate,
        rows=(),
    ),
    Trouble(
        "TIDE-BACK-062",
        "half published",
        half_published,
        "backfill publish",
        seen=ABORT,
        after=nowhere,
        over=lambda patient: pages.progress_of(patient).now.finished_at is not None,
    ),
    Trouble(
        "TIDE-CTRL-008",
        "another plan is at work",
        another_at_work,
        "backfill stop",
        seen=asked("backfill", "apply", "PIPELINE", "--plan", "OTHER"),
        after=nowhere,
    ),
    Trouble(
        "TIDE-SPEC-044",
        "rows are of no windows any more",
        began_with_a_past,
        RESET,
        seen=raised(goes_on_from_its_past),
    ),
    Trouble(
        "TIDE-BACK-062",
        "a driver is at work",
        at_work,
        "backfill stop",
        seen=ABORT,
        after=aborts_after_its_end,
    ),
    Trouble(
        "TIDE-BACK-065", "replaced meanwhile", replaced_meanwhile, "backfill apply", seen=raised(publishes)
    ),
    Trouble("TIDE-CKPT-096", "a stream was added", several_streams, RESET),
    Trouble(
        "TIDE-CKPT-075",
        "a stream was added",
        several_streams,
        RESET,
        seen=asked("checkpoint", "rewind", "PIPELINE", "--to", "1"),
        after=gate,
    ),
    Trouble(
        "TIDE-BACK-006",
        "it has not said where it began",
        began_without_offsets,
        "status",
        seen=PLAN,
        shows="orders",
    ),
    Trouble(
        "TIDE-BACK-007",
        "rows of unknown records",
        made_of(RowOrigin(reason="a join")),
        RESET,
        seen=PLAN,
        first=tables_moved_away,
        after=gate,
        rows=range(10),
    ),
    Trouble(
        "TIDE-BACK-011",
        "merged rows",
        made_of(RowOrigin(reason="a join"), "bronze/orders, mode: merge, key: [id]"),
        RESET,
        seen=PLAN,
        after=gate,
    ),
    Trouble(
        "TIDE-BACK-012",
        "session windows",
        made_of(RowOrigin(window=EventWindow(kind="session", start_columns=("id",)))),
        RESET,
        seen=PLAN,
        first=tables_moved_away,
        after=gate,
        rows=range(10),
    ),
    Trouble(
        "TIDE-BACK-010",
        "a table that is replaced",
        made_of(RowOrigin(), "bronze/orders, mode: replace"),
        RESET,
        seen=asked("backfill", "plan", "PIPELINE"),
        after=gate,
    ),
    Trouble(
        "TIDE-BACK-016",
        "no such plan",
        plan_is_void,
        "backfill plan",
        seen=asked("backfill", "apply", "PIPELINE", "--plan", "0123456789ab"),
        shows="To carry out exactly this",
    ),
]


@each(TROUBLES)
def test_the_command_of_the_fix_helps(trouble: Trouble, patient: Patient) -> None:
    trouble.follow(patient)
