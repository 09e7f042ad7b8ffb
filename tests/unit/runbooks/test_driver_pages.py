"""Pages about drivers that do not start, do not stop, wait or crash."""

from __future__ import annotations

import os
import re
import time
from datetime import UTC, datetime, timedelta

from tests.support.eventually import eventually
from tests.support.patient import ORDERS, Patient
from tests.support.runbook_acts import batch, ended, goes_on_by_itself, mended, put_back, rows, waits
from tests.support.runbook_pages import runbook_pages
from tests.support.runbook_story import Act, Refused, Story, Told, Warned, each_story
from tidemill.control.decide.endings import Ending
from tidemill.control.decide.facts import Facts
from tidemill.control.decide.hung import NO_PROGRESS_PAGE
from tidemill.control.decide.progress import stall_of
from tidemill.control.decide.reconcile import Reconciler
from tidemill.control.decide.stream_facts import gather_stream_facts
from tidemill.spec.restarts import RestartPolicy

STATUS = "tidemill status PIPELINE"
DOCTOR = "tidemill checkpoint doctor PIPELINE"
STUCK = "TIDE-CTRL-016"
STATUS_AS_JSON = "tidemill status PIPELINE --json"
START = "tidemill start PIPELINE"
STOP = "tidemill stop PIPELINE"
LEDGER = "tidemill ledger PIPELINE"
REWIND = "tidemill checkpoint rewind PIPELINE --to BATCH --reason TEXT --apply"
START_WITH_REASON = "tidemill start PIPELINE --reason TEXT"


def takes_over(patient: Patient) -> None:
    """Start the driver that should run here."""
    mended(patient)
    assert patient.tidemill("start", "orders") == 0


def error_of_the_last(patient: Patient) -> list[str]:
    """Return the error id from the receipt of the last driver."""
    ending = patient.plane.last_ending("orders")
    return [] if ending is None else [str((ending.error or {}).get("id"))]


def overdue(patient: Patient) -> None:
    """Let a driver not finish its batch in time after it was asked to stop."""
    patient.ran(2)
    patient.driver_starts("forced")
    patient.driver_says("running")
    assert patient.tidemill("stop", "orders") == 1
    assert "did not finish its batch in time" in patient.tidemill.out


def next_stop_is_clean(patient: Patient) -> None:
    mended(patient)
    assert patient.tidemill("start", "orders") == 0
    assert patient.tidemill("stop", "orders") == 0
    assert patient.status()["actual"] == "clean"


def facts_of(patient: Patient) -> Facts:
    plane = patient.plane
    return gather_stream_facts(plane, "orders", datetime.now(UTC), plane.look_at("orders"))


def crashed(times: int, progressed: bool) -> Act:
    """Return an act after which this number of drivers in a row were killed, the last one minutes ago."""

    def crash(patient: Patient) -> None:
        patient.ran(2)
        now = datetime.now(UTC)
        digest = facts_of(patient).digest
        assert digest is not None
        for number in range(times):
            at = now - timedelta(minutes=5 * (times - number))
            patient.plane.history("orders").note(
                Ending(
                    run_id=f"run-{number}",
                    digest=digest,
                    started_at=at - timedelta(minutes=1),
                    ended_at=at,
                    result="killed",
                    progressed=progressed,
                )
            )

    return crash


def held_back_by(patient: Patient) -> list[str]:
    """Return the page that the control plane names for the stream."""
    decision = Reconciler(RestartPolicy()).decide(facts_of(patient))
    return [decision.runbook] if decision.needs_human else []


def wrong_declaration(patient: Patient) -> None:
    patient.ran(2)
    patient.put_back = lambda: patient.declare(ORDERS)
    patient.redeclare("owner: tests", "onwer: tests")


def gate_refuses(patient: Patient) -> None:
    patient.ran(2)
    file = patient.checkpoint / "metadata"
    patient.put_back = patient.keep(file)
    file.unlink()
    assert patient.tidemill("start", "orders") == 1


def late(behaviour: str, says: str) -> Act:
    """Return an act in which a driver makes no progress for longer than its limit.

    The next driver has the same limit, and a busy machine takes its time between a batch and the last look.
    """

    def be_late(patient: Patient) -> None:
        patient.ran(2)
        patient.patch.setattr("tidemill.spec.project.Pipeline.progress_within", timedelta(seconds=3))
        patient.driver_starts(behaviour)
        patient.driver_says(says)
        eventually(lambda: stall(patient), "the time without progress is over")

    return be_late


def stall(patient: Patient) -> list[str]:
    """Return the errors in the stall of a stream without progress, and the page."""
    found = stall_of(facts_of(patient))
    return [] if found is None else [*re.findall(r"TIDE-[A-Z0-9]+-\d{3}", found.reason), found.runbook]


def stuck_by_the_doctor(patient: Patient) -> list[str]:
    """Return the doctor's finding for a stream without progress: its id and the page."""
    found = patient.doctor().get(STUCK)
    return [] if found is None else [STUCK, found["runbook"]]


def old_rows_were_brought_back(patient: Patient) -> None:
    """Bring back the rows of the old generation by a manual RESTORE beyond a rewind."""
    patient.ran(4)
    assert patient.run(REWIND) == 0
    patient.restore_table_by_hand(4)


def old_driver_writes(patient: Patient) -> None:
    """Let the driver of the old generation plan a batch an hour later."""
    patient.ran(3)
    left = patient.checkpoint
    assert patient.run(REWIND) == 0
    file = left / "offsets/9"
    file.write_text("v1\n")
    later = time.time() + 3600
    os.utime(file, (later, later))


