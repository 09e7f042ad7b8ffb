"""A stream that is joined with a folder of files: those that are there, or those that a batch began with."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from deltalake import DeltaTable

from tests.spark.test_joined_tables import at_the, crash, land, names
from tests.support.command_line import CommandLine
from tests.support.followed_fixes import typed
from tests.support.lake import Lake, LakePipeline
from tests.support.writer_cases import CrashedError
from tidemill.engine.availability import check_source
from tidemill.engine.classify import classify
from tidemill.engine.drain import Drain
from tidemill.errors import AbsentError, DataError, GateRefusedError, TidemillError, UnavailableError
from tidemill.ledger.entry import FilesRead
from tidemill.sources.file_listing import kept_listing

JOIN = """
def transform(devices, readings):
    return readings.join(devices, on="device", how="left").select("id", "at", "name")
"""
TABLES = ("bronze/named", "silver/named")
DEVICES: dict[str, Any] = {
    "files": {
        "path": "landing/devices",
        "format": "csv",
        "schema": "device string, name string",
        "options": {"header": "true"},
    },
    "as": "table",
}
READINGS: dict[str, Any] = {
    "files": {
        "path": "landing/readings",
        "format": "json",
        "schema": "id long, at timestamp, device string",
        "max_files_per_batch": 1,
    },
    "event_time": {"column": "at", "watermark": "1 hour"},
}


CHANGES = """
from pathlib import Path

def transform(devices, readings):
    folder = Path({folder!r})
    {change}
    return readings.join(devices, on="device", how="left").select("id", "at", "name")
