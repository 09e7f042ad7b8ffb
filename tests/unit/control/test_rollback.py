"""A new version that makes no progress is given up for the one before, and is not tried again by itself."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.support.eventually import eventually
from tests.support.small_project import ENVIRONMENT, STREAM, SmallProject
from tests.support.stream_requests import AT_ONCE, request, until_ended
from tidemill.checkpoint.status import read_status
from tidemill.control.ask.stream_request import carry_out
from tidemill.control.decide.all_streams import reconcile_streams
from tidemill.control.decide.remembered import Remembered, remembered_in
from tidemill.control.decide.report import Report, report_of
from tidemill.control.decide.visit import Outcome

NAME, OTHER = "orders", "other"
RESTARTING = ENVIRONMENT + "on_change: restart\n"

# A version with separate code, in a file next to the declaration.
WITH_CODE = STREAM + "transform: orders:transform\n"
GOOD = "def transform(rows):\n    return rows\n"


class Rolling:
    """A stream that has made progress, and versions that are deployed after it."""

    def __init__(self, project: SmallProject) -> None:
        self.project = project
        self.plane = project.plane()

    def declare(self, rows: int, name: str = NAME) -> None:
        self.project.declare(name, STREAM.replace("rate: {}", f"rate: {{rows_per_second: {rows}}}"))

    def visits(self, after: timedelta = timedelta(0)) -> dict[str, Outcome]:
        """Return one reconciliation."""
        later = datetime.now(UTC) + after
        outcomes = reconcile_streams(self.project.plane(), AT_ONCE, clock=lambda: later)
        return {outcome.pipeline: outcome for outcome in outcomes}

    def visit(self, after: timedelta = timedelta(0)) -> Outcome:
        """Visit the stream once, and return the outcome."""
        return self.visits(after)[NAME]

    def until(self, action: str) -> Outcome:
        """Visits until one does this."""
        found: list[Outcome] = []

        def done() -> bool:
            found.append(self.visit())
            return found[-1].decision.action == action

        eventually(done, f"a visit that does: {action}")
        return found[-1]

    @property
    def version(self) -> str:
        """Return digest of the version that runs."""
        driver = self.plane.running(NAME)
        assert driver is not None
        return driver.digest

    def remembered_of(self, name: str) -> Remembered:
        return remembered_in(self.plane.runtime.memory(name).read())

    @property
    def remembered(self) -> Remembered:
        return self.remembered_of(NAME)

    def says(self, state: str, *, committed: bool = False) -> bool:
        """Return True if the running driver's status has this state."""
        driver, status = self.plane.running(NAME), read_status(self.plane.store, self.plane.layout, NAME)
        if driver is None or status is None or status.run_id != driver.run_id:
            return False
        return status.state == state and (not committed or status.batch_committed_at is not None)

    def until_progress(self) -> None:
        """Wait until the running driver has committed."""
        eventually(lambda: self.says("running", committed=True), "the driver commits")

    def replace_by(self, rows: int, behaviour: str) -> None:
        """Deploy another version, whose driver does this, and reconcile until it was started."""
        self.project.behave(NAME, behaviour)
        self.declare(rows)
        assert self.visit().decision.action == "stop"
        until_ended(self.plane, NAME)
        assert self.visit().decision.action == "start"

    def go_back(self) -> None:
        """Deploy a refused version, and reconcile until the previous one has made a batch."""
        self.replace_by(2, "exit 65")
        self.until("return")
        self.project.behave(NAME, "run")
        self.until("start")
        self.until_progress()


@pytest.fixture
def rolling(project: SmallProject) -> Rolling:
    project.environ(RESTARTING)
    rolling = Rolling(project)
    rolling.declare(1)
    rolling.until("start")
    rolling.until_progress()
    rolling.until("leave")
    return rolling


def test_a_version_that_makes_no_batch_is_given_up_and_the_one_before_goes_on(rolling: Rolling) -> None:
    good = rolling.version
    assert rolling.remembered.kept is not None
    assert rolling.remembered.kept.digest == good
    rolling.replace_by(2, "exit 65")
    assert rolling.until("return").decision.needs_human
    rolling.project.behave(NAME, "crash")
    rolling.until("start")
    # This version also runs after a crash, and the problem stays visible.
    until_ended(rolling.plane, NAME)
    rolling.project.behave(NAME, "run")
    rolling.until("start")
    assert rolling.version == good
    rolling.until_progress()
    # The problem is reported as long as it exists.
    told = rolling.visit()
    assert told.decision.action == "refused"
    assert "runs the version before" in told.decision.reason
    assert report_of(Report(), [told], datetime.now(UTC)).red[NAME].runbook == "rollback"
    assert rolling.version == good


