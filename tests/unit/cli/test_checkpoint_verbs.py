"""The operations of `tidemill checkpoint` as one types them: plan first, then --apply, and all on record."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.command_line import CommandLine
from tests.support.commits import commit_of
from tests.support.conf_project import ENVIRONMENT, PIPELINE, ConfProject
from tests.support.fake_driver import ROOT
from tests.support.forked_python import run_forked
from tests.support.pipelines_on_disk import PipelineOnDisk
from tests.support.small_project import small_project
from tests.support.stores import StorePlace
from tidemill.checkpoint.current import read_current
from tidemill.checkpoint.holds import read_holds
from tidemill.checkpoint.root_owner import RootOwner, write_owner
from tidemill.names import QUARANTINE_OUTPUT
from tidemill.payload.quarantine import QUARANTINE_SCHEMA
from tidemill.sinks.batch_commit import BatchCommit
from tidemill.sinks.table_log import TableLog

WITHOUT_PAYLOAD = PIPELINE.replace("payload:\n  json: {schema: order.json}\n", "").replace(
    "event_time: {column: at, watermark: 10 minutes}\n", ""
)


@pytest.fixture
def orders(project: ConfProject) -> PipelineOnDisk:
    """Return the project's pipeline after three batches."""
    project.write("conf/pipelines/orders.yaml", WITHOUT_PAYLOAD)
    place = StorePlace("local", project.folder, {"root": ".data"})
    return PipelineOnDisk(place).ran(3)


def state_of(orders: PipelineOnDisk) -> set[str]:
    return set(orders.files)


VERBS = [
    ("backup",),
    ("reset", "--from", '{"orders": {"0": 12}}'),
    ("prune", "--generations", "0"),
    ("repair",),
]


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb[0])
def test_without_apply_nothing_is_written(
    tidemill: CommandLine, orders: PipelineOnDisk, verb: tuple[str]
) -> None:
    before = state_of(orders)
    assert tidemill("checkpoint", verb[0], "orders", *verb[1:]) == 0, tidemill.err
    assert "Nothing was done" in tidemill.out
    assert tidemill.json("checkpoint", verb[0], "orders", *verb[1:])["applied"] is False
    assert state_of(orders) == before


@pytest.mark.parametrize("verb", VERBS[:2], ids=lambda verb: verb[0])
def test_on_another_control_planes_root_a_verb_only_plans(
    tidemill: CommandLine, orders: PipelineOnDisk, verb: tuple[str]
) -> None:
    owner = RootOwner(id="other", runtime="kubernetes", place="namespace plant", host="scheduler-0")
    write_owner(orders.store, orders.resolved.layout, owner)
    before = state_of(orders)
    assert tidemill("checkpoint", verb[0], "orders", *verb[1:]) == 0, tidemill.err
    acts = (*verb[1:], "--apply", "--reason", "a test")
    assert tidemill("checkpoint", verb[0], "orders", *acts) == 1, tidemill.out
    assert tidemill.err.startswith("TIDE-CTRL-010")
    assert state_of(orders) == before


def test_a_backup_is_taken_listed_and_restored(tidemill: CommandLine, orders: PipelineOnDisk) -> None:
    taken = tidemill.json("checkpoint", "backup", "orders", "--apply", "--reason", "before the deploy")
    assert (taken["batch_id"], taken["why"]) == (2, "before the deploy")
    assert taken["tables"] == {"bronze/orders": {"id": orders.table_id, "version": 3}}
    orders.ran_on(3, 5)
    [listed] = tidemill.json("checkpoint", "restore", "orders")
    assert listed["backup"] == taken["backup"]
    plan = tidemill.json("checkpoint", "restore", "orders", taken["backup"])
    assert plan["plan"]["tables"]["bronze/orders"]["rows"] == 20
    assert len(orders.ids) == 50
    assert (
        tidemill("checkpoint", "restore", "orders", taken["backup"], "--apply", "--reason", "bad deploy") == 0
    ), tidemill.err
    assert (orders.ids, orders.live) == (list(range(30)), "g0002")