"""


def declared(devices: dict[str, Any] = DEVICES, tables: tuple[str, ...] = TABLES) -> dict[str, Any]:
    return {
        "sources": {"readings": READINGS, "devices": devices},
        "transform": "named:transform",
        "sinks": [{"delta": {"table": table}} for table in tables],
        "run": {"mode": "incremental"},
    }


def name_devices(lake: Lake, file: str = "1.csv", **names: str) -> Path:
    rows = "".join(f"{device},{name}\n" for device, name in names.items())
    return lake.land(f"landing/devices/{file}", f"device,name\n{rows}")


@pytest.fixture
def named(lake: Lake) -> LakePipeline:
    name_devices(lake, a="mill", b="pond")
    lake.transform("named", JOIN)
    return lake.pipeline("named", **declared())


def files_read(lake: Lake, table: str = TABLES[0]) -> list[FilesRead]:
    """Return files of the devices by batch."""
    entries = [commit.entry for commit in reversed(lake.ledger(table)) if commit.entry]
    assert all(entry.tables_read is None for entry in entries)
    return [(entry.files_read or {})["devices"] for entry in entries]


def listed(lake: Lake, named: LakePipeline, read: FilesRead) -> list[str]:
    listing = kept_listing(lake.store, named.resolved.layout, named.name, read)
    assert listing is not None
    assert (len(listing.files), sum(file.size for file in listing.files)) == (read.files, read.bytes)
    return [Path(file.path).name for file in listing.files]


def test_each_batch_is_joined_with_the_files_that_are_there_and_the_ledger_says_which(
    lake: Lake, named: LakePipeline
) -> None:
    land(lake, 1)
    land(lake, 2)
    # Between the two batches of one run.
    named.run_incremental(at_the(2, "committed", lambda: name_devices(lake, "2 [é]#.csv", c="x")))
    name_devices(lake, a="wheel")
    land(lake, 3)
    named.run_incremental()
    expected = {10: "mill", 11: "pond", 20: "mill", 21: "pond", 30: "wheel", 31: None}
    assert names(lake) == names(lake, TABLES[1]) == expected
    reads = files_read(lake)
    assert reads == files_read(lake, TABLES[1])
    assert [read.files for read in reads] == [1, 2, 2]
    assert len({read.digest for read in reads}) == 3
    assert listed(lake, named, reads[1]) == ["1.csv", "2 [é]#.csv"]


def test_a_stream_takes_a_changed_folder_up_and_makes_the_rows_of_runs_and_of_a_backfill(
    lake: Lake, named: LakePipeline
) -> None:
    land(lake, 1)
    land(lake, 2)
    drain = Drain()
    changes = at_the(2, "committed", lambda: name_devices(lake, a="wheel", b="sluice"))

    def ends(step: str) -> None:
        changes(step)
        if len(lake.data_files(TABLES[1])) == 2:
            drain.request()

    named.run_stream(drain, ends)
    assert names(lake) == names(lake, TABLES[1]) == {10: "mill", 11: "pond", 20: "wheel", 21: "sluice"}
    # One that has never run; its second table is joined with the files of the first.
    tables = ("bronze/filled", "silver/filled")
    filled = lake.pipeline("filled", **declared(tables=tables))
    plan = filled.plan("2024-01-01", "2024-01-02")
    filled.apply(plan, at_the(1, f"replaced {tables[0]}", lambda: name_devices(lake, "2.csv", c="weir")))
    expected = {10: "wheel", 11: "sluice", 20: "wheel", 21: "sluice"}
    assert names(lake, tables[0]) == names(lake, tables[1]) == expected
    assert files_read(lake, tables[0]) == files_read(lake, tables[1]) == files_read(lake)[1:]


def test_a_batch_of_which_a_part_is_written_is_finished_with_its_files_or_not_at_all(
    lake: Lake, named: LakePipeline
) -> None:
    land(lake, 1)
    with pytest.raises(CrashedError):
        named.run_incremental(at_the(1, "committed", crash))
    # A file that comes does not concern the batch; the next one is joined with it.
    name_devices(lake, "0.csv", c="weir")
    land(lake, 2)
    with pytest.raises(CrashedError):
        named.run_incremental(at_the(2, "committed", crash))
    expected = {10: "mill", 11: "pond", 20: "mill", 21: "pond"}
    assert (names(lake), list(names(lake, TABLES[1]))) == (expected, [10, 11])
    # One that is changed or gone leaves it unfinished until it is there again as it was.
    file = lake.root / "landing/devices/1.csv"
    content, time = file.read_text(), file.stat().st_mtime_ns
    for change in (lambda: name_devices(lake, a="wheel"), file.unlink):
        change()
        with pytest.raises(GateRefusedError) as refused:
            named.run_incremental()
        assert (refused.value.error_id, refused.value.facts["count"]) == ("TIDE-JOIN-004", 1)
        assert "tidemill checkpoint rewind named --to 0" in refused.value.fix
    file.write_text(content)
    os.utime(file, ns=(time, time))
    named.run_incremental()
    assert names(lake, TABLES[1]) == expected
    assert [read.files for read in files_read(lake, TABLES[1])] == [1, 2]
    assert files_read(lake) == files_read(lake, TABLES[1])


def test_a_batch_whose_files_are_lost_is_computed_again_by_the_command_of_the_fix(
    lake: Lake, named: LakePipeline
) -> None:
    tidemill = CommandLine(lake.folder, lambda: SimpleNamespace(out="", err=""))

    def lost(batch: int, name: str) -> str:
        """Return the fix after a crash between the commits of two tables and a change of the joined file."""
        land(lake, batch)
        with pytest.raises(CrashedError):
            named.run_incremental(at_the(1, "committed", crash))
        name_devices(lake, a=name, b=name)
        with pytest.raises(GateRefusedError) as refused:
            named.run_incremental()
        assert refused.value.error_id == "TIDE-JOIN-004"
        return refused.value.fix

    # No batch is before the first one: the fix restores the table that has it.
    fix = lost(1, "wheel")
    table = DeltaTable(named.resolved.layout.table(TABLES[0]))
    table.restore(table.version() - 1)
    assert tidemill(*typed(fix, "checkpoint reset", {})) == 0
    named.run_incremental()
    first = {10: "wheel", 11: "wheel"}
    assert names(lake) == names(lake, TABLES[1]) == first

    fix = lost(2, "sluice")
    assert tidemill(*typed(fix, "checkpoint rewind", {})) == 0
    named.run_incremental()
    assert names(lake) == names(lake, TABLES[1]) == {**first, 20: "sluice", 21: "sluice"}


# When the folder is listed, and before the files are read.
GROWS = '(folder / f"more{len(list(folder.iterdir()))}.csv").write_text("device,name\\n")'
REWRITTEN = '(folder / "1.csv").write_text("device,name\\na,wheel\\n")'


def test_a_folder_that_changes_at_every_start_stops_no_batch(lake: Lake, named: LakePipeline) -> None:
    land(lake, 1)
    land(lake, 2)
    folder = str(lake.root / "landing/devices")
    lake.transform("named", CHANGES.format(folder=folder, change=GROWS))
    named.run_incremental()
    assert names(lake) == {10: "mill", 11: "pond", 20: "mill", 21: "pond"}
    # Each batch once with the files of a start before, then with those that its own start has listed.
    assert [read.files for read in files_read(lake)] == [2, 3]
    # A file that is never the same as when it was listed is an error that the driver tries again later.
    land(lake, 3)
    lake.transform("named", CHANGES.format(folder=folder, change=REWRITTEN))
    changed = error_of(named)
    assert (type(changed), changed.error_id) == (UnavailableError, "TIDE-JOIN-002")
    assert len(names(lake)) == 4


def error_of(pipeline: LakePipeline) -> TidemillError:
    with pytest.raises(Exception) as failed:  # noqa: PT011  # any; the driver classifies it
        pipeline.run_incremental()
    return classify(failed.value)


def test_what_cannot_be_read_of_a_folder_is_an_error_and_no_row_is_written_without_it(
    lake: Lake, named: LakePipeline
) -> None:
    land(lake, 1)
    lake.pipeline(
        "named", **declared({**DEVICES, "files": {**DEVICES["files"], "schema": "device string, name int"}})
    )
    wrong = error_of(named)
    assert (type(wrong), wrong.error_id, wrong.facts["source"]) == (DataError, "TIDE-JOIN-003", "devices")
    assert (Path(str(wrong.facts["file"])).name, wrong.facts["line"]) == ("1.csv", "2")
    (lake.root / "landing/devices/1.csv").rename(lake.root / "landing/1.csv")
    reasons = []
    for step in ("emptied", "removed"):
        if step == "removed":
            (lake.root / "landing/devices").rmdir()
            # The driver asks before it starts Spark.
            with pytest.raises(AbsentError, match="TIDE-JOIN-001"):
                check_source(named.resolved)
        absent = error_of(named)
        assert (type(absent), absent.error_id) == (AbsentError, "TIDE-JOIN-001")
        reasons.append(absent.facts["reason"])
    assert reasons == ["it has no file with content", "it does not exist"]
    assert lake.data_files(TABLES[0]) == []


FORMATS = ("csv", "json", "parquet", "orc", "avro", "text", "one_file", "payload", "days")
ALL = """
from pyspark.sql import functions as F

