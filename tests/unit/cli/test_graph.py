from __future__ import annotations

from tests.support.command_line import CommandLine
from tests.support.conf_project import ENVIRONMENT, ConfProject

GOLD = """
description: Orders by day.
owner: tests
source: {delta: {table: bronze/orders}}
sinks:
  - delta: {table: gold/orders, mode: replace}
"""


def test_pipelines_and_tables_are_shown_in_dependency_order(
    tidemill: CommandLine, project: ConfProject
) -> None:
    project.write("conf/pipelines/a_gold.yaml", GOLD)
    assert tidemill.json("graph") == {
        "order": ["orders", "a_gold"],
        "pipelines": [
            {"pipeline": "orders", "reads": ["topic orders"], "writes": ["table bronze/orders"], "after": []},
            {
                "pipeline": "a_gold",
                "reads": ["table bronze/orders"],
                "writes": ["table gold/orders"],
                "after": ["orders"],
            },
        ],
    }
    assert tidemill("graph") == 0
    shown = [line.strip("└─├│ ") for line in tidemill.out.splitlines()]
    assert shown == ["topic orders", "orders", "table bronze/orders", "a_gold", "table gold/orders"]


def test_an_invalid_pipeline_file_hides_no_other_pipeline(
    tidemill: CommandLine, project: ConfProject
) -> None:
    project.write("conf/pipelines/a_gold.yaml", GOLD)
    project.write("conf/pipelines/broken.yaml", "sourze: {}")
    shown = tidemill.json("graph")
    assert shown["order"] == ["orders", "a_gold"]
    assert shown["invalid"]["broken"]["id"].startswith("TIDE-SPEC-")
    assert tidemill("graph") == 0
    assert "a_gold" in tidemill.out
    assert tidemill.err.startswith(f"broken is left out: {shown['invalid']['broken']['id']}")
    assert tidemill.err.endswith("See: tidemill validate broken\n")


def test_tables_are_shown_by_their_names_in_the_catalog(tidemill: CommandLine, project: ConfProject) -> None:
    project.write("conf/pipelines/a_gold.yaml", GOLD)
    project.write("conf/environments/local.yaml", f"{ENVIRONMENT}catalog: lake\n")
    assert [found["writes"] for found in tidemill.json("graph")["pipelines"]] == [
        ["table lake.bronze.orders"],
        ["table lake.gold.orders"],
    ]
    assert tidemill("graph") == 0
    shown = [line.strip("└─├│ ") for line in tidemill.out.splitlines()]
    assert shown[2:] == ["table lake.bronze.orders", "a_gold", "table lake.gold.orders"]