def test_a_reset_spells_out_the_overlap(tidemill: CommandLine, orders: PipelineOnDisk) -> None:
    verb = ("checkpoint", "reset", "orders", "--from", '{"orders": {"0": 12}}')
    assert tidemill(*verb) == 0, tidemill.err
    assert "bronze/orders  orders-0  30 -> 12  overlap: 18 records are read again" in tidemill.out
    assert tidemill(*verb, "--apply", "--reason", "test", "--by", "ann") == 0, tidemill.err
    live = read_current(orders.store, orders.resolved.layout, "orders")
    assert live is not None
    assert (live.generation, live.by, live.why) == ("g0002", "ann", "reset: test")


def test_a_reset_leaves_out_what_was_not_read_yet_only_if_somebody_says_so(
    tidemill: CommandLine, orders: PipelineOnDisk
) -> None:
    verb = ("checkpoint", "reset", "orders", "--from", '{"orders": {"0": 42}}')
    assert tidemill(*verb) == 0, tidemill.err
    assert "12 records are never read" in tidemill.out
    assert "refused as it is: TIDE-CKPT-104" in tidemill.out
    assert "To carry it out" not in tidemill.out
    before = state_of(orders)
    assert tidemill(*verb, "--apply", "--reason", "test") == 2
    assert tidemill.err.startswith("TIDE-CKPT-104")
    assert "orders-0 30 -> 42" in tidemill.err
    assert (state_of(orders), orders.live) == (before, "g0001")
    assert read_holds(orders.store, orders.resolved.layout, "orders") == []
    assert tidemill(*verb, "--skip-unread", "--apply", "--reason", "the owner agrees") == 0, tidemill.err
    assert orders.live == "g0002"


def test_an_old_quarantine_says_nothing_of_how_far_was_read(
    tidemill: CommandLine, orders: PipelineOnDisk
) -> None:
    log = TableLog(orders.resolved.layout.quarantine("orders"))
    log.create(QUARANTINE_SCHEMA)
    entry = commit_of(0).entry.model_copy(update={"output": QUARANTINE_OUTPUT})
    log.commit([], BatchCommit.of(entry, QUARANTINE_OUTPUT), QUARANTINE_SCHEMA)
    stands = ("checkpoint", "reset", "orders", "--from", '{"orders": {"0": 30}}')
    assert tidemill(*stands, "--apply", "--reason", "anew") == 0, tidemill.err


@pytest.mark.parametrize(
    "start",
    ["yesterday", "{", '{"orders": {"0": -5}}', '{"orders": 3}', "[]", "../../x", "{{ 7*7 }}", "a" * 10_000],
)
def test_a_beginning_that_cannot_be_read_is_refused(
    tidemill: CommandLine, orders: PipelineOnDisk, start: str
) -> None:
    assert tidemill("checkpoint", "reset", "orders", "--from", start) == 2
    assert tidemill.err.startswith("TIDE-CKPT-044")
    assert len(tidemill.err) < 1000


def test_a_broker_that_is_away_is_said_to_be(tidemill: CommandLine, orders: PipelineOnDisk) -> None:
    assert tidemill("checkpoint", "reset", "orders", "--from", "latest") == 1
    assert tidemill.err.startswith("TIDE-SRC-001")


@pytest.mark.parametrize("verb", ["prune", "repair"])
def test_a_plan_without_work_leaves_no_trace(
    tidemill: CommandLine, orders: PipelineOnDisk, verb: str
) -> None:
    before = state_of(orders)
    assert tidemill("checkpoint", verb, "orders", "--apply", "--reason", "x") == 0, tidemill.err
    assert "Nothing was done." in tidemill.out
    assert state_of(orders) == before


def test_an_act_needs_a_reason(tidemill: CommandLine, orders: PipelineOnDisk) -> None:
    verb = ("checkpoint", "reset", "orders", "--from", '{"orders": {"0": 12}}', "--apply")
    assert tidemill(*verb) == 2
    assert tidemill.err.startswith("TIDE-CKPT-031")
    assert orders.live == "g0001"
    assert read_holds(orders.store, orders.resolved.layout, "orders") == []


