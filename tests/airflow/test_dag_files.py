"""This repository's DAG files as Airflow parses them, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.fake_driver import ROOT
from tests.support.small_project import ENVIRONMENT, INCREMENTAL, STREAM, SmallProject, small_project
from tidemill.spec.project import Project

# Seconds that all DAG files together may take, without the import of Airflow itself.
PARSE_BUDGET_SECONDS = 1.0

# A DAG for each verb of `tidemill checkpoint` that changes something.
RUNBOOKS = {
    f"checkpoint__{verb}"
    for verb in (
        *("backup", "hold", "release", "rewind", "restore", "reset", "acknowledge", "repair", "repartition"),
        *("fork", "prune"),
    )
}

PARSE = """
import json, sys
from airflow.dag_processing.dagbag import DagBag
bag = DagBag(sys.argv[1])
heavy = ("pyspark", "deltalake", "obstore", "pyarrow", "confluent_kafka", "pandas", "kubernetes")
json.dump({
    "seconds": sum(stat.duration.total_seconds() for stat in bag.dagbag_stats),
    "errors": bag.import_errors,
    "heavy": [name for name in heavy if name in sys.modules],
    "dags": {
        dag_id: {
            "tasks": sorted(dag.task_ids),
            "params": {name: param.schema for name, param in dag.params.items()},
            "defaults": dict(dag.params.dump()),
            "catchup": dag.catchup,
            "max_active_runs": dag.max_active_runs,
            "paused_after_failures": dag.max_consecutive_failed_dag_runs,
            "doc": dag.doc_md,
            "schedule": dag.schedule,
            "outlets": {t.task_id: [asset.uri for asset in t.outlets] for t in dag.tasks},
        }
        for dag_id, dag in bag.dags.items()
    },
}, open(sys.argv[2], "w"))
"""


def parse(project: Path, work: Path) -> Mapping[str, Any]:
    path = os.pathsep.join(str(ROOT / part) for part in ("spark_apps", "dags"))
    answer = work / "answer.json"
    variables = {
        **{name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")},
        "PYTHONPATH": path,
        "AIRFLOW_HOME": str(work),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "TIDEMILL_PROJECT": str(project),
        # As a deployment may say.
        "AIRFLOW__CORE__MAX_CONSECUTIVE_FAILED_DAG_RUNS_PER_DAG": "3",
    }
    subprocess.run(
        [sys.executable, "-c", PARSE, str(ROOT / "dags"), str(answer)],
        env=variables,
        check=True,
        capture_output=True,
    )
    parsed: Mapping[str, Any] = json.loads(answer.read_text())
    return parsed


@pytest.fixture(scope="module")
def parsed(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Any]:
    return parse(ROOT, tmp_path_factory.mktemp("parse"))


def test_every_pipeline_of_this_repository_has_its_dag(parsed: Mapping[str, Any]) -> None:
    project = Project(ROOT)
    modes = {name: project.load_pipeline(name).run.mode for name in project.pipeline_names()}
    own = {f"{mode}__{name}" for name, mode in modes.items()}
    assert parsed["errors"] == {}
    assert set(parsed["dags"]) == own | {"tidemill_streams", "backfill"} | RUNBOOKS


def test_dag_files_parse_within_a_second_and_load_nothing_heavy(parsed: Mapping[str, Any]) -> None:
    assert parsed["seconds"] < PARSE_BUDGET_SECONDS
    assert parsed["heavy"] == []


def test_streams_are_reconciled_every_minute_by_one_short_task(parsed: Mapping[str, Any]) -> None:
    dag = parsed["dags"]["tidemill_streams"]
    assert (dag["tasks"], dag["schedule"], dag["catchup"], dag["max_active_runs"]) == (
        *(["reconcile"], "* * * * *", False, 1),
    )


def test_what_looks_after_streams_is_never_paused_for_its_failures(parsed: Mapping[str, Any]) -> None:
    pauses = {dag_id: dag["paused_after_failures"] for dag_id, dag in parsed["dags"].items()}
    assert pauses["tidemill_streams"] == pauses["stream__iot_events_bronze"] == 0
    # How often a scheduled run may fail stays the deployment's to say.
    assert pauses["incremental__iot_daily_summary"] == 3


def test_a_stream_has_its_actions_and_they_end_in_proof(parsed: Mapping[str, Any]) -> None:
    dag = parsed["dags"]["stream__iot_events_bronze"]
    assert dag["tasks"] == ["act", "prove"]
    assert dag["params"]["action"]["enum"] == ["start", "stop", "restart"]


def test_an_incremental_pipeline_has_its_schedule_and_its_tables_as_assets(parsed: Mapping[str, Any]) -> None:
    dag = parsed["dags"]["incremental__iot_daily_summary"]
    assert (dag["catchup"], dag["max_active_runs"]) == (False, 1)
    assert dag["schedule"] == "@hourly"
    assert dag["outlets"] == {"run": ["tidemill://tables/gold/iot_daily_summary"]}


def test_a_backfill_is_a_dry_run_unless_told_otherwise(parsed: Mapping[str, Any]) -> None:
    dag = parsed["dags"]["backfill"]
    assert dag["defaults"]["dry_run"] is True
    assert "iot_events_bronze" in dag["params"]["pipeline"]["enum"]


def test_a_verb_is_a_dry_run_unless_told_otherwise_and_its_stream_stands_still(
    parsed: Mapping[str, Any],
) -> None:
    for dag_id in RUNBOOKS:
        dag = parsed["dags"][dag_id]
        assert dag["defaults"]["dry_run"] is True, dag_id
        assert "iot_events_bronze" in dag["params"]["pipeline"]["enum"], dag_id
        assert {"plan", "apply"} <= set(dag["tasks"]), dag_id
    assert parsed["dags"]["checkpoint__rewind"]["tasks"] == ["apply", "end", "plan", "start", "stop"]
    assert parsed["dags"]["checkpoint__backup"]["tasks"] == ["apply", "plan"]


def test_every_dag_says_what_it_does_and_what_to_do_when_it_is_not_healthy(parsed: Mapping[str, Any]) -> None:
    runbooks = {page.stem for page in (ROOT / "dags" / "runbooks").glob("*.md")}
    for dag_id, dag in parsed["dags"].items():
        assert "**Healthy:**" in dag["doc"], dag_id
        pages = dag["doc"].split("Page")[1].partition(":")[2].split(".")[0].split(",")
        assert {page.strip() for page in pages} <= runbooks, dag_id


def test_a_broken_pipeline_hides_no_other_and_is_shown_as_an_import_error(tmp_path: Path) -> None:
    with small_project(tmp_path / "project") as project:
        declare_all(project)
        seen = parse(project.folder, tmp_path)
    assert set(seen["dags"]) == {"tidemill_streams", "stream__orders", "incremental__daily"} | RUNBOOKS
    (file,) = seen["errors"]
    assert file.endswith("conf_errors.py")
    assert "broken.yaml" in seen["errors"][file]
    assert "worse.yaml" in seen["errors"][file]


def test_a_protected_environment_asks_somebody_else_before_it_applies(tmp_path: Path) -> None:
    with small_project(tmp_path / "project") as project:
        project.declare("orders", STREAM)
        project.environ(ENVIRONMENT + "protected: true\n")
        dags = parse(project.folder, tmp_path)["dags"]
    asked = {dag_id for dag_id in RUNBOOKS if "approve" in dags[dag_id]["tasks"]}
    # These two change nothing that is there.
    assert asked == RUNBOOKS - {"checkpoint__backup", "checkpoint__hold"}


def declare_all(project: SmallProject) -> None:
    project.declare("orders", STREAM)
    project.declare("daily", INCREMENTAL)
    project.declare("broken", "descripton: a typo")
    project.declare("worse", "description: [")
