"""`tidemill checkpoint rewind` and `fork` as one types them."""

from __future__ import annotations

import pytest

from tests.support.command_line import CommandLine
from tests.support.conf_project import PIPELINE, ConfProject
from tests.support.pipelines_on_disk import PipelineOnDisk
from tests.support.stores import StorePlace

ORDERS = PIPELINE.replace("payload:\n  json: {schema: order.json}\n", "").replace(
    "event_time: {column: at, watermark: 10 minutes}\n", ""
)
REPORT = """
description: Reads what orders writes.
owner: tests
source: {delta: {table: bronze/orders}}
sinks:
  - delta: {table: gold/report}
"""


@pytest.fixture
def orders(project: ConfProject) -> PipelineOnDisk:
    """Return the project's pipeline after five batches, and one that reads its table."""
    project.write("conf/pipelines/orders.yaml", ORDERS)
    project.write("conf/pipelines/report.yaml", REPORT)
    return PipelineOnDisk(StorePlace("local", project.folder, {"root": ".data"})).ran(5)


def test_a_plan_names_rows_and_readers(tidemill: CommandLine, orders: PipelineOnDisk) -> None:
    before = orders.files
    assert tidemill("checkpoint", "rewind", "orders", "--to", "2") == 0, tidemill.err
    for line in (
        "from g0001 after batch 2, in a new generation",
        "batches 3-4 are undone",
        "bronze/orders: version 5 -> 3; 2 batches, 20 rows go",
        "bronze/orders is read by report: they have read rows that go",
    ):
        assert line in tidemill.out.splitlines()
    # There is none at the environment's address.
    assert "whether the source still has what follows is not known: TIDE-SRC-001" in tidemill.out
    *_, last = tidemill.out.splitlines()
    assert last.startswith("Nothing was done. To carry it out: tidemill --project ")
    assert last.endswith("--env local checkpoint rewind orders --to 2 --reason TEXT --apply")
    assert orders.files == before


def test_a_wrong_file_of_another_pipeline_does_not_stand_in_the_way(
    tidemill: CommandLine, orders: PipelineOnDisk, project: ConfProject
) -> None:
    project.write("conf/pipelines/broken.yaml", "source: {")
    assert tidemill("checkpoint", "rewind", "orders", "--to", "2") == 0, tidemill.err
    assert "broken: its file is wrong" in tidemill.out


def test_a_rewind_is_carried_out_and_a_second_one_goes_by_the_new_generation(
    tidemill: CommandLine, orders: PipelineOnDisk
) -> None:
    arguments = ("checkpoint", "rewind", "orders", "--reason", "wrong unit", "--apply")
    assert tidemill(*arguments, "--to", "v3") == 0, tidemill.err
    assert (orders.live, orders.ids) == ("g0002", list(range(30)))
    assert tidemill.out.splitlines()[-1].endswith("--env local start orders")
    document = tidemill.json(*arguments, "--to", "1")
    assert (document["applied"], document["plan"]["parent"], orders.live) == (True, "g0002", "g0003")
    assert orders.ids == list(range(20))


def test_a_rewind_is_undone_by_its_older_generation(tidemill: CommandLine, orders: PipelineOnDisk) -> None:
    arguments = ("checkpoint", "rewind", "orders", "--reason", "wrong unit", "--apply")
    assert tidemill(*arguments, "--to", "1") == 0, tidemill.err
    assert tidemill("checkpoint", "rewind", "orders", "--generation", "g0001") == 0, tidemill.err
    assert "bronze/orders: batches 2-4 come back" in tidemill.out.splitlines()
    assert tidemill(*arguments, "--generation", "g0001") == 0, tidemill.err
    assert (orders.live, orders.ids) == ("g0003", list(range(50)))


@pytest.mark.parametrize(
    ("to", "error_id", "exit_code"),
    [("9", "TIDE-CKPT-070", 1), ("yesterday", "TIDE-CKPT-074", 2), ("1; rm -rf /", "TIDE-CKPT-074", 2)],
)
def test_a_place_that_is_none_is_refused(
    tidemill: CommandLine, orders: PipelineOnDisk, to: str, error_id: str, exit_code: int
) -> None:
    before = orders.files
    assert tidemill("checkpoint", "rewind", "orders", "--to", to, "--reason", "x", "--apply") == exit_code
    assert error_id in tidemill.err
    assert orders.files == before


def test_a_fork_is_planned_and_made(
    tidemill: CommandLine, orders: PipelineOnDisk, project: ConfProject
) -> None:
    project.write("conf/pipelines/shadow.yaml", ORDERS.replace("bronze/orders", "bronze/shadow"))
    assert tidemill("checkpoint", "fork", "orders", "shadow") == 0, tidemill.err
    assert "bronze/orders -> bronze/shadow: version 5, 5 files" in tidemill.out
    arguments = ("checkpoint", "fork", "orders", "shadow", "--batch", "1", "--reason", "x", "--apply")
    document = tidemill.json(*arguments)
    assert document["plan"]["batch_id"] == 1
    assert tidemill("checkpoint", "gate", "shadow") == 0, tidemill.err
    assert orders.live == "g0001"
    assert tidemill(*arguments) == 1
    assert "TIDE-CKPT-080" in tidemill.err


def test_state_that_is_not_there_is_not_repartitioned(tidemill: CommandLine, orders: PipelineOnDisk) -> None:
    assert tidemill("checkpoint", "repartition", "orders", "8") == 2
    assert "TIDE-CKPT-081" in tidemill.err
