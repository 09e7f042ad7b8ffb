"""The past of a warm start: enough of it for every window that no table has, or a refusal."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.support.capture_files import CaptureFolder, Event
from tests.support.checkpoints import write_planned
from tests.support.declared import declared
from tests.support.paper_batches import PaperBatches
from tests.support.paper_broker import PaperBroker
from tidemill.backfill.row_origin import EventWindow, RowOrigin, keep_origin
from tidemill.backfill.warm_plan import first_open, plan_warm_start
from tidemill.checkpoint.gate import check, gather_facts
from tidemill.checkpoint.procedure.carry_out import Request, carry_out, procedure_of
from tidemill.checkpoint.reading.reader import CheckpointReader
from tidemill.checkpoint.verbs.generation_copy import copy_checkpoint
from tidemill.checkpoint.verbs.reset import Wanted, plan_reset, reset_steps
from tidemill.checkpoint.verbs.whole_copy import make_whole_copy
from tidemill.checkpoint.warm_start import WARM_START, WarmStart, read_warm_start, write_warm_start
from tidemill.control.procedures.plan_words import reset_lines
from tidemill.errors import GateRefusedError, TidemillError
from tidemill.ledger.entry import Positions
from tidemill.ledger.table_restore import restore_through_delta_rs
from tidemill.sources.topic_facts import with_topics, with_topics_if_told
from tidemill.spec.project import Pipeline

START = datetime(2026, 3, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
HOURS = EventWindow(kind="tumbling", length=HOUR, slide=HOUR, start_columns=("from",))


def at(hours: float) -> datetime:
    return START + timedelta(hours=hours)


@pytest.mark.parametrize(
    ("window", "closed", "first"),
    [
        (HOURS, at(5), at(5)),
        (HOURS, at(5.5), at(5)),
        (HOURS.model_copy(update={"length": 3 * HOUR}), at(5), at(3)),
        (HOURS.model_copy(update={"length": 3 * HOUR}), at(5.5), at(3)),
        (HOURS.model_copy(update={"offset": HOUR / 4}), at(5.25), at(5.25)),
    ],
    ids=["at an end", "within one", "overlapping", "within overlapping ones", "shifted"],
)
def test_the_first_open_window_ends_after_what_is_closed(
    window: EventWindow, closed: datetime, first: datetime
) -> None:
    assert first_open(window, closed) == first
    assert first + window.length > closed >= first - window.slide + window.length


class Hub:
    """Batches read 20 events of a hub, one an hour, and closed windows up to hour 12; it keeps the newest."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch, **keys: Any) -> None:
        patch.setenv("TIDEMILL_SECRET_HUB_CONNECTION", "Endpoint=sb://x/;SharedAccessKey=y")
        (folder / "conf/pipelines").mkdir(parents=True)
        (folder / "conf/pipelines/orders.yaml").touch()
        code = folder / "spark_apps/transforms/counts.py"
        code.parent.mkdir(parents=True)
        code.write_text("def transform(orders): ...")
        source = {"namespace": "plant", "hub": "orders", "auth": {"connection_string": "hub-connection"}}
        self.pipeline: Pipeline = declared(
            folder,
            environment={"root": str(folder / "data")},
            **{
                "source": {"eventhubs": {**source, "capture": {"path": "captured"}}},
                "transform": "counts:transform",
                **keys,
            },
        )
        self.batches = PaperBatches(self.pipeline)
        self.archive = CaptureFolder(folder / "data/captured", "plant", "orders")
        self.broker = PaperBroker({"orders": {0: (15, 24)}}).stand_in(patch)
        self.batches.run()
        self.closes = self.batches.plan()
        write_planned(
            self.batches.checkpoint, self.closes, at_offset(20), watermark_ms=int(at(12).timestamp() * 1000)
        )

    def finish(self) -> Hub:
        self.batches.write(self.closes, "bronze/orders")
        self.batches.finish(self.closes)
        return self

    def captured(self, first: int, end: int) -> Path:
        return self.archive.write(0, at(first), [Event(n, at(n)) for n in range(first, end)])

    def plan(self, start: str = "earliest", origin: RowOrigin | None = None) -> WarmStart:
        keep_origin(self.batches.store, self.pipeline, origin or RowOrigin(window=HOURS, stateful=True))
        return plan_warm_start(self.batches.store, self.pipeline, start, lambda: None)

    def refusal(self, start: str = "earliest", origin: RowOrigin | None = None) -> TidemillError:
        with pytest.raises(TidemillError) as refused:
            self.plan(start, origin)
        return refused.value


def at_offset(number: int) -> Positions:
    return {"orders": {"0": number}}


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hub:
    return Hub(tmp_path, monkeypatch).finish()


def test_the_past_ends_where_the_tables_stand_and_is_joined_where_the_archive_ends(hub: Hub) -> None:
    hub.captured(0, 10)
    hub.captured(8, 17)
    found = hub.plan()
    assert (found.start, found.join, found.end) == (at_offset(0), at_offset(17), at_offset(20))
    assert (found.records, found.archived, found.written_until) == (20, 17, at(12))


def test_what_was_archived_beyond_the_tables_is_read_from_the_hub(hub: Hub) -> None:
    hub.captured(0, 23)
    assert hub.plan().join == at_offset(20)


def test_of_a_topic_all_of_the_past_is_the_brokers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hub = Hub(tmp_path, monkeypatch, source={"kafka": {"topic": "orders"}}).finish()
    assert hub.refusal().error_id == "TIDE-CKPT-102"
    hub.broker.topics["orders"][0] = (0, 24)
    found = hub.plan()
    assert (found.start, found.join, found.end, found.archived) == (
        at_offset(0),
        at_offset(0),
        at_offset(20),
        0,
    )