def transform({parameters}):
    text = text.select(F.split("value", "=")[0].alias("device"), F.split("value", "=")[1].alias("name"))
    readings = readings.withColumn("name", F.lit(None).cast("string"))
    for side in ({sides}):
        found = side.groupBy("device").agg(F.max("name").alias("name"))
        readings = readings.join(found.withColumnRenamed("name", "new"), on="device", how="left")
        readings = readings.withColumn("name", F.concat_ws(" ", "name", "new")).drop("new")
    return readings.select("id", "at", "name")
"""


def test_every_format_of_files_is_joined_with_the_decoders_of_files_sources(lake: Lake) -> None:
    """Two streams of the same folder, one file, a payload and folders with columns, in one batch."""
    devices = lake.spark.createDataFrame([("a", "mill"), ("b", "pond")], "device string, name string")
    for written in ("parquet", "orc", "avro"):
        devices.write.format(written).save(str(lake.root / "landing" / written))
    lake.land("landing/csv/1.csv", "device,name\na,mill\nb,pond\n")
    lake.land_rows("landing/json/1.json", [row.asDict() for row in devices.collect()])
    lake.land("landing/text/1.txt", "a=mill\nb=pond\n")
    lake.land_rows("landing/days/device=a/1.json", [{"name": "mill"}])
    lake.land_rows("landing/days/device=b/1.json", [{"name": "pond"}])
    lake.schema("device.json", {"device": {"type": "string"}, "name": {"type": "string"}})
    columns = {"schema": "device string, name string"}
    files: dict[str, dict[str, Any]] = {
        written: {"path": f"landing/{written}", "format": written, **columns} for written in FORMATS[:5]
    }
    files["csv"]["options"] = {"header": "true"}
    files["text"] = {"path": "landing/text", "format": "text"}
    files["one_file"] = {**files["csv"], "path": "landing/csv/1.csv"}
    files["payload"] = {"path": "landing/json"}
    files["days"] = {"path": "landing/days", "format": "json", **columns}
    sides: dict[str, Any] = {name: {"files": found, "as": "table"} for name, found in files.items()}
    sides["payload"]["payload"] = {"json": {"schema": "device.json"}}
    parameters, joined = ", ".join(("readings", *FORMATS)), ", ".join(FORMATS)
    lake.transform("named", ALL.format(parameters=parameters, sides=joined))
    declaration = declared(tables=TABLES[:1])
    pipeline = lake.pipeline("named", **{**declaration, "sources": {"readings": READINGS, **sides}})
    land(lake, 1)
    pipeline.run_incremental()
    # Readings themselves have no name.
    assert names(lake) == {10: " ".join(["mill"] * 9), 11: " ".join(["pond"] * 9)}
    (entry,) = [commit.entry for commit in lake.ledger(TABLES[0]) if commit.entry]
    reads = entry.files_read or {}
    assert reads.keys() == set(FORMATS)
    assert reads["csv"].digest == reads["one_file"].digest != reads["json"].digest


@pytest.mark.soak
def test_a_backfill_in_chunks_begins_anew_where_files_were_changed(lake: Lake, named: LakePipeline) -> None:
    pipeline = lake.pipeline("named", **declared(tables=TABLES[:1]))
    land(lake, 1)
    land(lake, 2)
    plan = pipeline.plan("2024-01-01T01:00:00", "2024-01-01T03:00:00", chunk="1 hour")

    def dies(step: str) -> None:
        if step == "chunk_done 0":
            raise CrashedError(step)

    with pytest.raises(CrashedError):
        pipeline.apply(plan, dies)
    # A file that comes changes nothing.
    name_devices(lake, "2.csv", c="weir")
    with pytest.raises(CrashedError):
        pipeline.apply(plan, lambda step: crash() if step == "chunk_done 1" else None)
    assert names(lake) == {10: "mill", 11: "pond", 20: "mill", 21: "pond"}
    assert {read.files for read in files_read(lake)} == {1}
    name_devices(lake, a="lake", b="river")
    pipeline.apply(plan)
    assert names(lake) == {10: "lake", 11: "river", 20: "lake", 21: "river"}
