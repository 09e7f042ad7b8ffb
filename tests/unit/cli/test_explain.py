"""`tidemill explain` writes sentences from the files, the driver's status and the measured values."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import get_args

import pytest

from tests.support.clinic import Clinic
from tests.support.command_line import CommandLine
from tests.support.conf_project import ConfProject
from tests.support.grown_state import write_grown_state
from tests.support.small_project import STREAM, SmallProject, small_project
from tests.support.stream_requests import request
from tidemill.checkpoint.desired import Desired, write_desired
from tidemill.checkpoint.status import Status, read_status, write_status
from tidemill.control.ask.stream_request import carry_out
from tidemill.control.decide.facts import Facts
from tidemill.control.decide.reconcile import Action, Decision
from tidemill.control.explanation import Explanation, explain_pipeline, what_comes_next
from tidemill.control.stream_status import PipelineState, pipeline_states
from tidemill.spec.project import resolve_pipeline

WINDOWS = """
description: Orders of ten minutes, with the shop that took them.
owner: tests
sources:
  orders:
    kafka: {topic: orders, max_offsets_per_batch: 5000}
    payload: {json: {schema: orders.json, on_invalid: quarantine}}
    event_time: {column: at, watermark: 10 minutes}
  shops: {delta: {table: silver/shops}, as: table}
  codes: {files: {path: landing/codes, format: csv, schema: "code string"}, as: table}
transform: shops.sql
sinks:
  - delta: {table: gold/windows}
  - kafka: {topic: alerts, where: orders > 100}
run: {trigger: 20 seconds}
"""

SCHEMA = """
{"type": "object",
 "properties": {"shop": {"type": "integer"}, "at": {"type": "string", "format": "date-time"}}}
