"""The page about a storage root that belongs to another control plane."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from tests.support.patient import Patient
from tests.support.runbook_acts import batch, ended, mended
from tests.support.runbook_pages import runbook_pages
from tests.support.runbook_story import Act, Story, Told, each_story
from tests.support.small_project import SmallProject
from tests.unit.runbooks.test_driver_pages import error_of_the_last
from tidemill.checkpoint.root_owner import RootOwner, write_owner
from tidemill.control.ask.takeover import plan_takeover, take_over
from tidemill.control.plane import ControlPlane, open_control_plane
from tidemill.errors import TidemillError

PAGE = "other-control-plane"
SHOW = "tidemill control show"
PLAN = "tidemill control takeover"
TAKEOVER = "tidemill control takeover --reason TEXT --apply"
START = "tidemill start PIPELINE"
ELSEWHERE = RootOwner(id="other", runtime="kubernetes", place="namespace plant", host="scheduler-0")


def refusal(plane: ControlPlane) -> list[str]:
    """Return the error id of an action."""
    try:
        plane.own()
    except TidemillError as error:
        return [error.error_id]
    return []


def refused_here(patient: Patient) -> list[str]:
    return refusal(patient.plane)


def owned_by(owner: RootOwner) -> Act:
    """Return an act that gives the root of a pipeline with two batches to this owner."""

    def own(patient: Patient) -> None:
        patient.ran(2)
        write_owner(patient.plane.store, patient.plane.layout, owner)

    return own


def half_taken_over(patient: Patient) -> None:
    """Let a takeover for this control plane die before its end."""
    unfinished = patient.plane.as_owner().model_copy(update={"fencing": True})
    owned_by(unfinished)(patient)


def damaged(patient: Patient) -> None:
    patient.ran(2)
    patient.plane.store.write(patient.plane.layout.control, b"")


def displaced(patient: Patient) -> None:
    """Let a driver of this control plane run again after a takeover, and end for this reason."""
    ended("TIDE-RUN-005", 75)(patient)
    write_owner(patient.plane.store, patient.plane.layout, ELSEWHERE)


class Laptop:
    """Another checkout, to which the streams of a living control plane are to move."""

    project: SmallProject

    def fall_ill(self, patient: Patient) -> None:
        patient.ran(2)
        assert patient.tidemill("start", "orders") == 0
        folder = Path(patient.drivers.folder) / "laptop"
        for part in ("conf/pipelines", "conf/environments"):
            (folder / part).mkdir(parents=True)
        self.project = SmallProject(folder)
        self.project.environ(f"root: {patient.pipeline.layout.root}\n")

    def seen(self, _patient: Patient) -> list[str]:
        return refusal(open_control_plane(self.project.environment))

    def takes_over(self, _patient: Patient) -> None:
        plane = open_control_plane(self.project.environment)
        take_over(plane, plan_takeover(plane, datetime.now(UTC)), "ann", "streams move")


LAPTOP = Laptop()

STORIES = [
    Story(
        PAGE,
        "the owner is gone for good",
        owned_by(ELSEWHERE),
        ("TIDE-CTRL-010",),
        [SHOW, PLAN, TAKEOVER, START],
        seen=refused_here,
        over=batch(2),
    ),
    Story(
        PAGE,
        "streams move from a control plane that is alive",
        LAPTOP.fall_ill,
        ("TIDE-CTRL-010",),
        ["tidemill stop PIPELINE", LAPTOP.takes_over],
        seen=LAPTOP.seen,
    ),
    Story(PAGE, "a takeover was interrupted", half_taken_over, ("TIDE-CTRL-011",), [TAKEOVER], refused_here),
    Story(PAGE, "the owner's record is damaged", damaged, ("TIDE-CTRL-012",), [TAKEOVER], refused_here),
    Story(
        PAGE,
        "a driver was started once more after a takeover",
        displaced,
        ("TIDE-RUN-005",),
        [SHOW, TAKEOVER, mended, START],
        seen=error_of_the_last,
        over=batch(2),
    ),
]


@each_story(STORIES)
def test_the_pages_commands_end_what_the_page_is_about(story: Story, patient: Patient) -> None:
    Told(story, runbook_pages()[story.page], patient).tell()
