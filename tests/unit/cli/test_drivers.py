"""Operations that start, stop and watch drivers, with real processes that run no Spark."""

from __future__ import annotations

import getpass
import os
import signal
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import CommandLine
from tests.support.eventually import eventually
from tests.support.fake_driver import ROOT
from tests.support.forked_python import forked
from tests.support.small_project import ENVIRONMENT, INCREMENTAL, READINGS, SmallProject, small_project
from tidemill.backfill.plan import load_plan
from tidemill.backfill.progress import ChunkDone, Found, ProgressFile
from tidemill.checkpoint.desired import Desired, read_desired, write_desired
from tidemill.checkpoint.procedure.audit import read_audit
from tidemill.cli import foreground
from tidemill.control.ask.bounded_run import backfill_run, start_bounded
from tidemill.control.backfills import estimate
from tidemill.ledger.difference import Difference


@pytest.fixture
def drivers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SmallProject]:
    monkeypatch.setenv("TIDEMILL_DRIVER_COMMAND", "tests.support.fake_driver:fake_driver_command")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(ROOT / "spark_apps")]))
    with small_project(tmp_path / "drivers") as made:
        yield made


@pytest.fixture
def tidemill(drivers: SmallProject, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(drivers.folder, capsys.readouterr)


def test_an_incremental_run_ends_with_0_and_tells_what_it_wrote(
    tidemill: CommandLine, drivers: SmallProject
) -> None:
    drivers.declare("orders", INCREMENTAL)
    assert tidemill("run", "orders") == 0, tidemill.err
    assert tidemill.out.splitlines() == [
        "bronze/orders: 3 rows in the table, 3 rows written by this run, version 0",
        "0 quarantined, 0 late, 0 without event time, 0 dropped",
        "finished",
    ]
    assert "fake driver incremental-" in tidemill.err
    assert tidemill("run", "orders") == 0, tidemill.err
    assert tidemill.out.startswith(
        "bronze/orders: 6 rows in the table, 3 rows written by this run, version 1\n"
    )


def test_a_run_without_rows_shows_what_the_table_holds(tidemill: CommandLine, drivers: SmallProject) -> None:
    drivers.declare("orders", INCREMENTAL)
    drivers.behave("orders", "idle")
    assert tidemill("run", "orders") == 0, tidemill.err
    assert tidemill.out.startswith("bronze/orders: no table yet\n")
    drivers.behave("orders", "run")
    assert tidemill("run", "orders") == 0, tidemill.err
    drivers.behave("orders", "idle")
    assert tidemill("run", "orders") == 0, tidemill.err
    assert tidemill.out.startswith(
        "bronze/orders: 3 rows in the table, 0 rows written by this run, version 0\n"
    )


def test_a_failed_run_is_shown_with_its_error_until_a_run_finishes(
    tidemill: CommandLine, drivers: SmallProject
) -> None:
    drivers.declare("orders", INCREMENTAL)
    drivers.behave("orders", "exit 65")
    assert tidemill("run", "orders") == 65
    assert tidemill("status", "orders") == 0
    assert "its last run did not finish: exit 65, TIDE-TEST-001 As the test wants." in tidemill.out
    waits_for = tidemill.json("explain", "orders")["waits_for"]
    assert waits_for == [
        "No driver is at work: its last run did not finish: exit 65, TIDE-TEST-001 As the test wants.",
        "To fix: ask the test.",
    ]
    drivers.behave("orders", "run")
    assert tidemill("run", "orders") == 0
    assert tidemill("status", "orders") == 0
    assert "declared incremental, not stream" in tidemill.out
    assert "TIDE-TEST-001" not in tidemill.out


@pytest.mark.parametrize("exit_code", [64, 65, 66, 69, 70])
def test_a_run_that_fails_ends_with_its_driver_s_exit_code_and_says_all_of_its_error(
    tidemill: CommandLine, drivers: SmallProject, exit_code: int
) -> None:
    drivers.declare("orders", INCREMENTAL)
    drivers.behave("orders", f"exit {exit_code}")
    assert tidemill("run", "orders") == exit_code
    lines = tidemill.err.partition(f"failed: exit {exit_code}\n")[2].splitlines()
    assert lines[0] == "TIDE-TEST-001  As the test wants."
    assert lines[1] == "  To fix: ask the test"
    assert Path(lines[2].removeprefix("log ")).is_file()


def test_a_damaged_table_does_not_hide_the_error_of_the_run(
    tidemill: CommandLine, drivers: SmallProject
) -> None:
    drivers.declare("orders", INCREMENTAL)
    assert tidemill("run", "orders") == 0, tidemill.err
    log = Path(drivers.plane().layout.table("bronze/orders"), "_delta_log/00000000000000000000.json")
    log.write_bytes(log.read_bytes()[:100])
    drivers.behave("orders", "exit 65")
    assert tidemill("run", "orders") == 65
    assert "TIDE-TEST-001  As the test wants." in tidemill.err
    assert tidemill.out.startswith("the rows cannot be counted: TIDE-LEDG-001 ")


def test_a_run_that_is_killed_ends_like_an_internal_error(
    tidemill: CommandLine, drivers: SmallProject
) -> None:
    drivers.declare("orders", INCREMENTAL)
    drivers.behave("orders", "crash")
    assert tidemill("run", "orders") == 70
    assert "failed: killed without a receipt" in tidemill.err


def test_a_terminal_shows_a_line_for_each_batch_and_the_log_keeps_the_rest(
    tidemill: CommandLine, drivers: SmallProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    drivers.declare("orders", INCREMENTAL)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert tidemill("run", "orders") == 0
    begun, *lines = tidemill.err.splitlines()
    assert "CTRL-C drains it" in begun
    assert not [line for line in lines if line.startswith("{")]


def test_a_stream_is_started_proven_seen_and_stopped(tidemill: CommandLine, drivers: SmallProject) -> None:
    drivers.declare("orders")
    assert tidemill("start", "orders", "--reason", "test") == 0, tidemill.out
    [state] = tidemill.json("status")
    assert (state["pipeline"], state["actual"]) == ("orders", "running")
    assert state["driver"]["process"].startswith("pid ")
    assert state["status"]["batch_id"] == 0
    assert tidemill("stop", "orders", "--reason", "enough") == 0, tidemill.out
    desired = read_desired(drivers.plane().store, drivers.plane().layout, "orders")
    assert desired is not None
    assert (desired.state, desired.reason) == ("stopped", "enough")
    [state] = tidemill.json("status", "orders")
    assert state["driver"] is None
    assert (state["desired"].partition(" ")[0], state["actual"]) == ("stopped", "clean")


def test_a_restart_replaces_the_driver(tidemill: CommandLine, drivers: SmallProject) -> None:
    drivers.declare("orders")
    assert tidemill("start", "orders") == 0
    before = tidemill.json("status", "orders")[0]["driver"]["run_id"]
    assert tidemill("restart", "orders") == 0
    assert tidemill.json("status", "orders")[0]["driver"]["run_id"] != before


def test_a_stream_that_cannot_start_ends_with_1(tidemill: CommandLine, drivers: SmallProject) -> None:
    drivers.declare("orders")
    drivers.behave("orders", "exit 66")
    assert tidemill("start", "orders") == 1
    assert "exit 66" in tidemill.out


def test_a_stream_is_suspended_seen_with_moment_and_reason_and_resumed(
    tidemill: CommandLine, drivers: SmallProject
) -> None:
    drivers.declare("orders")
    assert tidemill("start", "orders") == 0
    moment = ("--until", "2126-12-01T06:00:00Z")
    assert tidemill("suspend", "orders", *moment, "--reason", "broker move") == 0, tidemill.out
    assert tidemill.out.splitlines()[-1].endswith(
        "after 2126-12-01T06:00:00Z; to start it now: tidemill resume orders"
    )
    [state] = tidemill.json("status", "orders")
    assert state["driver"] is None
    assert state["desired"].startswith("suspended until 2126-12-01 06:00 UTC (")
    assert state["suspended_until"].startswith("2126-12-01T06:00:00")
    assert state["next"]["action"] == "leave"
    assert state["next"]["reason"].endswith(": broker move")
    assert tidemill("resume", "orders") == 0, tidemill.out
    [state] = tidemill.json("status", "orders")
    assert (state["desired"].partition(" ")[0], state["actual"]) == ("running", "running")
    assert state["suspended_until"] is None


def test_a_suspension_that_has_ended_is_shown_as_a_wish_to_run(
    tidemill: CommandLine, drivers: SmallProject
) -> None:
    name, plane = drivers.declare("orders"), drivers.plane()
    until = datetime(2026, 3, 1, 6, tzinfo=UTC)
    wish = Desired(state="suspended", by="ann", at=until - timedelta(days=1), until=until)
    write_desired(plane.store, plane.layout, name, wish)
    [state] = tidemill.json("status")
    assert state["desired"] == "running since 2026-03-01 06:00 UTC (ann)"
    assert (state["next"]["action"], state["progress"]["stalled"] is None) == ("start", False)
    assert "suspended until 2026-03-01 06:00 UTC by ann, and not back" in state["progress"]["stalled"]


@pytest.mark.parametrize("moment", ["soon", "2020-01-01T00:00:00Z"])
def test_a_moment_of_no_use_leaves_a_stream_as_it_is(
    tidemill: CommandLine, drivers: SmallProject, moment: str
) -> None:
    drivers.declare("orders")
    assert tidemill("suspend", "orders", "--until", moment) == 2
    assert tidemill.err.startswith("TIDE-CTRL-020")
    assert read_desired(drivers.plane().store, drivers.plane().layout, "orders") is None


@pytest.mark.parametrize("verb", ["start", "stop", "restart", "suspend", "resume"])
def test_an_unknown_stream_leaves_no_wish_behind(
    tidemill: CommandLine, drivers: SmallProject, verb: str
) -> None:
    assert tidemill(verb, "orders") == 2
    assert tidemill.err.startswith("TIDE-SPEC-011")
    assert read_desired(drivers.plane().store, drivers.plane().layout, "orders") is None


def test_a_second_driver_of_a_pipeline_is_refused(tidemill: CommandLine, drivers: SmallProject) -> None:
    drivers.declare("orders")
    assert tidemill("start", "orders") == 0
    assert tidemill("run", "orders", "--mode", "incremental") == 1
    assert tidemill.err.startswith("TIDE-CTRL-008")


def interrupt_run(drivers: SmallProject, state: str) -> tuple[int, str, str]:
    """CTRL-C for `tidemill run orders` once its driver is in a state: exit code, output, and log."""
    out, err = drivers.folder / "out", drivers.folder / "err"
    with out.open("w") as stdout, err.open("w") as stderr:
        process = forked(
            [sys.executable, "-m", "tidemill.cli.app", "--project", str(drivers.folder), "run", "orders"],
            stdout=stdout,
            stderr=stderr,
        )

    def seen() -> bool:
        status = drivers.plane().store.read_json(drivers.environment.layout.status("orders"))
        return status is not None and status["state"] == state

    eventually(seen, f"the driver is {state}")
    process.send_signal(signal.SIGINT)
    return process.wait(30), out.read_text(), err.read_text()


def test_ctrl_c_drains_a_stream_in_the_foreground(drivers: SmallProject) -> None:
    drivers.declare("orders")
    code, out, err = interrupt_run(drivers, "running")
    assert code == 0, err
    assert "draining: the driver finishes its batch" in err
    assert out.splitlines()[-1] == "finished"


def test_ctrl_c_leaves_an_incremental_run_unfinished_and_says_so(drivers: SmallProject) -> None:
    drivers.declare("orders", INCREMENTAL)
    drivers.hold_back("orders")
    code, out, _ = interrupt_run(drivers, "starting")
    assert code == 1
    assert out.splitlines()[-1] == "stopped before it had finished; run it again for the rest"


def test_a_stream_without_progress_is_shown_as_one_with_its_reason(
    tidemill: CommandLine, drivers: SmallProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    drivers.behave(drivers.declare("orders"), "away")
    monkeypatch.setattr("tidemill.spec.project.Pipeline.progress_within", timedelta(seconds=0.2))
    assert tidemill("start", "orders", "--timeout", "1") == 1

    def is_shown() -> bool:
        [state] = tidemill.json("status")
        return "TIDE-TEST-001" in (state["progress"]["stalled"] or "")

    eventually(is_shown, "the stream makes no progress")
    assert tidemill("status") == 0
    assert "no progress for 0 minutes: TIDE-TEST-001 As the test wants." in tidemill.out


def test_a_table_of_all_pipelines_is_shown(tidemill: CommandLine, drivers: SmallProject) -> None:
    drivers.declare("orders")
    drivers.declare("daily", INCREMENTAL)
    assert tidemill("status") == 0
    heading, _, daily, orders = tidemill.out.splitlines()
    assert heading.split()[:4] == ["pipeline", "mode", "desired", "actual"]
    assert daily.split()[:4] == ["daily", "incremental", "by", "schedule"]
    assert orders.split()[:5] == ["orders", "stream", "running", "never", "ran"]


def test_the_ledger_lists_what_was_committed(tidemill: CommandLine, drivers: SmallProject) -> None:
    drivers.declare("orders", INCREMENTAL)
    assert tidemill("ledger", "orders") == 0
    assert tidemill.out == "orders has committed nothing yet\n"
    assert tidemill("run", "orders") == 0
    assert tidemill("run", "orders") == 0
    newest, oldest = tidemill.json("ledger", "orders")
    assert (newest["version"], oldest["version"]) == (1, 0)
    assert newest["rows"] == 3
    assert newest["entry"]["mode"] == "incremental"
    assert len(tidemill.json("ledger", "orders", "--limit", "1")) == 1
    assert tidemill("ledger", "orders") == 0
    assert len(tidemill.out.splitlines()) == 4


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "orders", "--from", "2026-01-01"],
        ["run", "orders", "--apply"],
        ["run", "orders", "--mode", "both"],
    ],
)
def test_a_range_without_a_backfill_is_wrong_usage(
    tidemill: CommandLine, drivers: SmallProject, arguments: list[str]
) -> None:
    drivers.declare("orders")
    assert tidemill(*arguments) == 2
    assert "Usage:" in tidemill.err


