"""A stream that is joined with tables: each batch with their newest version, a repeated one with its own."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from tests.support.lake import Lake, LakePipeline
from tests.support.lineage_service import lineage_service
from tests.support.openlineage_rules import check_event
from tests.support.writer_cases import CrashedError
from tidemill.backfill.progress import ProgressFile
from tidemill.engine.availability import check_source
from tidemill.engine.classify import classify
from tidemill.engine.drain import Drain
from tidemill.errors import SpecError, UnavailableError
from tidemill.lineage.replay import events_since
from tidemill.sinks.batch_commit import StepDone

JOIN = """
def transform(devices, readings):
    named = readings.join(devices, on="device", how="left")
    return named.select("id", "at", "name")
"""
# What is read of a table is not always a join, nor always its files: the number of rows is in Delta's log.
NUMBER = """
from pyspark.sql import functions as F

def transform(readings, devices):
    number = devices.agg(F.count("*").cast("string").alias("name"))
    return readings.select("id", "at", {name}){joined}
"""
JOINED = NUMBER.format(name='"device"', joined='.crossJoin(number).drop("device")')
SUBQUERY = NUMBER.format(name='number.scalar().alias("name")', joined="")
TABLES = ("bronze/named", "silver/named")
FILES = {
    "path": "landing/readings",
    "format": "json",
    "schema": "id long, at timestamp, device string",
    "max_files_per_batch": 1,
}
DECLARED: dict[str, Any] = {
    "sources": {
        "readings": {"files": FILES, "event_time": {"column": "at", "watermark": "1 hour"}},
        "devices": {"delta": {"table": "silver/devices"}, "as": "table"},
    },
    "transform": "named:transform",
    "sinks": [{"delta": {"table": table}} for table in TABLES],
    "run": {"mode": "incremental"},
}


def name_devices(lake: Lake, **names: str) -> None:
    """Write a new version of the table, with one row per device."""
    rows = {"device": list(names), "name": list(names.values())}
    write_deltalake(str(lake.root / "tables/silver/devices"), pa.table(rows), mode="overwrite")


def land(lake: Lake, number: int) -> None:
    at = f"2024-01-01T0{number}:00:00Z"
    rows = [{"id": 10 * number + place, "at": at, "device": device} for place, device in enumerate("ab")]
    lake.land_rows(f"landing/readings/{number}.json", rows)


@pytest.fixture
def named(lake: Lake) -> LakePipeline:
    name_devices(lake, a="mill", b="pond")
    lake.transform("named", JOIN)
    return lake.pipeline("named", **DECLARED)


def names(lake: Lake, table: str = TABLES[0]) -> dict[int, str | None]:
    rows = lake.rows(table)
    found = {row["id"]: row["name"] for row in rows}
    assert len(found) == len(rows)
    return found


def versions(lake: Lake, table: str = TABLES[0]) -> list[Any]:
    """Return version of the devices by batch."""
    return [commit.entry.tables_read for commit in reversed(lake.ledger(table)) if commit.entry]


def at_the(number: int, step: str, act: Any) -> StepDone:
    """Act when a step was done so often."""
    seen: list[str] = []

    def done(name: str) -> None:
        seen.append(name)
        if name == step and seen.count(step) == number:
            act()

    return done


def crash() -> None:
    raise CrashedError


def versions_told(lake: Lake, named: LakePipeline) -> list[dict[str, Any]]:
    """Return the version of each table read or written and the written rows of each batch, from lineage."""
    told = []
    for event in events_since(lake.store, named.resolved, datetime(2024, 1, 1, tzinfo=UTC)):
        if check_event(event)["eventType"] == "RUNNING":
            tables = [
                dataset
                for dataset in (*event["inputs"], *event["outputs"])
                if "symlinks" in dataset["facets"]
            ]
            names = [dataset["facets"]["symlinks"]["identifiers"][0]["name"] for dataset in tables]
            found = [dataset["facets"]["version"]["datasetVersion"] for dataset in tables]
            rows = [one["outputFacets"]["outputStatistics"]["rowCount"] for one in event["outputs"]]
            told.append({**dict(zip(names, found, strict=True)), "rows": rows})
    return told


def test_each_batch_is_joined_with_the_newest_rows_and_the_ledger_says_which(
    lake: Lake, named: LakePipeline
) -> None:
    land(lake, 1)
    land(lake, 2)
    with lineage_service() as service:
        lake.configure(catalog="mill", lineage={"url": service.url, "every": "0 seconds"})
        # Between the two batches of one run.
        named.run_incremental(at_the(2, "committed", lambda: name_devices(lake, a="wheel")))
    assert names(lake) == names(lake, TABLES[1]) == {10: "mill", 11: "pond", 20: "wheel", 21: None}
    assert versions(lake) == versions(lake, TABLES[1]) == [{"devices": 0}, {"devices": 1}]
    # Lineage reports the same during the run and afterwards.
    assert versions_told(lake, named) == [
        {"mill.silver.devices": "0", "mill.bronze.named": "1", "mill.silver.named": "1", "rows": [2, 2]},
        {"mill.silver.devices": "1", "mill.bronze.named": "2", "mill.silver.named": "2", "rows": [2, 2]},
    ]
    again = events_since(lake.store, named.resolved, datetime(2024, 1, 1, tzinfo=UTC))
    # The run may skip the event of a batch that the next one followed immediately.
    assert again[-2:] == service.events[-2:]
    assert [event for event in again if event in service.events] == service.events
    assert (service.types[0], service.types[-1]) == ("START", "COMPLETE")
    assert again[1]["inputs"][0]["name"] == str(lake.root / "landing/readings")


def test_a_batch_of_which_a_part_is_written_is_finished_with_the_rows_that_it_was_begun_with(
    lake: Lake, named: LakePipeline
) -> None:
    land(lake, 1)
    with lineage_service() as service:
        # It claims no epoch, so both drivers continue.
        service.answer = 503
        lake.configure(catalog="mill", lineage={"url": service.url, "every": "0 seconds"})
        with pytest.raises(CrashedError):
            named.run_incremental(at_the(1, "committed", crash))
        name_devices(lake, a="wheel", b="sluice")
        land(lake, 2)
        named.run_incremental()
        assert set(service.types) == {"START"}
    expected = {10: "mill", 11: "pond", 20: "wheel", 21: "sluice"}
    assert names(lake) == names(lake, TABLES[1]) == expected
    assert versions(lake) == versions(lake, TABLES[1]) == [{"devices": 0}, {"devices": 1}]
    # Unsent events are in the ledger: for the first batch, one event of each driver.
    assert versions_told(lake, named) == [
        {"mill.silver.devices": "0", "mill.bronze.named": "1", "rows": [2]},
        {"mill.silver.devices": "0", "mill.silver.named": "1", "rows": [2]},
        {"mill.silver.devices": "1", "mill.bronze.named": "2", "mill.silver.named": "2", "rows": [2, 2]},
    ]


@pytest.mark.parametrize(
    "code", [pytest.param(JOINED, marks=pytest.mark.soak), SUBQUERY], ids=["aggregate", "subquery"]
)
def test_the_rows_of_a_table_that_is_not_joined_by_row_are_those_of_the_beginning_too(
    lake: Lake, named: LakePipeline, code: str
) -> None:
    lake.transform("named", code)
    land(lake, 1)
    with pytest.raises(CrashedError):
        named.run_incremental(at_the(1, "committed", crash))
    name_devices(lake, a="mill", b="pond", c="weir")
    named.run_incremental()
    assert names(lake) == names(lake, TABLES[1]) == {10: "2", 11: "2"}
    assert versions(lake, TABLES[1]) == [{"devices": 0}]


def test_a_batch_of_which_nothing_is_written_takes_the_newest_rows(lake: Lake, named: LakePipeline) -> None:
    land(lake, 1)
    with pytest.raises(CrashedError):
        named.run_incremental(at_the(1, "files_written", crash))
    name_devices(lake, a="wheel", b="sluice")
    named.run_incremental()
    assert names(lake) == names(lake, TABLES[1]) == {10: "wheel", 11: "sluice"}


@pytest.mark.soak
def test_a_backfill_gives_all_tables_the_rows_of_one_version(lake: Lake, named: LakePipeline) -> None:
    land(lake, 1)
    land(lake, 2)
    name_devices(lake, a="wheel", b="sluice")
    lake.configure(catalog="mill")
    plan = named.plan("2024-01-01", "2024-01-02")
    named.apply(plan, at_the(1, f"replaced {TABLES[0]}", lambda: name_devices(lake, a="weir")))
    expected = {10: "wheel", 11: "sluice", 20: "wheel", 21: "sluice"}
    assert names(lake) == names(lake, TABLES[1]) == expected
    assert versions(lake) == versions(lake, TABLES[1]) == [{"devices": 1}]
    (told,) = versions_told(lake, named)
    assert (told["mill.silver.devices"], told["rows"]) == ("1", [4, 4])


@pytest.mark.soak
def test_a_backfill_in_chunks_joins_one_version_and_begins_anew_with_other_code(lake: Lake) -> None:
    name_devices(lake, a="mill", b="pond")
    lake.transform("named", JOIN)
    pipeline = lake.pipeline("named", **{**DECLARED, "sinks": DECLARED["sinks"][:1]})
    land(lake, 1)
    land(lake, 2)
    plan = pipeline.plan("2024-01-01T01:00:00", "2024-01-01T03:00:00", chunk="1 hour")

    def dies(step: str) -> None:
        if step == "chunk_done 0":
            raise CrashedError(step)

    with pytest.raises(CrashedError):
        pipeline.apply(plan, dies)
    name_devices(lake, a="lake", b="river")
    pipeline.apply(plan)
    assert names(lake) == {10: "mill", 11: "pond", 20: "mill", 21: "pond"}

    # Another model, say, has made the chunk that is done.
    with pytest.raises(CrashedError):
        pipeline.apply(plan, dies)
    name_devices(lake, a="bay", b="delta")
    ProgressFile(lake.store, pipeline.resolved.layout, plan, "test").change(rules="of before")
    pipeline.apply(plan)
    assert names(lake) == {10: "bay", 11: "delta", 20: "bay", 21: "delta"}


@pytest.mark.soak
def test_a_table_whose_columns_change_ends_the_query_and_a_new_one_goes_on(
    lake: Lake, named: LakePipeline
) -> None:
    land(lake, 1)
    land(lake, 2)
    path = str(lake.root / "tables/silver/devices")
    other = pa.table({"device": ["a", "b"], "name": ["wheel", "weir"], "site": [1, 2]})

    def change() -> None:
        write_deltalake(path, other.drop_columns("name"), mode="overwrite", schema_mode="overwrite")

    with pytest.raises(Exception) as failed:  # noqa: PT011  # any; the driver classifies it
        named.run_stream(Drain(), at_the(2, "committed", change))
    error = classify(failed.value)
    assert (type(error), error.error_id) == (UnavailableError, "TIDE-SRC-006")
    write_deltalake(path, other, mode="overwrite", schema_mode="overwrite")
    named.run_incremental()
    assert names(lake) == names(lake, TABLES[1]) == {10: "mill", 11: "pond", 20: "wheel", 21: "weir"}


def test_a_table_that_the_transform_has_cached_is_refused(lake: Lake, named: LakePipeline) -> None:
    """It would be joined as it was when the query began, and the ledger would not show it."""
    lake.transform("named", JOIN.replace("join(devices", "join(getattr(devices, 'cache')()"))
    land(lake, 1)
    with pytest.raises(SpecError) as refused:
        named.run_incremental()
    lake.spark.catalog.clearCache()
    assert (refused.value.error_id, refused.value.facts["tables"]) == ("TIDE-PLAN-001", ["devices"])
    assert lake.data_files(TABLES[0]) == []


def test_what_cannot_tell_of_a_batch_is_written_after_the_tables(lake: Lake, named: LakePipeline) -> None:
    """After a crash between them, the table has the batch and shows the next driver its inputs."""
    steps: list[str] = []
    land(lake, 1)
    files = {"files": {"path": "exports/named", "format": "json"}}
    lake.pipeline("named", **{**DECLARED, "sinks": [files, {"delta": {"table": TABLES[0]}}]})
    named.run_incremental(steps.append)
    assert [step for step in steps if step in ("committed", "files_named")] == ["committed", "files_named"]


def test_a_table_that_nobody_has_made_yet_is_waited_for(lake: Lake, named: LakePipeline) -> None:
    pipeline = lake.pipeline(
        "early",
        sources={
            "readings": {"rate": {}},
            "devices": {"delta": {"table": "silver/nowhere"}, "as": "table"},
        },
        transform="named:transform",
        sinks=[{"console": {}}],
    )
    with pytest.raises(UnavailableError) as waiting:
        check_source(pipeline.resolved)
    assert (waiting.value.error_id, waiting.value.facts["table"]) == ("TIDE-SRC-005", "silver/nowhere")
