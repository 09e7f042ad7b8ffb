"""A new version that makes no progress is given up for the one before, and is not tried again by itself."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.support.eventually import eventually
from tests.support.small_project import ENVIRONMENT, STREAM, SmallProject
from tests.support.stream_requests import AT_ONCE, request, until_ended
from tidemill.checkpoint.desired import Desired
from tidemill.checkpoint.status import DriverState, Status, read_status
from tidemill.control.ask.stream_request import carry_out
from tidemill.control.decide.endings import Ending
from tidemill.control.decide.facts import Facts
from tidemill.control.decide.kept_version import LARGEST, KeptVersion
from tidemill.control.decide.reconcile import Reconciler
from tidemill.control.decide.remembered import Remembered, remembered_in
from tidemill.control.decide.report import Report, report_of
from tidemill.control.decide.rollback import version_before
from tidemill.control.decide.streams import reconcile_streams
from tidemill.control.decide.visit import Outcome
from tidemill.control.runtime import StartedDriver
from tidemill.spec.restarts import RestartPolicy

NAME, OTHER = "orders", "other"
RESTARTING = ENVIRONMENT + "on_change: restart\n"

# A version with code of its own, which is a file beside the declaration.
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
        """One reconciliation."""
        later = datetime.now(UTC) + after
        outcomes = reconcile_streams(self.project.plane(), AT_ONCE, clock=lambda: later)
        return {outcome.pipeline: outcome for outcome in outcomes}

    def visit(self, after: timedelta = timedelta(0)) -> Outcome:
        """The same; what it did about the stream."""
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
        """Digest of the version that runs."""
        driver = self.plane.running(NAME)
        assert driver is not None
        return driver.digest

    def remembered_of(self, name: str) -> Remembered:
        return remembered_in(self.plane.runtime.memory(name).read())

    @property
    def remembered(self) -> Remembered:
        return self.remembered_of(NAME)

    def says(self, state: str, *, committed: bool = False) -> bool:
        """Whether the driver that runs says so of itself."""
        driver, status = self.plane.running(NAME), read_status(self.plane.store, self.plane.layout, NAME)
        if driver is None or status is None or status.run_id != driver.run_id:
            return False
        return status.state == state and (not committed or status.batch_committed_at is not None)

    def until_progress(self) -> None:
        """The driver that runs has committed."""
        eventually(lambda: self.says("running", committed=True), "the driver commits")

    def replace_by(self, rows: int, behaviour: str) -> None:
        """Deploy another version, whose driver does this; until it was started."""
        self.project.behave(NAME, behaviour)
        self.declare(rows)
        assert self.visit().decision.action == "stop"
        until_ended(self.plane, NAME)
        assert self.visit().decision.action == "start"


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
    # It is the version that runs now, also after a crash; and nobody overlooks that.
    until_ended(rolling.plane, NAME)
    rolling.project.behave(NAME, "run")
    rolling.until("start")
    assert rolling.version == good
    rolling.until_progress()
    # A person is told for as long as it lasts.
    told = rolling.visit()
    assert told.decision.action == "refused"
    assert "runs the version before" in told.decision.reason
    assert report_of(Report(), [told], datetime.now(UTC)).red[NAME].runbook == "rollback"
    assert rolling.version == good


def test_another_version_is_tried_and_kept_once_it_makes_progress(rolling: Rolling) -> None:
    good = rolling.version
    rolling.replace_by(2, "exit 65")
    rolling.until("return")
    rolling.project.behave(NAME, "run")
    rolling.until("start")
    rolling.until_progress()
    rolling.replace_by(3, "run")
    rolling.until_progress()
    rolling.until("leave")
    assert rolling.remembered.kept is not None
    assert rolling.remembered.kept.digest == rolling.version != good


def test_taking_the_change_back_leaves_the_stream_as_it_runs(rolling: Rolling) -> None:
    rolling.replace_by(2, "exit 65")
    rolling.until("return")
    rolling.project.behave(NAME, "run")
    rolling.until("start")
    before = rolling.plane.running(NAME)
    rolling.declare(1)
    assert rolling.visit().decision.action == "leave"
    assert rolling.plane.running(NAME) == before


def test_a_person_may_have_it_tried_again(rolling: Rolling) -> None:
    good = rolling.version
    rolling.replace_by(2, "exit 65")
    rolling.until("return")
    rolling.project.behave(NAME, "run")
    rolling.until("start")
    rolling.until_progress()
    proof = carry_out(rolling.plane, request("restart"), 60, lambda _: None)
    assert proof.state == "done", proof
    assert rolling.version != good
    assert rolling.visit().decision.action == "leave"


# A version that was started 20 minutes ago, and may take 10; `old` made progress before.
NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)
STARTED = NOW - timedelta(minutes=20)


def driver(version: str = "new", **changes: Any) -> StartedDriver:
    start = StartedDriver("orders", "stream", f"run-{version}", version, STARTED, STARTED, "", "pid 1", True)
    return replace(start, **changes)


def said(state: DriverState, **facts: Any) -> Status:
    own = {"pipeline": "orders", "mode": "stream", "run_id": "run-new", "started_at": STARTED}
    return Status.model_validate({**own, "state": state, "updated_at": NOW, **facts})


def ended(version: str, exit_code: int | None, *, progressed: bool = False) -> Ending:
    result = "clean" if exit_code == 0 else "killed" if exit_code is None else "failed"
    return Ending(
        run_id=f"run-{version}",
        digest=version,
        started_at=STARTED - timedelta(hours=1),
        ended_at=STARTED - timedelta(minutes=1),
        result=result,
        exit_code=exit_code,
        progressed=progressed,
    )


OLD = ended("old", 0, progressed=True)
KILLED = ended("new", None)
CASES: dict[str, tuple[dict[str, Any], str]] = {
    "refused": ({"endings": (OLD, ended("new", 66))}, "return"),
    "its restarts are used up": ({"endings": (OLD, KILLED, KILLED, KILLED, KILLED)}, "return"),
    "some are left": ({"endings": (OLD, KILLED)}, "start"),
    "its source is away": ({"endings": (OLD, *[ended("new", 69)] * 9)}, "start"),
    "it has not said anything": ({"running": driver()}, "return"),
    # A driver says so until the end of its first batch.
    "its first batch is long": ({"running": driver(), "newest_status": said("starting")}, "leave"),
    "its pod cannot start": ({"running": driver(stuck="ImagePullBackOff")}, "return"),
    "it waits for its source": (
        {"running": driver(), "newest_status": said("waiting", error={"id": "TIDE-SRC-001"})},
        "leave",
    ),
    "it hangs in its first batch": (
        {"running": driver(silence=timedelta(hours=1)), "newest_status": said("starting")},
        "return",
    ),
    "it hangs after it": (
        {
            "running": driver(silence=timedelta(hours=1)),
            "newest_status": said("running", batch_committed_at=STARTED),
        },
        "stop",
    ),
    "another driver of it came up late": (
        {"running": driver(claimed_at=NOW - timedelta(minutes=1)), "endings": (OLD, ended("new", 69))},
        "leave",
    ),
    "a person has asked for it": (
        {"running": driver(), "desired": Desired(state="running", by="ann", at=NOW - timedelta(minutes=1))},
        "leave",
    ),
    "it has time": ({"running": driver(), "progress_within": timedelta(minutes=30)}, "leave"),
    "it drains": ({"running": driver(drain_requested_at=NOW)}, "leave"),
    "there is none before": ({"endings": (ended("new", 66),), "back_to": None}, "refused"),
    "nobody wants it to run": (
        {"endings": (OLD, ended("new", 66)), "desired": Desired(state="stopped", by="ann", at=STARTED)},
        "leave",
    ),
    "somebody holds it": (
        {"endings": (OLD, ended("new", 66).model_copy(update={"error": {"id": "TIDE-CKPT-029"}}))},
        "start",
    ),
}


KEPT = KeptVersion(digest="old", kept_at=STARTED - timedelta(hours=2), place="local, /data", files={})
BATCH = ended("new", None).model_copy(update={"committed": True})


@pytest.mark.parametrize(
    ("kept", "endings", "before"),
    [
        (None, [OLD], None),
        (KEPT, [OLD], "old"),
        (KEPT, [OLD, KILLED], "old"),
        # It found nothing to read, and failed at its first batch.
        (KEPT, [OLD, ended("new", 0, progressed=True), KILLED], "old"),
        (KEPT, [OLD, BATCH], None),
        # What came between made a batch and was not kept: nobody knows whether `old` goes on from there.
        (KEPT, [OLD, BATCH.model_copy(update={"digest": "between"})], None),
        (KEPT.model_copy(update={"digest": "new"}), [OLD], None),
        # It was not drained for the new version, but broken itself.
        (KEPT, [OLD, ended("old", 66), KILLED], None),
        (KEPT, [KILLED], None),
    ],
)
def test_only_what_was_drained_for_the_new_version_is_gone_back_to(
    kept: KeptVersion | None, endings: list[Ending], before: str | None
) -> None:
    assert version_before("new", Remembered(kept=kept, endings=endings)) == before


@pytest.mark.parametrize(("facts", "action"), CASES.values(), ids=CASES)
def test_a_version_is_given_up_if_it_cannot_begin(facts: dict[str, Any], action: str) -> None:
    seen = Facts(
        **{"pipeline": "orders", "now": NOW, "digest": "new", "back_to": "old", "endings": (OLD,), **facts}
    )
    assert Reconciler(RestartPolicy()).decide(replace(seen, on_change="restart")).action == action


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
    """What a driver is started with: the folder with the files as they were, and paths as they are."""
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
    # Its tables and its checkpoint are where they were.
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


def test_a_damaged_memory_counts_as_none(rolling: Rolling) -> None:
    text = rolling.plane.runtime.memory(NAME).read()
    assert text is not None
    assert remembered_in(text) != Remembered()
    assert remembered_in(text.replace('"digest":', '"digest_":', 1)) == Remembered()


def test_a_version_that_is_too_large_is_not_kept(project: SmallProject) -> None:
    project.environ(RESTARTING)
    rolling = Rolling(project)
    # Random enough not to be packed well.
    code(project, GOOD + "".join(f"# {hash((n, 'x'))}\n" for n in range(LARGEST // 10)))
    project.declare(NAME, WITH_CODE)
    rolling.until("start")
    rolling.until_progress()
    rolling.until("leave")
    assert rolling.remembered.kept is None