RANGE = ("--from", "2026-01-01T00:00", "--to", "2026-01-02T00:00")


def test_a_backfill_is_only_planned_until_it_is_applied(tidemill: CommandLine, drivers: SmallProject) -> None:
    drivers.declare("readings", READINGS)
    plan = tidemill.json("backfill", "plan", "readings", *RANGE)
    assert [table["table"] for table in plan["tables"]] == ["bronze/readings"]
    assert tidemill("run", "readings", "--mode", "backfill", *RANGE) == 0, tidemill.err
    assert "Nothing was done" in tidemill.out
    assert tidemill.json("ledger", "readings") == []
    assert tidemill("backfill", "apply", "readings", *RANGE) == 0, tidemill.err
    [commit] = tidemill.json("ledger", "readings")
    assert commit["entry"]["mode"] == "backfill"


def test_a_plan_is_carried_out_by_its_digest(tidemill: CommandLine, drivers: SmallProject) -> None:
    drivers.declare("readings", READINGS)
    digest = tidemill.json("backfill", "plan", "readings", *RANGE)["digest"]
    assert tidemill("backfill", "apply", "readings", "--plan", digest) == 0, tidemill.err
    [commit] = tidemill.json("ledger", "readings")
    assert commit["entry"]["run_id"].startswith(f"backfill-{digest}-")
    assert tidemill("backfill", "apply", "readings", "--plan", "0123456789ab") == 2
    assert tidemill.err.startswith("TIDE-BACK-016")
    assert tidemill("backfill", "apply", "readings", "--plan", digest, *RANGE) == 2