def half_a_minute_passes(patient: Patient) -> None:
    patient.patch.setattr("tidemill.checkpoint.gate.alive.FRESH_SECONDS", 0.0)


def runs_elsewhere(patient: Patient) -> None:
    patient.ran(2)
    assert patient.tidemill("start", "orders") == 0


STORIES = [
    Story(
        "disk-full",
        "the driver waits for space",
        waits("TIDE-STOR-003"),
        ("TIDE-STOR-003",),
        [
            STATUS,
            "tidemill checkpoint prune PIPELINE",
            "tidemill checkpoint prune PIPELINE --apply",
            "tidemill checkpoint prune PIPELINE --trash-days 0 --apply",
            goes_on_by_itself,
        ],
        seen=Patient.told_by_status,
        over=batch(2),
    ),
    Story(
        "disk-full",
        "the driver has given up",
        ended("TIDE-STOR-003", 69),
        ("TIDE-STOR-003",),
        [mended, START],
        seen=Patient.told_by_status,
        over=batch(2),
    ),
    Story(
        "two-drivers",
        "rows of a generation that was left",
        old_rows_were_brought_back,
        ("TIDE-CKPT-019",),
        [STATUS, LEDGER, STOP, REWIND, START],
        over=rows(30),
    ),
    Story(
        "two-drivers",
        "the old driver writes to the generation that was left",
        old_driver_writes,
        ("TIDE-CKPT-053",),
        [STOP, REWIND, "tidemill checkpoint prune PIPELINE --generations 0 --apply", START],
        seen=Patient.doctor,
        over=rows(30),
    ),
    Story(
        "two-drivers",
        "another one was heard of a moment ago",
        runs_elsewhere,
        ("TIDE-CKPT-090",),
        [STATUS, STOP, half_a_minute_passes],
        seen=Patient.doctor,
        goes_on=False,
    ),
    Story(
        "two-drivers",
        "another one wrote at the same moment",
        waits("TIDE-CKPT-008"),
        ("TIDE-CKPT-008",),
        [STATUS, goes_on_by_itself],
        seen=Patient.told_by_status,
        over=batch(2),
        goes_on=False,
    ),
    *(
        Story(
            "two-drivers",
            f"the older one gave way with {error}",
            ended(error, 75),
            (error,),
            [STATUS, takes_over],
            seen=error_of_the_last,
            over=batch(2),
            goes_on=False,
        )
        for error in ("TIDE-RUN-001", "TIDE-RUN-003", "TIDE-RUN-004")
    ),
    *(
        Story(
            "storage-unavailable",
            f"a driver ended with {error}",
            ended(error, exit_code),
            (error,),
            ["tidemill status", STATUS, mended, START],
            seen=Patient.told_by_status,
            over=batch(2),
        )
        for error, exit_code in (("TIDE-STOR-004", 69), ("TIDE-STOR-005", 64), ("TIDE-STOR-006", 69))
    ),
    Story(
        "drain-overdue",
        "a batch does not end in time",
        overdue,
        ("forced",),
        [STATUS_AS_JSON, next_stop_is_clean],
        seen=lambda patient: [patient.status()["actual"]],
    ),
    Story(
        "no-progress-over-restarts",
        "four in a row died before their first batch",
        crashed(4, progressed=False),
        ("no-progress-over-restarts",),
        [START_WITH_REASON],
        seen=held_back_by,
        over=batch(2),
    ),
    Story(
        "restart-budget-spent",
        "six crashed within an hour",
        crashed(6, progressed=True),
        ("restart-budget-spent",),
        [START_WITH_REASON],
        seen=held_back_by,
        over=batch(2),
    ),
    Story(
        "restart-budget-spent",
        "the transform fails at a record",
        ended("TIDE-DATA-003", 65),
        ("TIDE-DATA-003",),
        [
            "tidemill validate PIPELINE",
            mended,
            START_WITH_REASON,
            "tidemill quarantine list PIPELINE",
            "tidemill quarantine show PIPELINE --raw",
        ],
        seen=Patient.told_by_status,
        over=batch(2),
    ),
    Story(
        "stream-makes-no-progress",
        "a driver says why it cannot go on",
        late("waits TIDE-SRC-002", "waiting"),
        ("TIDE-SRC-002",),
        ["tidemill status", STATUS_AS_JSON, Warned(DOCTOR, STUCK), goes_on_by_itself],
        seen=stall,
        over=batch(2),
    ),
    Story(
        "stream-makes-no-progress",
        "a driver has said nothing of a batch since it was started",
        late("starting", "starting"),
        (STUCK, NO_PROGRESS_PAGE),
        [mended, "tidemill restart PIPELINE --reason TEXT"],
        seen=stuck_by_the_doctor,
        over=batch(2),
    ),
    Story(
        "stream-does-not-start",
        "the declaration is wrong",
        wrong_declaration,
        ("TIDE-SPEC-003",),
        [
            STATUS,
            Refused("tidemill validate PIPELINE", "TIDE-SPEC-003"),
            put_back,
            "tidemill validate PIPELINE",
            START,
        ],
        seen=Patient.told_by_status,
        over=batch(2),
    ),
    Story(
        "stream-does-not-start",
        "the gate says no",
        gate_refuses,
        ("TIDE-CKPT-010",),
        [STATUS, put_back, START],
        seen=Patient.told_by_status,
        over=batch(2),
    ),
]


@each_story(STORIES)
def test_the_pages_commands_end_what_the_page_is_about(story: Story, patient: Patient) -> None:
    Told(story, runbook_pages()[story.page], patient).tell()
