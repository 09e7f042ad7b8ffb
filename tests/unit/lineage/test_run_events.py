"""Events of runs, made of ledger entries and receipts."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.support.commits import commit_of
from tests.support.declared import declared
from tests.support.openlineage_rules import SCHEMAS, check_event
from tidemill.checkpoint.receipts import Receipt
from tidemill.ledger.entry import FilesRead, LedgerEntry, OffsetRange, UsedModel
from tidemill.ledger.shape import shape_of
from tidemill.lineage.run_events import RunStart, batch_event, end_event, start_event
from tidemill.lineage.written import BatchWrites, TableWrite
from tidemill.spec.project import Pipeline

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
ENVIRONMENT = {"catalog": "lake", "lineage": {"url": "http://localhost:1", "namespace": "plant-north"}}
COLUMNS: tuple[dict[str, Any], ...] = (
    {"name": "id", "type": "long", "nullable": True, "metadata": {"comment": "of the order"}},
    {
        "name": "lines",
        "type": {
            "type": "array",
            "elementType": {"type": "struct", "fields": [{"name": "n", "type": "decimal(9,2)"}]},
            "containsNull": True,
        },
        "metadata": {},
    },
    {
        "name": "place",
        "type": {
            "type": "struct",
            "fields": [
                {"name": "tags", "type": {"type": "map", "keyType": "string", "valueType": "date"}},
            ],
        },
    },
)


@pytest.fixture
def orders(tmp_path: Path) -> Pipeline:
    return declared(tmp_path, environment=ENVIRONMENT)


def batch(entry: LedgerEntry, *tables: TableWrite) -> BatchWrites:
    return BatchWrites(entry, AT, tables or (TableWrite("bronze/orders", 7, 10, COLUMNS),))


def entry_of(driver: str = "driver-1", **changes: Any) -> LedgerEntry:
    return commit_of(4, driver).entry.model_copy(update=changes)


def read(**keys: Any) -> dict[str, OffsetRange]:
    return {"source": OffsetRange(**keys)}


def test_a_batch_tells_offsets_version_rows_and_columns(orders: Pipeline) -> None:
    sources = read(
        start={"orders": {"0": 40}}, end={"orders": {"0": 50}}, topic_ids={"orders": "t1"}, cluster="c1"
    )
    entry = entry_of(sources=sources, quarantined_rows=2, late_rows=0, watermark=AT)
    event = check_event(batch_event(orders, batch(entry)))
    assert (event["eventType"], event["eventTime"]) == ("RUNNING", "2026-03-01T12:00:00+00:00")
    (source,), (table,) = event["inputs"], event["outputs"]
    assert (source["namespace"], source["name"]) == ("kafka://localhost:1", "orders")
    offsets = source["inputFacets"]["tidemill_offsets"]
    assert (offsets["stream"], offsets["start"], offsets["end"]) == ("source", {"0": 40}, {"0": 50})
    assert (offsets["topicId"], offsets["cluster"]) == ("t1", "c1")
    assert (table["namespace"], table["name"]) == ("file", orders.layout.table("bronze/orders"))
    assert table["facets"]["version"]["datasetVersion"] == "7"
    assert table["outputFacets"]["outputStatistics"]["rowCount"] == 10
    fields = table["facets"]["schema"]["fields"]
    assert [(field["name"], field["type"]) for field in fields] == [
        ("id", "long"),
        ("lines", "array<struct<n:decimal(9,2)>>"),
        ("place", "struct<tags:map<string,date>>"),
    ]
    assert fields[0]["description"] == "of the order"
    assert fields[2]["fields"] == [{"name": "tags", "type": "map<string,date>"}]
    told = event["run"]["facets"]["tidemill_batch"]
    assert (told["mode"], told["generation"], told["batchId"], told["epoch"]) == ("stream", "g0001", 4, 1)
    assert (told["quarantinedRows"], told["lateRows"]) == (2, 0)
    assert told["code"] == {"tidemill": "0", "digest": "d", "spec": "s", "rules": ""}


def test_job_and_table_tell_owner_description_and_names(orders: Pipeline) -> None:
    event = check_event(batch_event(orders, batch(entry_of())))
    job, (table,) = event["job"], event["outputs"]
    assert (job["namespace"], job["name"]) == ("plant-north", "orders")
    assert job["facets"]["documentation"]["description"] == "A test."
    assert job["facets"]["ownership"]["owners"] == [{"name": "tests", "type": "MAINTAINER"}]
    assert job["facets"]["jobType"]["processingType"] == "STREAMING"
    assert table["facets"]["ownership"]["owners"] == [{"name": "tests", "type": "MAINTAINER"}]
    assert table["facets"]["symlinks"]["identifiers"] == [
        {"namespace": "plant-north", "name": "lake.bronze.orders", "type": "TABLE"}
    ]


def test_a_batch_has_one_event_whoever_makes_it_and_runs_have_ids_of_their_own(
    orders: Pipeline, tmp_path: Path
) -> None:
    first = batch_event(orders, batch(entry_of()))
    again = declared(tmp_path, environment=ENVIRONMENT)
    assert batch_event(again, batch(entry_of())) == first
    start = start_event(orders, RunStart("driver-1", "stream", AT))
    assert start["run"]["runId"] == first["run"]["runId"]
    other = declared(tmp_path, name="returns", environment=ENVIRONMENT)
    elsewhere = declared(tmp_path, environment={"root": "other"})
    events = [
        batch_event(orders, batch(entry_of(driver="driver-2"))),
        batch_event(other, batch(entry_of())),
        batch_event(elsewhere, batch(entry_of())),
    ]
    assert len({event["run"]["runId"] for event in (first, *events)}) == 4


def test_a_run_begins_with_all_that_is_declared(orders: Pipeline) -> None:
    event = check_event(start_event(orders, RunStart("driver-1", "incremental", AT)))
    assert event["eventType"] == "START"
    assert event["job"]["facets"]["jobType"]["processingType"] == "BATCH"
    assert [dataset["name"] for dataset in event["inputs"]] == ["orders"]
    assert [dataset["name"] for dataset in event["outputs"]] == [orders.layout.table("bronze/orders")]
    assert "version" not in event["outputs"][0]["facets"]


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"result": "clean"}, "COMPLETE"),
        ({"result": "forced"}, "ABORT"),
        ({"result": "clean", "stopped_early": True}, "ABORT"),
        ({"result": "failed"}, "FAIL"),
    ],
)
def test_a_run_ends_as_its_receipt_says(orders: Pipeline, keys: dict[str, Any], expected: str) -> None:
    receipt = Receipt(
        pipeline="orders", run_id="driver-1", mode="incremental", exit_code=0, stopped_at=AT, **keys
    )
    event = check_event(end_event(orders, receipt))
    assert event["eventType"] == expected
    assert "errorMessage" not in event["run"].get("facets", {})


def test_an_error_is_told_without_facts_and_without_secrets(orders: Pipeline) -> None:
    problem = "It refused password=c4n4ry at https://joe:c4n4ry@store/."
    error = {"id": "TIDE-SRC-001", "problem": problem, "facts": {"reason": "sig=c4n4ry"}}
    receipt = Receipt(
        pipeline="orders",
        run_id="driver-1",
        mode="stream",
        result="failed",
        exit_code=69,
        stopped_at=AT,
        error=error,
    )
    event = check_event(end_event(orders, receipt))
    assert event["run"]["facets"]["errorMessage"]["message"].startswith(
        "TIDE-SRC-001 It refused password=***"
    )
    assert "c4n4ry" not in str(event)


def test_tables_that_are_read_tell_their_versions(tmp_path: Path) -> None:
    offset = {"reservoirId": "t", "reservoirVersion": 5, "index": -1, "isStartingVersion": False}
    pipeline = declared(
        tmp_path,
        source=None,
        sources={
            "orders": {"delta": {"table": "bronze/raw"}},
            "names": {"delta": {"table": "gold/names"}, "as": "table"},
        },
        transform="orders:transform",
    )
    entry = entry_of(sources=read(start=None, end=offset), tables_read={"names": 3})

    def versions(end: dict[str, Any]) -> list[str | None]:
        changed = entry.model_copy(update={"sources": read(start=None, end=end)})
        event = check_event(batch_event(pipeline, batch(changed)))
        assert [dataset["name"] for dataset in event["inputs"]] == [
            pipeline.layout.table("bronze/raw"),
            pipeline.layout.table("gold/names"),
        ]
        facets = [dataset["facets"].get("version", {}) for dataset in event["inputs"]]
        return [facet.get("datasetVersion") for facet in facets]

    # Version 4 was read completely, and nothing of version 5.
    assert versions(offset) == ["4", "3"]
    assert versions({**offset, "index": 2}) == ["5", "3"]
    assert versions({**offset, "isStartingVersion": True}) == ["5", "3"]
    assert versions({**offset, "reservoirVersion": 0}) == [None, "3"]


def test_a_joined_folder_tells_the_digest_of_its_files(tmp_path: Path) -> None:
    users = {"files": {"path": "landing/users", "format": "csv", "schema": "id long"}, "as": "table"}
    sources = {"orders": {"kafka": {"topic": "orders"}}, "users": users}
    pipeline = declared(tmp_path, source=None, sources=sources, transform="orders:transform")
    # The other source is declared no more.
    files = dict.fromkeys(("users", "gone"), FilesRead(digest="sha256:ab", files=2, bytes=34))
    entry = entry_of(sources=read(start=None, end={"orders": {"0": 5}}), files_read=files)
    *_, found = check_event(batch_event(pipeline, batch(entry)))["inputs"]
    assert found["name"] == pipeline.layout.folder("landing/users")
    assert found["facets"]["version"]["datasetVersion"] == "sha256:ab"


def test_files_tell_the_offsets_of_their_log_and_several_streams_their_names(tmp_path: Path) -> None:
    files = {"path": "landing/a", "format": "json", "schema": "id long"}
    streams = {"a": {"files": files}, "b": {"kafka": {"topic": "orders"}}}
    pipeline = declared(tmp_path, source=None, sources=streams, transform="orders:transform")
    sources = {
        "a": OffsetRange(start=None, end={"logOffset": 3}),
        "b": OffsetRange(start=None, end={"orders": {"0": 5}}),
        # Declared no more.
        "c": OffsetRange(start=None, end={"orders": {"0": 5}}),
    }
    event = check_event(batch_event(pipeline, batch(entry_of(sources=sources))))
    told = {dataset["name"]: dataset["inputFacets"]["tidemill_offsets"] for dataset in event["inputs"]}
    assert {name: (facet["stream"], facet["end"]) for name, facet in told.items()} == {
        str(tmp_path / "data/landing/a"): ("a", {"logOffset": 3}),
        "orders": ("b", {"0": 5}),
    }
    assert all("start" not in facet for facet in told.values())


def test_a_batch_of_another_source_than_the_declared_one_tells_no_input(orders: Pipeline) -> None:
    sources = read(start=None, end={"logOffset": 3})
    shape = shape_of(orders.spec).model_copy(update={"source": "files"})
    event = check_event(batch_event(orders, batch(entry_of(sources=sources, shape=shape))))
    assert event["inputs"] == []
    known = batch_event(orders, batch(entry_of(shape=shape_of(orders.spec))))
    assert [dataset["name"] for dataset in known["inputs"]] == ["orders"]


def test_a_backfill_of_times_tells_what_it_reads_without_offsets(orders: Pipeline) -> None:
    changes = {"mode": "backfill", "generation": None, "batch_id": None, "sources": {}}
    (source,) = check_event(batch_event(orders, batch(entry_of(**changes))))["inputs"]
    assert (source["name"], source.get("inputFacets", {})) == ("orders", {})


def test_a_backfill_is_a_batch_without_a_number(orders: Pipeline) -> None:
    changes = {"mode": "backfill", "generation": None, "epoch": None, "batch_id": None, "plan": "p1"}
    event = check_event(
        batch_event(orders, batch(entry_of(**changes), TableWrite("quarantine/orders", 2, None)))
    )
    told = event["run"]["facets"]["tidemill_batch"]
    assert (told["mode"], told["plan"], told.get("batchId")) == ("backfill", "p1", None)
    (table,) = event["outputs"]
    assert table["name"] == orders.layout.quarantine("orders")
    assert table["facets"]["symlinks"]["identifiers"][0]["name"] == "lake.quarantine.orders"
    # Unknown values are left out.
    assert "outputStatistics" not in table.get("outputFacets", {})
    assert "schema" not in table["facets"]


def test_a_batch_names_the_models_that_were_applied(orders: Pipeline) -> None:
    used = UsedModel(uri="models:/fraud@champion", version="2", digest="sha256:22")
    entry = entry_of()
    code = entry.code.model_copy(update={"models": {"fraud": used}})
    event = check_event(batch_event(orders, batch(entry.model_copy(update={"code": code}))))
    told = event["run"]["facets"]["tidemill_batch"]["code"]["models"]
    assert told == {"fraud": {"uri": "models:/fraud@champion", "version": "2", "digest": "sha256:22"}}


def test_each_schema_of_a_facet_of_our_own_is_used(orders: Pipeline) -> None:
    text = str(batch_event(orders, batch(entry_of(), TableWrite("bronze/orders", 7, 1))))
    assert {path.stem for path in SCHEMAS.iterdir()} == {
        "TidemillBatchRunFacet",
        "TidemillOffsetsInputDatasetFacet",
    }
    assert all(f"urn:tidemill:facets:1-0-0:{path.stem}" in text for path in SCHEMAS.iterdir())