@pytest.mark.parametrize("approver", [(), ("--approved-by", getpass.getuser())])
def test_in_a_protected_environment_somebody_else_approves_a_backfill(
    tidemill: CommandLine, drivers: SmallProject, approver: tuple[str, ...]
) -> None:
    drivers.declare("readings", READINGS)
    drivers.environ(ENVIRONMENT + "protected: true\n")
    digest = tidemill.json("backfill", "plan", "readings", *RANGE)["digest"]
    for words in (
        ("backfill", "apply", "readings", "--plan", digest),
        ("backfill", "apply", "readings", *RANGE),
        ("run", "readings", "--mode", "backfill", "--apply", *RANGE),
    ):
        assert tidemill(*words, *approver) == 1
        assert tidemill.err.startswith("TIDE-CKPT-036")
    assert tidemill.json("ledger", "readings") == []
    plane = drivers.plane()
    assert read_audit(plane.store, plane.layout, "readings") == []

    assert tidemill("backfill", "apply", "readings", "--plan", digest, "--approved-by", "bob") == 0
    assert len(tidemill.json("ledger", "readings")) == 1
    (entry,) = read_audit(plane.store, plane.layout, "readings")
    assert (entry.verb, entry.by) == ("backfill apply", f"{getpass.getuser()}, approved by bob")
    assert entry.plan["plan"] == digest