def test_a_protected_environment_needs_somebody_elses_approval(
    tidemill: CommandLine, orders: PipelineOnDisk, project: ConfProject
) -> None:
    project.write("conf/environments/local.yaml", ENVIRONMENT + "protected: true\n")
    verb = (
        "checkpoint",
        "reset",
        "orders",
        "--from",
        '{"orders": {"0": 12}}',
        "--reason",
        "x",
        "--by",
        "ann",
    )
    assert tidemill(*verb) == 0, tidemill.err
    for approval in ((), ("--approved-by", "ann")):
        assert tidemill(*verb, "--apply", *approval) == 1
        assert tidemill.err.startswith("TIDE-CKPT-036")
        assert orders.live == "g0001"
    assert tidemill(*verb, "--apply", "--approved-by", "bob") == 0, tidemill.err
    live = read_current(orders.store, orders.resolved.layout, "orders")
    assert live is not None
    assert live.by == "ann, approved by bob"


def test_a_hold_is_taken_shown_and_released(tidemill: CommandLine, orders: PipelineOnDisk) -> None:
    assert tidemill("checkpoint", "hold", "orders", "--reason", "let me look") == 0, tidemill.err
    [hold] = tidemill.json("checkpoint", "release", "orders")
    assert (hold["id"], hold["why"]) == ("by-hand", "let me look")
    assert tidemill("checkpoint", "release", "orders", "by-hand") == 0
    assert "Nothing was done" in tidemill.out
    assert tidemill("checkpoint", "release", "orders", "by-hand", "--apply", "--reason", "looked") == 0
    assert tidemill.json("checkpoint", "release", "orders") == []


def test_a_refusal_prints_a_command_that_lacks_nothing(
    tidemill: CommandLine, orders: PipelineOnDisk, project: ConfProject
) -> None:
    project.write("conf/environments/local.yaml", ENVIRONMENT + "protected: true\n")
    assert tidemill("checkpoint", "hold", "orders", "--reason", "let me look") == 0, tidemill.err
    assert tidemill("checkpoint", "gate", "orders") == 1
    _, *words = shlex.split(tidemill.out.partition("To fix: ")[2].splitlines()[0])
    assert words[:4] == ["--project", str(project.folder), "--env", "local"]
    given = {"TEXT": "looked", "NAME": "bob"}
    assert tidemill(*(given.get(word, word) for word in words)) == 0, tidemill.err
    assert tidemill.json("checkpoint", "release", "orders") == []


@pytest.mark.parametrize("verb", VERBS[1:3], ids=lambda verb: verb[0])
def test_a_plan_prints_the_command_that_carries_it_out(
    tidemill: CommandLine, orders: PipelineOnDisk, project: ConfProject, verb: tuple[str, ...]
) -> None:
    project.write("conf/environments/local.yaml", ENVIRONMENT + "protected: true\n")
    assert tidemill("checkpoint", verb[0], "orders", *verb[1:]) == 0, tidemill.err
    _, *words = shlex.split(tidemill.out.partition("To carry it out: ")[2])
    given = {"TEXT": "it's time", "NAME": "bob"}
    assert tidemill(*(given.get(word, word) for word in words)) == 0, tidemill.err
    assert tidemill.out.endswith("Nothing was done.\n") or next_words(tidemill)[4:] == ["start", "orders"]


def next_words(tidemill: CommandLine) -> list[str]:
    """Return the words after the last `Next`, without the program."""
    return shlex.split(tidemill.out.rpartition("Next")[2].partition(": ")[2])[1:]


def test_the_verbs_without_a_plan_end_with_the_next_command_too(
    tidemill: CommandLine, orders: PipelineOnDisk
) -> None:
    assert tidemill("checkpoint", "hold", "orders", "--id", "mine", "--reason", "let me look") == 0
    (*release,) = next_words(tidemill)
    assert tidemill("checkpoint", "hold", "orders", "--id", "other", "--reason", "me, too") == 0
    assert tidemill(*(word if word != "TEXT" else "looked" for word in release)) == 0, tidemill.err
    assert next_words(tidemill)[4:] == ["checkpoint", "release", "orders"]
    assert tidemill("checkpoint", "release", "orders", "other", "--reason", "looked", "--apply") == 0
    assert next_words(tidemill)[4:] == ["start", "orders"]
    assert tidemill("checkpoint", "backup", "orders", "--apply") == 0, tidemill.err
    assert next_words(tidemill)[4:7] == ["checkpoint", "restore", "orders"]
    assert tidemill(*next_words(tidemill)) == 0, tidemill.err