"""


@pytest.fixture
def explained(tmp_path: Path) -> Iterator[SmallProject]:
    with small_project(tmp_path / "project") as project:
        yield project


def explain(project: SmallProject, name: str = "orders") -> Explanation:
    plane = project.plane()
    (state,) = pipeline_states(plane, {name: plane.look_at(name)})
    return explain_pipeline(resolve_pipeline(plane.environment, name), state, None)


def test_what_it_reads_makes_and_writes_is_told(tidemill: CommandLine, project: ConfProject) -> None:
    project.write("conf/pipelines/windows.yaml", WINDOWS)
    project.write("conf/schemas/orders.json", SCHEMA)
    project.write("spark_apps/transforms/shops.sql", "SELECT * FROM orders JOIN shops USING (shop)")
    told = tidemill.json("explain", "windows")
    assert told["does"] == [
        "Orders of ten minutes, with the shop that took them.",
        "Reads the topic orders, as json.",
        "A batch has at most 5,000 of its records.",
        "Its rows may come 10 minutes later than newer ones (event time `at`).",
        "Joins each batch with the newest version of the table silver/shops, as `shops`.",
        "Joins each batch with the csv files of landing/codes, as `codes`.",
        "Makes its rows by the transform shops.sql.",
        "Writes to the table gold/windows by append.",
        "Writes to topic alerts.",
        "Sets aside, in a quarantine table, what does not fit.",
        "Runs all the time, with a batch every 20 seconds.",
    ]
    assert told["stands"] == ["Asked of it: running.", "It has never run here."]
    assert (told["time"], told["advice"]) == ([], [])
    assert told["waits_for"] == ["Reconciliation starts it next: desired, and not running."]


def test_why_it_is_slow_is_told_with_the_line_of_conf_to_change(
    tidemill: CommandLine, project: ConfProject
) -> None:
    clinic = Clinic(project)
    clinic.healthy(more="run: {trigger: 10 seconds}\n")
    clinic.measured(milliseconds=30_000, sinks={"bronze/orders": 200, "kafka:alerts": 27_000})
    assert tidemill("explain", "orders") == 0
    assert "  A typical batch takes 30 seconds for 500 rows.\n" in tidemill.out
    assert "reading, transform and writing take 30 seconds, planning and logs 50 milliseconds" in tidemill.out
    assert "kafka:alerts takes most: 27 seconds, 90%" in tidemill.out
    assert "That is 300% of its trigger." in tidemill.out
    assert "warning TIDE-TUNE-001 orders: " in tidemill.out
    assert "`run.trigger`, to 45 seconds" in tidemill.out


def test_state_that_only_grows_is_told_with_the_line_that_bounds_it(
    tidemill: CommandLine, project: ConfProject
) -> None:
    clinic = Clinic(project)
    write_grown_state(clinic.healthy())
    (advice,) = tidemill.json("explain", "orders")["advice"]
    assert (advice["id"], advice["facts"]["operators"]) == ("TIDE-CKPT-055", "dedupe")
    assert tidemill("explain", "orders") == 0
    assert "there is no watermark, so it keeps every key for ever" in tidemill.out
    assert "declare `event_time: {column: …, watermark: …}`" in tidemill.out
    (state,) = tidemill.json("status", "orders")
    assert [told["id"] for told in state["advice"]] == ["TIDE-CKPT-055"]


def test_too_few_batches_tell_nothing(tidemill: CommandLine, project: ConfProject) -> None:
    Clinic(project).healthy()
    assert tidemill.json("explain", "orders")["time"] == [
        "Too few batches had records: 0 of the 3 that tell a typical one."
    ]


def test_a_running_driver_is_told_with_what_it_waits_for(explained: SmallProject) -> None:
    explained.declare("orders", STREAM + "run: {trigger: 10 seconds}\n")
    plane = explained.plane()
    assert carry_out(plane, request("start"), 30, lambda _: None).state == "done"
    told = explain(explained)
    running = plane.running("orders")
    assert running is not None
    assert told.stands[1].startswith(f"The driver {running.run_id} runs ({running.process}), since ")
    status = read_status(plane.store, plane.layout, "orders")
    assert status is not None
    said = {"run_id": running.run_id, "lag": 12_000, "source_retention_seconds": 3600.0}
    for state, waits in (
        ("running", "It waits for nothing but its trigger, every 10 seconds."),
        ("waiting", "It waits for new records."),
    ):
        seen = status.model_copy(update={**said, "state": state, "caught_up_at": status.updated_at})
        write_status(plane.store, plane.layout.status("orders"), seen)
        told = explain(explained)
        assert "12,000 records wait at its source." in told.stands
        assert "What it has not read stays at its source for 60 min at least." in told.stands
        assert told.waits_for == (waits,)
    write_status(
        plane.store,
        plane.layout.status("orders"),
        status.model_copy(update={**said, "caught_up_at": None, "progressed_at": status.updated_at}),
    )
    never = "It has never read all: what it has not read may be gone in 60 min, or before."
    assert never in explain(explained).stands


@pytest.mark.parametrize(
    ("plant_a", "plant_b", "expected"),
    [
        (
            117,
            116,
            [
                "The watermark of plant_a is 2026-03-01 01:57:00 UTC.",
                "The watermark of plant_b is 2026-03-01 01:56:00 UTC.",
                "plant_b holds windows back: those that end by 2026-03-01 01:56:00 UTC are closed.",
            ],
        ),
        (
            117,
            None,
            [
                "The watermark of plant_a is 2026-03-01 01:57:00 UTC.",
                "No window closes yet: plant_b has had no row with an event time.",
            ],
        ),
        (None, None, ["No window closes yet: plant_a and plant_b have had no row with an event time."]),
        (
            116,
            116,
            [
                "The watermark of plant_a is 2026-03-01 01:56:00 UTC.",
                "The watermark of plant_b is 2026-03-01 01:56:00 UTC.",
            ],
        ),
    ],
)
def test_the_stream_that_holds_windows_back_is_named(
    tidemill: CommandLine,
    project: ConfProject,
    plant_a: int | None,
    plant_b: int | None,
    expected: list[str],
) -> None:
    clinic = Clinic(project)
    clinic.healthy()
    start = datetime(2026, 3, 1, tzinfo=UTC)
    status = Status(
        pipeline="orders",
        mode="incremental",
        state="stopped",
        run_id="run-1",
        started_at=start,
        updated_at=start,
        watermarks={
            name: None if minutes is None else start + timedelta(minutes=minutes)
            for name, minutes in (("plant_a", plant_a), ("plant_b", plant_b))
        },
    )
    write_status(clinic.store, project.load().layout.status("orders"), status)
    stands = tidemill.json("explain", "orders")["stands"]
    assert [said for said in stands if "watermark" in said or "window" in said] == expected


def test_a_stopped_stream_is_told_with_who_stopped_it(explained: SmallProject) -> None:
    explained.declare("orders")
    plane = explained.plane()
    carry_out(plane, request("start"), 30, lambda _: None)
    carry_out(plane, request("stop"), 30, lambda _: None)
    told = explain(explained)
    assert told.stands[0] == f"Asked of it: stopped ({request('stop').by})."
    assert told.stands[1].startswith("No driver runs. The last one, ")
    assert told.waits_for[0].startswith("Nothing is to be done: ")


def test_a_stream_that_was_given_up_is_told_with_the_page(explained: SmallProject) -> None:
    explained.declare("orders")
    explained.behave("orders", "exit 66")
    plane = explained.plane()
    carry_out(plane, request("start"), 30, lambda _: None)
    told = explain(explained)
    assert told.waits_for[-1].startswith("It waits for a person: ")
    assert told.waits_for[-1].endswith(" Page: stream-does-not-start.")
    assert not [
        sentence for sentence in (*told.stands, *told.waits_for) if "\n" in sentence or ".." in sentence
    ]


def test_a_wrong_file_is_reported_as_everywhere(tidemill: CommandLine, project: ConfProject) -> None:
    project.write("conf/pipelines/broken.yaml", "descripton: a typo")
    assert tidemill("explain", "broken") == 2
    assert "TIDE-SPEC-003" in tidemill.err


def test_what_people_wrote_does_nothing_to_a_terminal(tidemill: CommandLine, project: ConfProject) -> None:
    clinic = Clinic(project)
    clinic.healthy()
    wish = Desired(state="stopped", by="ann\x1b[2J", asked_at=datetime.now(UTC), reason="")
    write_desired(clinic.store, project.load().layout, "orders", wish)
    assert tidemill("explain", "orders") == 0
    assert "ann\N{REPLACEMENT CHARACTER}[2J" in tidemill.out
    assert "\x1b" not in tidemill.out


@pytest.mark.parametrize("action", get_args(Action))
def test_every_decision_has_words(action: Action) -> None:
    facts = Facts("orders", datetime.now(UTC))
    state = PipelineState(facts, Decision(action, "because of the test", runbook="rollback"), None)
    (line,) = what_comes_next(state)
    assert line.endswith("because of the test. Page: rollback.")