def test_a_range_is_verified_by_a_part_of_spark_and_a_difference_is_exit_code_1(
    tidemill: CommandLine, drivers: SmallProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    drivers.declare("readings", READINGS)
    assert tidemill("backfill", "apply", "readings", *RANGE) == 0, tidemill.err
    digest = tidemill.json("backfill", "plan", "readings", *RANGE)["digest"]
    asked: list[list[str]] = []
    found = Difference(name="bronze/readings", version=0, rows=3)

    def part(_plane: object, _pipeline: object, module: str, arguments: list[str]) -> list[dict[str, Any]]:
        asked.append([module, *arguments])
        return [found.model_dump(mode="json")]

    # Spark is asked in tests/kafka/test_engine_backfill.py.
    monkeypatch.setattr("tidemill.control.verify_range.run_part", part)
    assert tidemill("backfill", "verify", "readings", *RANGE) == 0, tidemill.err
    assert "equal     bronze/readings: 3 rows, version 0" in tidemill.out
    versions = '{"bronze/readings": 0, "quarantine": null}'
    assert asked == [["verify", "--plan", digest, "--versions", versions]]

    found = found.model_copy(update={"missing": 1, "missing_rows": ('{"device":"d1"}',)})
    assert tidemill("backfill", "verify", "readings", "--plan", digest) == 1
    assert "differs   bronze/readings: 3 rows expected, 1 missing, 0 surplus" in tidemill.out
    assert 'missing {"device":"d1"}' in tidemill.out
    assert tidemill("backfill", "verify", "readings", "--plan", digest, *RANGE) == 2


def test_a_backfill_that_a_closed_terminal_left_is_found_again(
    tidemill: CommandLine, drivers: SmallProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The range identifies the backfill, even if a plan made now would differ."""
    drivers.declare("readings", READINGS)
    drivers.hold_back("readings")
    digest = tidemill.json("backfill", "plan", "readings", *RANGE)["digest"]
    plane = drivers.plane()
    left = start_bounded(plane, backfill_run("readings", digest))
    follow = foreground._follow

    def follow_until_its_end(*arguments: Any) -> None:
        drivers.let_go("readings")
        follow(*arguments)

    monkeypatch.setattr(foreground, "_follow", follow_until_its_end)
    assert tidemill("backfill", "apply", "readings", *RANGE) == 0, tidemill.err
    assert left.run_id in tidemill.err
    assert {commit["entry"]["run_id"] for commit in tidemill.json("ledger", "readings")} == {left.run_id}


def test_a_backfill_is_stopped_by_its_own_verb(tidemill: CommandLine, drivers: SmallProject) -> None:
    drivers.declare("readings", READINGS)
    assert tidemill("backfill", "stop", "readings") == 0
    assert "no backfill is at work" in tidemill.out
    drivers.hold_back("readings")
    digest = tidemill.json("backfill", "plan", "readings", *RANGE)["digest"]
    plane = drivers.plane()
    driver = start_bounded(plane, backfill_run("readings", digest))
    eventually(Path(plane.layout.backfill_status("readings", digest)).exists, "it is at work")
    assert tidemill("backfill", "stop", "readings", "--reason", "the wrong day") == 0, tidemill.err
    assert driver.run_id in tidemill.out
    eventually(lambda: plane.running("readings", "backfill") is None, "it has ended")


def test_backfills_are_listed_with_what_is_done_and_left(
    tidemill: CommandLine, drivers: SmallProject
) -> None:
    drivers.declare("readings", READINGS)
    plans = [tidemill.json("backfill", "plan", "readings", *RANGE, "--chunk", size) for size in ("6h", "12h")]
    assert [len(plan["parts"]) for plan in plans] == [4, 2]
    assert tidemill("backfill", "status", "readings") == 0
    assert "No backfill was carried out" in tidemill.out
    plane, begun = drivers.plane(), datetime(2026, 11, 23, 1, 2, 3, tzinfo=UTC)
    done = ChunkDone(
        rows={"bronze/readings": 5},
        versions={"bronze/readings": 3},
        records=None,
        seconds=60,
        run_id="r",
        at=begun,
    )
    files = [
        ProgressFile(
            plane.store, plane.layout, load_plan(plane.store, plane.layout, "readings", plan["digest"]), "r"
        )
        for plan in plans
    ]
    files[0].change(begun_at=begun, chunks=4, done={0: done, 1: done})
    files[1].change(begun_at=begun - timedelta(days=1), chunks=2, done={0: done, 1: done}, finished_at=begun)

    assert tidemill("backfill", "status") == 0
    lines = [" ".join(line.split()) for line in tidemill.out.splitlines()[-2:]]
    assert lines[0].endswith("stopped 2 of 4 bronze/readings 10 2026-11-23 01:02:03")
    assert lines[1].endswith("finished 2 of 2 bronze/readings 10 2026-11-22 01:02:03")
    told = tidemill.json("backfill", "status", "readings", "--all")
    assert [(each["plan"], each["state"], each["left"]) for each in told] == [
        (plans[0]["digest"], "stopped", None),
        (plans[1]["digest"], "finished", None),
    ]
    # The estimate uses the read rate including the search for offsets. Files have no estimate.
    plan = load_plan(plane.store, plane.layout, "readings", plans[0]["digest"])
    assert estimate(plane, plan) is None
    found = Found(start={}, end={}, seconds=20)
    files[0].change(found=found, done={0: done.model_copy(update={"records": 400})})
    positions = {"start_offsets": {"t": {"0": 0}}, "end_offsets": {"t": {"0": 100}}}
    asked = plan.model_copy(update={**positions, "parts": ()})
    assert estimate(plane, asked) == timedelta(seconds=20)
    # A damaged file hides no other plan and is recreated.
    Path(plane.layout.backfill_progress("readings", plans[1]["digest"])).write_text("{")
    assert [each["state"] for each in tidemill.json("backfill", "status", "--all")] == ["stopped", "planned"]
    assert tidemill("backfill", "status", "reading") == 2
    assert "did you mean readings?" in tidemill.err


def test_an_impossible_range_ends_with_2(tidemill: CommandLine, drivers: SmallProject) -> None:
    drivers.declare("readings", READINGS)
    assert tidemill("backfill", "plan", "readings", "--from", "tomorrow", "--to", "2026-01-02") == 2
    assert tidemill.err.startswith("TIDE-BACK-001")


def test_queries_are_listed_found_by_id_and_shown(tidemill: CommandLine, drivers: SmallProject) -> None:
    for name in ("orders", "payments"):
        drivers.declare(name)
    assert tidemill.json("queries") == []
    assert tidemill("start", "orders") == 0
    eventually(lambda: tidemill.json("queries")[0]["query"], "the driver tells of its query")
    (listed,) = tidemill.json("queries")
    assert (listed["pipeline"], listed["state"], listed["active"]) == ("orders", "running", True)
    assert "explain" not in listed["query"]
    assert [query["state"] for query in tidemill.json("queries", "--all")] == ["running", "never ran"]
    whole = tidemill.json("queries", "show", listed["query"]["id"][:8])
    assert (whole["pipeline"], whole["query"]["explain"]) == ("orders", "== Physical Plan ==")

    assert tidemill("queries") == 0
    line = " ".join(tidemill.out.splitlines()[-1].split())
    short = [listed["query"][key][:8] for key in ("id", "query_run_id")]
    told = "running 0 no 1.5 6.0 source bronze/orders (3) Waiting for data to arrive"
    assert line == f"orders {' '.join(short)} {told}"
    assert tidemill("queries", "show", "orders") == 0
    lines = [" ".join(line.split()) for line in tidemill.out.splitlines()]
    assert f"id {listed['query']['id']}" in lines
    assert "bronze/orders 0 yes 3 3" in lines
    assert "0 2026-11-23 01:02:03 3 1.5 6.0 500 7" in lines
    assert lines[-1] == "== Physical Plan =="


@pytest.mark.parametrize(
    ("name", "error", "fix"),
    [("order", "TIDE-SPEC-011", "did you mean orders?"), ("0f0f0f0f-12", "TIDE-CTRL-033", "--json")],
)
def test_a_query_that_nobody_knows_is_named_with_a_near_one(
    tidemill: CommandLine, drivers: SmallProject, name: str, error: str, fix: str
) -> None:
    drivers.declare("orders")
    for verb in ("show", "wait"):
        assert tidemill("queries", verb, name) == 2
        assert tidemill.err.startswith(error)
        assert fix in tidemill.err


def test_a_damaged_report_hides_no_other_query(tidemill: CommandLine, drivers: SmallProject) -> None:
    for name in ("orders", "payments"):
        drivers.declare(name)
        assert tidemill("start", name) == 0
    layout, store = drivers.environment.layout, drivers.plane().store
    eventually(lambda: len([q for q in tidemill.json("queries") if q["query"]]) == 2, "both tell")
    store.write(layout.query_report("orders"), b"{")
    store.write_json(layout.query_report("payments"), {"v": 1})
    assert [(q["pipeline"], q["query"]) for q in tidemill.json("queries")] == [
        ("orders", None),
        ("payments", None),
    ]


def test_a_killed_query_does_not_run_whatever_it_said(tidemill: CommandLine, drivers: SmallProject) -> None:
    drivers.declare("orders")
    assert tidemill("start", "orders") == 0
    eventually(lambda: tidemill.json("queries")[0]["query"], "the driver tells of its query")
    running = drivers.plane().running("orders")
    assert running is not None
    assert drivers.plane().runtime.kill(running)
    assert tidemill("queries") == 0
    assert tidemill.out.startswith("No query runs here.")
    (query,) = tidemill.json("queries", "--all")
    assert (query["state"], query["active"], query["driver"]) == ("running, but not here", False, None)


def test_waiting_for_a_query_tells_how_it_ended(tidemill: CommandLine, drivers: SmallProject) -> None:
    drivers.declare("orders")
    assert tidemill("queries", "wait", "orders") == 1
    assert tidemill.out == "orders: it never ran here\n"
    assert tidemill("start", "orders") == 0
    assert tidemill("queries", "wait", "orders", "--timeout", "1ms") == 1
    assert tidemill.out == "orders: still runs after 1ms\n"
    assert tidemill("queries", "wait", "orders", "--timeout", "soon") == 2
    running = drivers.plane().running("orders")
    assert running is not None
    assert drivers.plane().runtime.drain(running)
    assert tidemill("queries", "wait", "orders", "--timeout", "1m") == 0
    assert tidemill.out == f"orders: ended well (run {running.run_id})\n"
    assert tidemill("queries", "wait", "orders") == 0
    drivers.behave("orders", "exit 65")
    assert tidemill("start", "orders") == 1
    assert tidemill("queries", "wait", "orders") == 1
    assert tidemill.out.startswith("orders: exit 65, TIDE-TEST-001")


def test_all_streams_are_stopped_at_once_and_stay_stopped(
    tidemill: CommandLine, drivers: SmallProject
) -> None:
    for name in ("orders", "payments"):
        drivers.declare(name)
        assert tidemill("start", name) == 0
    drivers.declare("refunds")
    drivers.declare("daily", INCREMENTAL)
    (drivers.folder / "conf/pipelines/payments.yaml").write_text("sinks: {")
    assert tidemill("stop", "--all", "--reason", "the house burns") == 0, tidemill.out
    assert [line.partition(":")[0] for line in tidemill.out.splitlines()] == ["orders", "payments", "refunds"]
    plane = drivers.plane()
    assert plane.held_pipelines() == []
    wishes = {
        name: read_desired(plane.store, plane.layout, name)
        for name in ("orders", "payments", "refunds", "daily")
    }
    assert {name: wish and (wish.state, wish.reason) for name, wish in wishes.items()} == {
        **dict.fromkeys(("orders", "payments", "refunds"), ("stopped", "the house burns")),
        "daily": None,
    }


@pytest.mark.parametrize("words", [(), ("orders", "--all")])
def test_stop_needs_one_stream_or_all(
    tidemill: CommandLine, drivers: SmallProject, words: tuple[str, ...]
) -> None:
    drivers.declare("orders")
    assert tidemill("stop", *words) == 2
    assert read_desired(drivers.plane().store, drivers.plane().layout, "orders") is None