def test_another_version_is_tried_and_kept_once_it_makes_progress(rolling: Rolling) -> None:
    good = rolling.version
    rolling.go_back()
    rolling.replace_by(3, "run")
    rolling.until_progress()
    rolling.until("leave")
    assert rolling.remembered.kept is not None
    assert rolling.remembered.kept.digest == rolling.version != good


def test_taking_the_change_back_leaves_the_stream_as_it_runs(rolling: Rolling) -> None:
    rolling.go_back()
    before = rolling.plane.running(NAME)
    rolling.declare(1)
    assert rolling.visit().decision.action == "leave"
    assert rolling.plane.running(NAME) == before


def test_a_person_may_have_it_tried_again(rolling: Rolling) -> None:
    good = rolling.version
    rolling.go_back()
    proof = carry_out(rolling.plane, request("restart"), 60, lambda _: None)
    assert proof.state == "done", proof
    assert rolling.version != good
    assert rolling.visit().decision.action == "leave"


def test_others_do_not_get_what_one_has_given_up(rolling: Rolling) -> None:
    rolling.declare(1, OTHER)
    eventually(lambda: rolling.visits() and rolling.remembered_of(OTHER).kept, "the other one is kept, too")
    for name in (NAME, OTHER):
        rolling.project.behave(name, "exit 65")
        rolling.declare(2, name)
    # One of both goes first; the other one waits for it.
    actions = {name: outcome.decision.action for name, outcome in rolling.visits().items()}
    assert sorted(actions.values()) == ["leave", "stop"]
    leads, follows = sorted(actions, key=lambda name: actions[name] != "stop")
    eventually(lambda: rolling.visits()[leads].decision.action == "return", "it is given up")
    rolling.project.behave(leads, "run")
    eventually(lambda: "the version before" in rolling.visits()[leads].decision.reason, "it went back")
    waits = rolling.visits(timedelta(hours=1))[follows].decision
    assert waits.action == "leave"
    assert f"the new version of {leads} makes no progress" in waits.reason


@pytest.mark.parametrize(
    "environment", [RESTARTING + "upgrade: {rollback: false}\n", ENVIRONMENT], ids=["told not to", "by hand"]
)
def test_without_it_the_stream_stays_down_until_a_person_acts(rolling: Rolling, environment: str) -> None:
    rolling.project.behave(NAME, "exit 65")
    rolling.declare(2)
    rolling.visit()
    until_ended(rolling.plane, NAME)
    rolling.project.environ(environment)
    rolling.until("refused")
    assert rolling.remembered.rollback is None


def code(project: SmallProject, text: str) -> None:
    file = project.folder / "spark_apps/transforms/orders.py"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def test_the_version_before_has_its_own_code(project: SmallProject) -> None:
    """The driver starts with the folder of the stored files and with the declared paths."""
    project.environ(RESTARTING)
    rolling = Rolling(project)
    code(project, GOOD)
    project.declare(NAME, WITH_CODE)
    rolling.until("start")
    rolling.until_progress()
    rolling.until("leave")
    kept = rolling.remembered.kept
    assert kept is not None
    assert set(kept.files) == {
        "conf/pipelines/orders.yaml",
        "conf/environments/local.yaml",
        "spark_apps/transforms/orders.py",
    }
    good = rolling.version
    rolling.plane.runtime.drain(rolling.plane.running(NAME) or pytest.fail("nothing runs"))
    until_ended(rolling.plane, NAME)
    project.behave(NAME, "exit 65")
    code(project, GOOD + "# Another one.\n")
    rolling.until("return")
    project.behave(NAME, "run")
    rolling.until("start")
    assert rolling.version == good
    (folder,) = (rolling.plane.environment.run_folder / "versions").iterdir()
    assert (folder / "spark_apps/transforms/orders.py").read_text() == GOOD
    # The tables and the checkpoint are unchanged.
    rolling.until_progress()


def test_what_is_another_version_by_now_is_not_started(rolling: Rolling) -> None:
    rolling.replace_by(2, "exit 65")
    rolling.until("return")
    kept = rolling.remembered.kept
    assert kept is not None
    files = {**kept.files, "conf/pipelines/orders.yaml": kept.files["conf/environments/local.yaml"]}
    rolling.plane.history(NAME).keep(kept.model_copy(update={"files": files}))
    failed = rolling.until("failed").decision
    assert "TIDE-CTRL-097" in failed.reason
    assert failed.runbook == "rollback"
    assert rolling.plane.running(NAME) is None
