from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tests.support import checkpoint_files
from tests.support.checkpoints import write_planned
from tests.support.command_line import CommandLine
from tests.support.conf_project import ConfProject
from tidemill.checkpoint.current import read_or_create_current
from tidemill.checkpoint.receipts import Receipt, write_receipt
from tidemill.cli.pipeline_check import lineage_columns
from tidemill.engine.session_conf import session_conf
from tidemill.payload.decode import rows_schema
from tidemill.payload.decoders import decoder_of
from tidemill.storage.store import Store


def test_the_plan_says_what_would_run(tidemill: CommandLine, project: ConfProject) -> None:
    plan = tidemill.json("plan", "orders")
    root = f"{project.folder}/.data"
    assert plan["pipeline"] == "orders"
    assert plan["source"]["kind"] == "kafka"
    assert plan["source"]["topic"] == "orders"
    assert plan["decoded_columns"] == {"id": "string", "at": "timestamp[us, tz=UTC]"}
    assert plan["run"] == {
        "mode": "stream",
        "trigger": "5 seconds",
        "size": "small",
        "shuffle_partitions": 2,
        "state_store": "rocksdb",
        "unbounded_state": "refused",
        "on_poison": "stop",
    }
    assert "warning" not in plan
    assert plan["output_mode"] == "append"
    assert plan["paths"]["quarantine"] == f"{root}/quarantine/orders"
    assert "late" not in plan["paths"]
    assert plan["checkpoint"] is None
    assert plan["digest"] == project.resolve().digest
    assert plan["session_conf"] == session_conf(project.resolve())


@pytest.mark.parametrize(
    ("run", "trigger"), [("run: {}\n", "0 seconds"), ("run: {mode: incremental}\n", "available_now")]
)
def test_the_plan_shows_the_trigger_that_counts_where_none_is_declared(
    tidemill: CommandLine, project: ConfProject, run: str, trigger: str
) -> None:
    project.write(
        "conf/pipelines/copy.yaml",
        "description: d\nowner: o\nsource: {kafka: {topic: orders}}\nsinks: [{kafka: {topic: copies}}]\n"
        + run,
    )
    assert tidemill.json("plan", "copy")["run"]["trigger"] == trigger


def test_a_plan_warns_of_state_that_may_grow_for_ever(tidemill: CommandLine, project: ConfProject) -> None:
    project.replace("run:", "run:\n  unbounded_state: accepted")
    assert "TIDE-PLAN-046" in tidemill.json("plan", "orders")["warning"]


def test_the_plan_names_the_table_of_late_rows(tidemill: CommandLine, project: ConfProject) -> None:
    project.replace("10 minutes}", "10 minutes, late: table}")
    plan = tidemill.json("plan", "orders")
    assert plan["paths"]["late"] == f"{project.folder}/.data/late/orders"
    assert plan["event_time"]["late"] == "table"


def test_each_sink_tells_its_writer_the_reason_and_the_guarantee(
    tidemill: CommandLine, project: ConfProject
) -> None:
    project.replace(
        "  - delta: {table: bronze/orders}",
        "  - delta: {table: bronze/orders}\n"
        "  - delta: {table: bronze/clustered, cluster_by: [id]}\n"
        "  - kafka: {topic: copies, key: id}\n"
        "  - console: {}\n",
    )
    plain, clustered, kafka, console = tidemill.json("plan", "orders")["sinks"]
    assert plain["writer"] == "arrow (a plain append)"
    assert plain["delivery"] == "exactly once"
    assert plain["path"] == f"{project.folder}/.data/tables/bronze/orders"
    assert clustered["writer"].startswith("spark (cluster_by")
    assert kafka["topic"] == "copies"
    assert kafka["delivery"].startswith("at least once")
    assert console["kind"] == "console"


def test_the_plan_warns_of_texts_that_a_partition_cannot_hold(
    tidemill: CommandLine, project: ConfProject
) -> None:
    project.replace(
        "  - delta: {table: bronze/orders}",
        "  - delta: {table: bronze/orders, partition_by: [kafka_partition]}\n"
        "  - delta: {table: bronze/named, partition_by: [id, kafka_topic]}\n"
        "  - files: {path: out, format: json, partition_by: [kafka_topic]}\n",
    )
    numbers, table, files = tidemill.json("plan", "orders")["sinks"]
    assert "warning" not in numbers
    assert table["warning"].startswith("an empty text in id, kafka_topic stops the pipeline (TIDE-SINK-020)")
    assert files["warning"].startswith("an empty text in kafka_topic ")


def test_of_a_source_that_cannot_be_read_again_nothing_is_promised(
    tidemill: CommandLine, project: ConfProject
) -> None:
    project.write(
        "conf/pipelines/trial.yaml",
        "description: d\nowner: o\nsource: {socket: {port: 9999}}\nsinks: [{console: {mode: complete}}]\n",
    )
    plan = tidemill.json("plan", "trial")
    assert plan["source"]["repeated_batch"].startswith("nothing")
    assert [sink["delivery"].partition(":")[0] for sink in plan["sinks"]] == ["nothing is promised"]
    assert (plan["output_mode"], plan["decoded_columns"]) == ("complete", {"value": "string"})