# A process that ends between two steps of a reset, as if it had been killed there.
DIE_BEFORE_THE_SWITCH = """
import os, sys
from tidemill.checkpoint.verbs import go_back
from tidemill.cli.app import main
from tidemill.sources import offsets
offsets.ANSWER_TIMEOUT_SECONDS = 0.1
go_back.switch_generation = lambda *_: os._exit(9)
main(sys.argv[1:])
"""


def test_what_a_crash_left_is_completed_by_the_command_that_the_refusal_names(
    tidemill: CommandLine, orders: PipelineOnDisk
) -> None:
    start = ("--from", '{"orders": {"0": 12}}')
    first = ("checkpoint", "reset", "orders", *start, "--reason", "it's time", "--apply")
    command = [sys.executable, "-c", DIE_BEFORE_THE_SWITCH, "--project", str(tidemill.folder), *first]
    died = run_forked(command)
    assert died.returncode == 9, died.stderr
    assert tidemill("checkpoint", "prune", "orders", "--apply") == 1
    assert tidemill.err.startswith("TIDE-CKPT-033")
    named = shlex.split(tidemill.err.partition("complete it: ")[2].partition("\n")[0])
    assert named[0] == "tidemill"
    assert tidemill(*named[1:]) == 0, tidemill.err
    assert orders.live == "g0002"
    assert tidemill("checkpoint", "prune", "orders", "--apply") == 0, tidemill.err


@pytest.mark.parametrize(
    "hostile", ["../../x", "a\nb", "a" * 10_000, "$(id)", "{{ 7*7 }}", '"; rm -rf /"', "‥/x", ".."]
)
@pytest.mark.parametrize(
    "verb",
    [
        ("restore", "orders", "HOSTILE"),
        ("release", "orders", "HOSTILE", "--apply", "--reason", "x"),
        ("hold", "orders", "--reason", "x", "--id", "HOSTILE"),
        ("prune", "orders", "--apply", "--request-id", "HOSTILE"),
        ("backup", "orders", "--apply", "--by", "HOSTILE\n"),
        ("restore", "HOSTILE"),
    ],
    ids=["backup", "hold", "new hold", "request", "person", "pipeline"],
)
def test_hostile_words_are_refused_and_touch_nothing(
    tidemill: CommandLine, orders: PipelineOnDisk, verb: tuple[str, ...], hostile: str
) -> None:
    before = state_of(orders)
    words = [word.replace("HOSTILE", hostile) for word in verb]
    if words[0] == "backup":
        words[-1] = hostile + "\n" + hostile
    assert tidemill("checkpoint", *words) == 2
    assert tidemill.err.startswith("TIDE-")
    assert len(tidemill.err) < 1000
    assert state_of(orders) == before


@pytest.fixture
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PipelineOnDisk]:
    monkeypatch.setenv("TIDEMILL_DRIVER_COMMAND", "tests.support.fake_driver:fake_driver_command")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(ROOT / "spark_apps")]))
    with small_project(tmp_path / "drivers") as made:
        made.declare("orders", WITHOUT_PAYLOAD)
        yield PipelineOnDisk(StorePlace("local", made.folder, {"root": ".data"})).ran(3)


def test_a_verb_that_changes_the_checkpoint_waits_until_the_driver_is_stopped(
    running: PipelineOnDisk, capsys: pytest.CaptureFixture[str]
) -> None:
    tidemill = CommandLine(running.place.folder, capsys.readouterr)
    assert tidemill("start", "orders") == 0, tidemill.out
    verb = ("checkpoint", "reset", "orders", "--from", '{"orders": {"0": 12}}', "--reason", "x", "--apply")
    assert tidemill(*verb) == 1
    assert tidemill.err.startswith("TIDE-CKPT-035")
    assert running.live == "g0001"
    # Backup and prune work while the driver runs.
    assert tidemill("checkpoint", "backup", "orders", "--apply") == 0, tidemill.err
    assert tidemill("checkpoint", "prune", "orders", "--apply") == 0, tidemill.err
    assert tidemill("stop", "orders") == 0
    assert tidemill(*verb) == 0, tidemill.err