@pytest.mark.parametrize(
    ("files", "start", "error_id"),
    [
        ([(0, 10)], "earliest", "TIDE-HUB-004"),
        ([(5, 17)], "earliest", "TIDE-CKPT-102"),
        ([], "earliest", "TIDE-CKPT-102"),
        ([(0, 17)], at(10).isoformat(), "TIDE-CKPT-102"),
        ([(0, 17)], "latest", "TIDE-CKPT-044"),
    ],
    ids=["a gap", "the first ones are gone", "no archive", "begins too late", "no past"],
)
def test_a_past_in_which_a_window_would_lack_events_is_refused(
    hub: Hub, files: list[tuple[int, int]], start: str, error_id: str
) -> None:
    for first, end in files:
        hub.captured(first, end)
    assert hub.refusal(start).error_id == error_id


def test_a_moment_is_early_enough_a_day_before_the_first_open_window(hub: Hub) -> None:
    """Unless the pipeline says by how much events may be ahead of their arrival."""
    hub.captured(0, 17)
    latest = hub.refusal(at(10).isoformat()).facts["latest"]
    assert latest == at(12 - 24).isoformat()
    assert hub.plan(str(latest)).start == at_offset(0)


@pytest.mark.parametrize(
    "origin",
    [
        RowOrigin(record={"kafka_offset": "offset"}),
        RowOrigin(window=EventWindow(kind="session", start_columns=("from",))),
        RowOrigin(window=HOURS.model_copy(update={"start_columns": ()})),
        RowOrigin(stateful=True, reason="a join"),
    ],
    ids=["records", "sessions", "windows that rows do not name", "unknown"],
)
def test_rows_that_would_come_twice_are_refused(hub: Hub, origin: RowOrigin) -> None:
    hub.captured(0, 17)
    assert hub.refusal(origin=origin).error_id == "TIDE-CKPT-101"


def test_a_batch_that_only_some_tables_have_must_be_finished_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = Hub(tmp_path, monkeypatch)
    hub.captured(0, 17)
    hub.batches.write(hub.closes, "bronze/orders")
    refusal = hub.refusal()
    assert (refusal.error_id, refusal.facts["batch_id"]) == ("TIDE-CKPT-103", 1)


def test_a_warm_reset_begins_where_the_tables_stand_and_needs_of_the_hub_only_the_rest(
    hub: Hub,
) -> None:
    hub.captured(0, 17)
    store, layout, warm = hub.batches.store, hub.pipeline.layout, hub.plan()
    plan = plan_reset(store, hub.pipeline, Wanted({"source": warm.end}, warm=warm), with_topics_if_told)
    assert (plan["never_read"], plan["read_again"], plan["unanswered"]) == (0, 0, "")
    assert any("from 20 records" in line and "17 of them" in line for line in reset_lines(plan))
    request = Request("reset", "orders", "warm", "ann", "because")
    steps = reset_steps(store, hub.pipeline, request, plan, restore_through_delta_rs)
    carry_out(store, layout, procedure_of(request, plan, steps), lambda: None)

    assert hub.batches.generation == "g0002"
    assert read_warm_start(store, str(hub.batches.checkpoint)) == warm
    assert hub.batches.batches.initial_offset() == at_offset(0)
    check(with_topics(gather_facts(store, hub.pipeline, "g0002"), hub.pipeline))
    hub.broker.topics["orders"][0] = (18, 24)
    with pytest.raises(GateRefusedError) as refused:
        check(with_topics(gather_facts(store, hub.pipeline, "g0002"), hub.pipeline))
    assert refused.value.error_id == "TIDE-CKPT-020"


def test_a_generation_that_has_closed_no_window_does_not_tell_which_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was reset, and the tables have windows of the one before."""
    hub = Hub(tmp_path, monkeypatch)
    hub.captured(0, 17)
    write_planned(hub.batches.checkpoint, hub.closes, at_offset(20))
    refusal = hub.finish().refusal()
    assert refusal.error_id == "TIDE-CKPT-101"
    assert "no window" in str(refusal.facts["because"])


def test_a_past_of_a_topic_that_was_made_again_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new records of the topic would be taken for those that the tables have."""
    hub = Hub(tmp_path, monkeypatch, source={"kafka": {"topic": "orders"}})
    hub.batches = replace(hub.batches, topic_ids=(("orders", "id-1"),))
    hub.finish()
    hub.broker.topics["orders"][0] = (0, 24)
    store, warm = hub.batches.store, hub.plan()
    wanted = Wanted({"source": warm.end}, warm=warm)
    hub.broker.ids["orders"] = "id-1"
    assert plan_reset(store, hub.pipeline, wanted, with_topics_if_told)["unanswered"] == ""
    hub.broker.ids["orders"] = "id-2"
    with pytest.raises(GateRefusedError) as refused:
        plan_reset(store, hub.pipeline, wanted, with_topics_if_told)
    assert refused.value.facts["cause"] == "TIDE-CKPT-021"


def test_a_past_with_a_partition_that_is_gone_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = Hub(tmp_path, monkeypatch, source={"kafka": {"topic": "orders"}}).finish()
    hub.broker.topics["orders"] = {1: (0, 24)}
    assert hub.refusal().facts["gone"] == "orders-0"


def test_every_copy_of_the_checkpoint_knows_which_windows_the_tables_have(hub: Hub) -> None:
    hub.captured(0, 17)
    store, live = hub.batches.store, str(hub.batches.checkpoint)
    warm = hub.plan()
    write_warm_start(store, live, warm)
    copy = f"{live}-copy"
    copy_checkpoint(CheckpointReader(store, live), 1, (copy, "another"))
    assert read_warm_start(store, copy) == warm
    assert WARM_START in make_whole_copy(store, live, f"{live}-backup").files