def test_the_plan_tells_where_the_checkpoint_stands(tidemill: CommandLine, project: ConfProject) -> None:
    layout = project.load().layout
    read_or_create_current(Store(layout.root), layout, "orders")
    state = ".data/state/orders/g0001"
    for batch in (0, 1):
        write_planned(project.folder / state, batch, {"orders": {"0": 10 * (batch + 1)}})
    project.write(f"{state}/commits/0", checkpoint_files.committed().decode())
    assert tidemill.json("plan", "orders")["checkpoint"] == {
        "generation": "g0001",
        "path": f"{project.folder}/{state}",
        "planned_batch": 1,
        "committed_batch": 0,
        "offsets": {"source": {"orders": {"0": 20}}},
        "watermark": None,
    }


def test_the_plan_reads_well(tidemill: CommandLine) -> None:
    assert tidemill("plan", "orders") == 0
    lines = tidemill.out.splitlines()
    assert lines[0] == "pipeline: orders"
    assert "  topic: orders" in lines
    assert "    writer: arrow (a plain append)" in lines


def test_a_wrong_pipeline_has_no_plan(tidemill: CommandLine, project: ConfProject) -> None:
    project.replace("{column: at,", "{column: att,")
    assert tidemill("plan", "orders") == 2
    assert tidemill.err.startswith("TIDE-SPEC-026")
    assert tidemill.out == ""


def test_a_plan_makes_nothing(tidemill: CommandLine, project: ConfProject) -> None:
    before = sorted(project.folder.rglob("*"))
    assert tidemill("plan", "orders") == 0
    assert sorted(project.folder.rglob("*")) == before


@pytest.mark.parametrize("source", ["topic: orders", "topic: orders\n    headers: true"])
@pytest.mark.parametrize("payload", ["{schema: order.json}", "{schema: order.json, keep_raw: true}"])
def test_the_lineage_columns_are_those_that_the_decoder_adds(
    project: ConfProject, source: str, payload: str
) -> None:
    project.replace("topic: orders", source)
    text = (project.folder / "conf/pipelines/orders.yaml").read_text()
    project.write("conf/pipelines/orders.yaml", text.replace("{schema: order.json}", payload))
    pipeline = project.resolve()
    assert pipeline.spec.payload is not None
    decoder = decoder_of(pipeline.spec.payload, project.folder / "conf/schemas")
    decoded = rows_schema(pipeline, pipeline.spec.payload, decoder.columns).names
    assert [name for name in decoded if name.startswith("kafka_")] == lineage_columns(pipeline)


def test_the_plan_tells_how_far_back_a_rewind_can_reach(tidemill: CommandLine, project: ConfProject) -> None:
    retention = tidemill.json("plan", "orders")["retention"]
    assert (retention["rewindable"], retention["warnings"]) == ("4 hours", [])
    project.replace("trigger: 5 seconds", "trigger: 5 seconds\n  rewindable: 3 days")
    plan = tidemill.json("plan", "orders")
    (warning,) = plan["retention"]["warnings"]
    assert warning["id"] == "TIDE-CKPT-060"
    assert warning["facts"]["kept"] == plan["retention"]["rewindable"]
    assert plan["session_conf"]["spark.sql.streaming.minBatchesToRetain"] == str(plan["retention"]["batches"])


def test_the_plan_tells_how_the_last_driver_ended(tidemill: CommandLine, project: ConfProject) -> None:
    assert tidemill.json("plan", "orders")["last_ending"] is None
    layout = project.load().layout
    receipt = Receipt(
        pipeline="orders",
        run_id="run-1",
        mode="stream",
        result="forced",
        exit_code=0,
        stopped_at=datetime(2026, 1, 1, tzinfo=UTC),
        batch_id=7,
    )
    write_receipt(Store(layout.root), layout, receipt)
    ending = tidemill.json("plan", "orders")["last_ending"]
    assert (ending["result"], ending["batch_id"], ending["error"]) == ("forced", 7, None)


@pytest.mark.parametrize(
    ("trigger", "every"), [("{continuous: 1 second}", "1 second"), ("{real_time: 5 minutes}", "5 minutes")]
)
def test_of_rows_written_as_they_come_less_is_promised_and_said(
    tidemill: CommandLine, project: ConfProject, trigger: str, every: str
) -> None:
    project.write(
        "conf/pipelines/copy.yaml",
        "description: d\nowner: o\nsource: {kafka: {topic: orders}}\nsinks: [{kafka: {topic: copies}}]\n"
        f"run: {{trigger: {trigger}}}\n",
    )
    plan = tidemill.json("plan", "copy")
    assert [sink["delivery"].partition(":")[0] for sink in plan["sinks"]] == ["at least once"]
    assert any(promise.startswith("no ledger") for promise in plan["promises"])
    assert "promises" not in tidemill.json("plan", "orders")
    does = tidemill.json("explain", "copy")["does"]
    assert does[-1].startswith("Runs all the time, and writes each row as it comes, at least once")
    assert every in does[-1]
