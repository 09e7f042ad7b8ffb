"""Pages about drivers that do not start, do not stop, wait or crash."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.support.patient import ORDERS, Patient
from tests.support.runbook_acts import batch, ended, goes_on_by_itself, mended, put_back, waits
from tests.support.runbook_pages import runbook_pages
from tests.support.runbook_story import Act, Refused, Story, Told
from tidemill.control.endings import Ending
from tidemill.control.reconcile import Reconciler
from tidemill.control.streams import gather_facts

STATUS = "tidemill status PIPELINE"
STATUS_AS_JSON = "tidemill status PIPELINE --json"
START = "tidemill start PIPELINE"
START_WITH_REASON = "tidemill start PIPELINE --reason TEXT"


def takes_over(patient: Patient) -> None:
    """The driver that should run here is started."""
    mended(patient)
    assert patient.tidemill("start", "orders") == 0


def error_of_the_last(patient: Patient) -> list[str]:
    """What the driver that ended last has left in its receipt."""
    ending = patient.plane.last_ending("orders")
    return [] if ending is None else [str((ending.error or {}).get("id"))]


def overdue(patient: Patient) -> None:
    """The driver does not finish its batch in time when it is asked to stop."""
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


def crashed(times: int, progressed: bool) -> Act:
    """So many drivers in a row were killed, the last one minutes ago."""

    def crash(patient: Patient) -> None:
        patient.ran(2)
        now = datetime.now(UTC)
        digest = gather_facts(patient.plane, "orders", now).digest
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
    """The page that the control plane names for the stream."""
    decision = Reconciler().decide(gather_facts(patient.plane, "orders", datetime.now(UTC)))
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


STORIES = [
    Story(
        "disk-full",
        "the driver waits for space",
        waits("TIDE-STOR-003"),
        ("TIDE-STOR-003",),
        [goes_on_by_itself],
        seen=Patient.told_by_status,
        over=batch(2),
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
    Story(
        "two-drivers",
        "the older one gave way",
        ended("TIDE-RUN-001", 75),
        ("TIDE-RUN-001",),
        [STATUS, takes_over],
        seen=error_of_the_last,
        over=batch(2),
        goes_on=False,
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
        for error, exit_code in (("TIDE-STOR-004", 69), ("TIDE-STOR-005", 64))
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


@pytest.mark.parametrize("story", STORIES, ids=lambda story: f"{story.page}: {story.title}")
def test_the_pages_commands_end_what_the_page_is_about(story: Story, patient: Patient) -> None:
    Told(story, runbook_pages()[story.page], patient).tell()
