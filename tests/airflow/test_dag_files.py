"""This repository's DAG files as Airflow parses them, in a separate process."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import CommandLine
from tests.support.fake_driver import ROOT
from tests.support.followed_fixes import typed
from tests.support.small_project import (
    ENVIRONMENT,
    INCREMENTAL,
    READINGS,
    STREAM,
    SmallProject,
    small_project,
)
from tidemill.airflow_names import DRIVER_POOL
from tidemill.errors import SpecError
from tidemill.spec.pipeline import PipelineSpec
from tidemill.spec.project_folder import Project

# Tasks that run a driver and wait for its end: 50 of them at once would be 50 JVMs.
RUN_DRIVERS = {"IncrementalRun", "BackfillRun", "PlayGameDay", "RunShadow"}

# Their tasks.
DAILY = {
    "checkpoint_hygiene": ["look_after", "report"],
    "table_maintenance": ["maintain", "report", "tables"],
}

# One for all streams together, and one for any of them.
SINGLE = {"tidemill_streams", "game_day", "shadow_run"}

# A DAG for each operation of `tidemill checkpoint` that changes something.
RUNBOOKS = {
    f"checkpoint__{verb}"
    for verb in (
        *("backup", "hold", "release", "rewind", "restore", "reset", "acknowledge", "repair", "repartition"),
        *("fork", "prune"),
    )
}

# Tasks without retries, each with its reason.
NOT_RETRIED = {
    "ReconcileStreams": "runs again in a minute",
    "ApprovePlan": "a question that nobody answered is not asked again",
}

# Longest execution_timeout, in seconds: no work holds a worker for longer than a day.
LONGEST_WORK_SECONDS = 24 * 3600

# A program that parses the DAG files, during which they must not use the network, start a process or change a
# file.
PARSE = """
import json, os, sys
from airflow.dag_processing.dagbag import DagBag
changes = {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.truncate", "os.link", "os.symlink"}
reaches_out = {"socket.connect", "socket.bind", "socket.getaddrinfo", "sqlite3.connect"}
starts = {"subprocess.Popen", "os.system", "os.exec", "os.fork", "os.posix_spawn"}
heard, read = [], []
def hear(event, arguments):
    if event == "open" and str(arguments[0]).endswith(".yaml"):
        read.append(os.path.basename(arguments[0]))
    writes = event == "open" and (arguments[2] or 0) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
    if writes or event in changes | reaches_out | starts:
        heard.append(f"{event} {arguments}")
sys.addaudithook(hear)
bag = DagBag(sys.argv[1])
if len(sys.argv) > 3:
    bag.collect_dags(sys.argv[3], only_if_updated=False)
io, heard = heard, []
open(os.devnull, "w").close()
read.clear()
# Set what Airflow sets in the process of a task, see `airflow.sdk.get_parsing_context`.
os.environ["_AIRFLOW_PARSING_CONTEXT_DAG_ID"] = "incremental__iot_daily_summary"
of_a_task = DagBag(sys.argv[1] + "/incrementals.py")
read_for_a_task = list(read)
read.clear()
for name in ("checkpoint_hygiene", "table_maintenance", "tidemill_backfill", "checkpoint__rewind"):
    os.environ["_AIRFLOW_PARSING_CONTEXT_DAG_ID"] = name
    file = {"tidemill_backfill": "backfill", "checkpoint__rewind": "checkpoint_verbs"}.get(name, name)
    assert name in DagBag(f"{sys.argv[1]}/{file}.py").dag_ids, name
heavy = ("pyspark", "deltalake", "obstore", "pyarrow", "confluent_kafka", "pandas", "kubernetes")
json.dump({
    "errors": bag.import_errors,
    "io": io,
    "hears": heard,
    "of_a_task": {"dags": sorted(of_a_task.dag_ids), "read": read_for_a_task},
    "of_other_tasks": sorted(set(read)),
    "heavy": [name for name in heavy if name in sys.modules],
    "dags": {
        dag_id: {
            "tasks": sorted(dag.task_ids),
            "tags": sorted(dag.tags),
            "policy": {
                task.task_id: {
                    "owner": task.owner,
                    "retries": task.retries,
                    "refusals_are_final": task.retry_policy is not None,
                    "timeout": task.execution_timeout and task.execution_timeout.total_seconds(),
                    "pool": task.pool,
                    "type": task.task_type,
                }
                for task in dag.tasks
            },
            "params": {name: param.schema for name, param in dag.params.items()},
            "defaults": dict(dag.params.dump()),
            "catchup": dag.catchup,
            "max_active_runs": dag.max_active_runs,
            "paused_after_failures": dag.max_consecutive_failed_dag_runs,
            "doc": dag.doc_md,
            "schedule": str(dag.schedule) if dag.schedule is not None else None,
            "deadline": [alert.interval.total_seconds() for alert in dag.deadline or []],
            "places": sorted({task.place.environment for task in dag.tasks if hasattr(task, "place")}),
            "outlets": {t.task_id: [getattr(o, "uri", o.name) for o in t.outlets] for t in dag.tasks},
        }
        for dag_id, dag in bag.dags.items()
    },
}, open(sys.argv[2], "w"))
"""


def parse(project: Path, work: Path, *second_folder: Path) -> Mapping[str, Any]:
    path = os.pathsep.join(str(ROOT / part) for part in ("spark_apps", "dags"))
    answer = work / "answer.json"
    variables = {
        **{name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")},
        "PYTHONPATH": path,
        "AIRFLOW_HOME": str(work),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "TIDEMILL_PROJECT": str(project),
        # Compiled files are Python's own.
        "PYTHONDONTWRITEBYTECODE": "1",
        # Set options that a deployment may set.
        "TIDEMILL_POOL": DRIVER_POOL,
        "AIRFLOW__CORE__DEFAULT_TASK_RETRIES": "2",
        "AIRFLOW__CORE__MAX_CONSECUTIVE_FAILED_DAG_RUNS_PER_DAG": "3",
    }
    subprocess.run(
        [sys.executable, "-c", PARSE, str(ROOT / "dags"), str(answer), *map(str, second_folder)],
        env=variables,
        check=True,
        capture_output=True,
    )
    parsed: Mapping[str, Any] = json.loads(answer.read_text())
    return parsed


def pipelines() -> list[tuple[str, PipelineSpec, str]]:
    project = Project(ROOT)
    specs = {name: project.load_pipeline(name) for name in project.pipeline_names()}
    return [(name, spec, spec.run.mode) for name, spec in specs.items()]


@pytest.fixture(scope="module")
def parsed(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Any]:
    return parse(ROOT, tmp_path_factory.mktemp("parse"))


def test_every_pipeline_of_this_repository_has_its_dag(parsed: Mapping[str, Any]) -> None:
    own = {f"{mode}__{name}" for name, _, mode in pipelines()}
    assert parsed["errors"] == {}
    assert set(parsed["dags"]) == own | {*SINGLE, "tidemill_backfill", *DAILY} | RUNBOOKS


def test_dag_files_load_nothing_heavy(parsed: Mapping[str, Any]) -> None:
    assert parsed["heavy"] == []


def test_parsing_reaches_out_to_nothing_starts_nothing_and_changes_no_file(
    parsed: Mapping[str, Any],
) -> None:
    assert parsed["hears"] != [], "the hook of this test is deaf"
    assert parsed["io"] == []


def test_every_dag_says_whose_it_is_and_can_be_found_by_its_tags(parsed: Mapping[str, Any]) -> None:
    owners = {f"{mode}__{name}": spec.owner for name, spec, mode in pipelines()}
    for dag_id, dag in parsed["dags"].items():
        found = {task["owner"] for task in dag["policy"].values()}
        assert found == {owners.get(dag_id, "tidemill")}, dag_id
        assert {"tidemill", *({owners[dag_id]} if dag_id in owners else ())} <= set(dag["tags"]), dag_id


def test_every_task_is_retried_but_not_where_it_was_refused_and_ends_in_time(
    parsed: Mapping[str, Any],
) -> None:
    assert_policy(parsed["dags"])


def test_tasks_that_run_drivers_are_bounded_by_their_pool_and_streams_never_wait_for_it(
    parsed: Mapping[str, Any],
) -> None:
    for dag_id, dag in parsed["dags"].items():
        for task_id, task in dag["policy"].items():
            assert (task["pool"] == DRIVER_POOL) == (task["type"] in RUN_DRIVERS), f"{dag_id}.{task_id}"


def test_the_process_of_a_task_reads_the_pipeline_of_its_dag_only(parsed: Mapping[str, Any]) -> None:
    assert parsed["of_a_task"] == {
        "dags": ["incremental__iot_daily_summary"],
        "read": ["iot_daily_summary.yaml"],
    }


def test_the_process_of_a_task_of_all_pipelines_reads_none_of_them(parsed: Mapping[str, Any]) -> None:
    # Whether the environment is protected decides which tasks there are.
    assert parsed["of_other_tasks"] == ["local.yaml"]


def test_streams_are_reconciled_every_minute_by_one_short_task(parsed: Mapping[str, Any]) -> None:
    dag = parsed["dags"]["tidemill_streams"]
    assert (dag["tasks"], dag["schedule"], dag["catchup"], dag["max_active_runs"]) == (
        *(["reconcile"], "* * * * *", False, 1),
    )


def test_what_looks_after_streams_is_never_paused_for_its_failures(parsed: Mapping[str, Any]) -> None:
    pauses = {dag_id: dag["paused_after_failures"] for dag_id, dag in parsed["dags"].items()}
    assert pauses["tidemill_streams"] == pauses["stream__iot_events_bronze"] == 0
    # The deployment decides how often a scheduled run may fail.
    assert pauses["incremental__iot_daily_summary"] == 3


def test_what_is_asked_for_by_hand_is_never_paused_for_its_failures(
    parsed: Mapping[str, Any], two_environments: Mapping[str, Any]
) -> None:
    by_hand = {
        dag_id: dag["paused_after_failures"]
        for dag_id, dag in {**parsed["dags"], **two_environments["dags"]}.items()
        if dag["schedule"] is None
    }
    assert {"tidemill_backfill", "incremental__daily"} <= set(by_hand)
    assert set(by_hand.values()) == {0}


def test_a_stream_has_its_actions_and_they_end_in_proof(parsed: Mapping[str, Any]) -> None:
    dag = parsed["dags"]["stream__iot_events_bronze"]
    assert dag["tasks"] == ["act", "prove"]
    assert dag["params"]["action"]["enum"] == ["start", "stop", "restart", "suspend", "resume"]
    moment = dag["params"]["until"]["pattern"]
    assert re.search(moment, "2026-12-01T06:00:00Z")
    assert not any(re.search(moment, text) for text in ("", "soon", "2026-12-01", "2026-13-01T06:00:00Z"))


def test_an_incremental_pipeline_has_its_schedule_and_its_tables_as_assets(parsed: Mapping[str, Any]) -> None:
    dag = parsed["dags"]["incremental__iot_daily_summary"]
    assert (dag["catchup"], dag["max_active_runs"]) == (False, 1)
    assert dag["schedule"] == "@hourly"
    assert dag["outlets"] == {"run": ["tidemill://tables/gold/iot_daily_summary"]}


def test_a_backfill_is_a_dry_run_unless_told_otherwise(parsed: Mapping[str, Any]) -> None:
    dag = parsed["dags"]["tidemill_backfill"]
    assert dag["defaults"]["dry_run"] is True
    assert "iot_events_bronze" in dag["params"]["pipeline"]["enum"]


@pytest.mark.parametrize("dag_id", DAILY)
def test_daily_care_is_a_task_for_each_and_a_report(parsed: Mapping[str, Any], dag_id: str) -> None:
    dag = parsed["dags"][dag_id]
    assert (dag["schedule"], dag["catchup"], dag["max_active_runs"]) == ("@daily", False, 1)
    # A checkpoint or table that needs an operator must not end the maintenance of the others.
    assert dag["paused_after_failures"] == 0
    assert dag["tasks"] == DAILY[dag_id]


def test_a_game_day_is_played_every_week_with_a_stream_of_choice(parsed: Mapping[str, Any]) -> None:
    dag = parsed["dags"]["game_day"]
    assert (dag["schedule"], dag["catchup"], dag["max_active_runs"]) == ("@weekly", False, 1)
    streams = [name for name, _, mode in pipelines() if mode == "stream"]
    assert dag["params"]["pipeline"]["enum"] == [None, *sorted(streams)]
    assert dag["defaults"]["pipeline"] is None


def test_a_shadow_run_asks_for_a_pipeline_and_a_bounded_number_of_batches(parsed: Mapping[str, Any]) -> None:
    dag = parsed["dags"]["shadow_run"]
    assert dag["schedule"] is None
    assert "iot_events_bronze" in dag["params"]["pipeline"]["enum"]
    assert dag["params"]["batches"] | {"description": ""} == {
        "type": "integer",
        "minimum": 1,
        "maximum": 50,
        "description": "",
    }


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
        for part in ("**Does:**", "**Healthy:**", "**Not healthy:**"):
            assert part in dag["doc"], dag_id
        pages = dag["doc"].split("Page")[1].partition(":")[2].split(".")[0].split(",")
        assert {page.strip() for page in pages} <= runbooks, dag_id


def test_a_broken_pipeline_hides_no_other_and_is_shown_as_an_import_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with small_project(tmp_path / "project") as project:
        declare_all(project)
        seen = parse(project.folder, tmp_path)
        tidemill = CommandLine(project.folder, capsys.readouterr)
        (error,) = seen["errors"].values()
        assert "TIDE-SPEC-030" in error
        assert tidemill(*typed(error, "validate", {})) == 2
    assert "broken.yaml" in tidemill.out + tidemill.err
    assert "worse.yaml" in tidemill.out + tidemill.err
    own = {"stream__orders", "incremental__daily"}
    assert set(seen["dags"]) == own | {*SINGLE, *DAILY} | RUNBOOKS
    (file,) = seen["errors"]
    assert file.endswith("conf_errors.py")
    assert "broken.yaml" in seen["errors"][file]
    assert "worse.yaml" in seen["errors"][file]


def test_a_protected_environment_asks_somebody_else_before_it_applies(tmp_path: Path) -> None:
    with small_project(tmp_path / "project") as project:
        project.declare("orders", STREAM)
        project.declare("readings", READINGS)
        project.environ(ENVIRONMENT + "protected: true\n")
        dags = parse(project.folder, tmp_path)["dags"]
    asked = {dag_id for dag_id in RUNBOOKS if "approve" in dags[dag_id]["tasks"]}
    # These two change nothing that is there.
    assert asked == RUNBOOKS - {"checkpoint__backup", "checkpoint__hold"}
    assert dags["tidemill_backfill"]["tasks"] == ["apply", "approve", "plan"]
    assert "game_day" not in dags
    assert_policy(dags)


@pytest.fixture(scope="module")
def two_environments(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Any]:
    """Parse a project in the environment `local` and, through a folder of links, in `test`."""
    work = tmp_path_factory.mktemp("two")
    beside = work / "dags-test"
    beside.mkdir()
    for file in (ROOT / "dags").glob("*.py"):
        (beside / file.name).symlink_to(file)
    (beside / "TIDEMILL_ENV").write_text("test\n")
    with small_project(work / "project") as project:
        project.declare("orders", STREAM + "run: {asset_every: 20 minutes}\n")
        project.declare("visits", STREAM + "run: {asset_every: 15 minutes}\n")
        project.declare("quiet", STREAM)
        project.declare("daily", STREAM + "run: {mode: incremental, deadline: 30 minutes}\n")
        # Another way to write the same.
        project.declare("nightly", STREAM + 'run: {mode: "incr\\x65mental"}\n')
        (project.folder / "conf" / "environments" / "test.yaml").write_text(ENVIRONMENT)
        return parse(project.folder, work, beside)


def test_a_stream_tells_its_assets_and_an_incremental_run_has_its_deadline_where_it_says_so(
    parsed: Mapping[str, Any], two_environments: Mapping[str, Any]
) -> None:
    assert "stream_assets" not in parsed["dags"]
    dags = two_environments["dags"]
    dag = dags["stream_assets"]
    assert (dag["schedule"], dag["catchup"], dag["tasks"]) == ("0:15:00", False, ["tell"])
    assert dags["incremental__daily"]["deadline"] == [1800]
    assert dags["stream__orders"]["deadline"] == dags["incremental__nightly"]["deadline"] == []
    assert_policy(dags)


def test_a_second_environment_stands_beside_the_first_in_one_airflow(
    two_environments: Mapping[str, Any],
) -> None:
    seen = two_environments["dags"]
    first = {dag_id for dag_id in seen if not dag_id.startswith("test.")}
    assert {"stream__orders", "incremental__daily", "tidemill_streams"} <= first
    assert {f"test.{dag_id}" for dag_id in first} == set(seen) - first
    for dag_id in first:
        assert seen[dag_id]["places"] in (["local"], []), dag_id
        assert seen[f"test.{dag_id}"]["places"] in (["test"], []), dag_id
    assert seen["incremental__daily"]["outlets"] == {"run": ["tidemill://tables/bronze/daily"]}
    assert seen["test.incremental__daily"]["outlets"] == {"run": ["tidemill://test/tables/bronze/daily"]}


@pytest.mark.parametrize("text", ["", "../prod", "{{ 7*7 }}", "prod test", "Prod", "x" * 10_000])
def test_a_file_that_names_no_environment_is_an_import_error(tmp_path: Path, text: str) -> None:
    from tidemill_airflow.place import place_of

    (tmp_path / "TIDEMILL_ENV").write_text(text)
    with pytest.raises(SpecError) as refused:
        place_of(str(tmp_path / "streams.py"), {})
    assert refused.value.error_id == "TIDE-CTRL-073"


def assert_policy(dags: Mapping[str, Any]) -> None:
    for dag_id, dag in dags.items():
        for task_id, task in dag["policy"].items():
            retried = task["retries"] > 0 and task["refusals_are_final"]
            assert retried != (task["type"] in NOT_RETRIED), f"{dag_id}.{task_id}"
            assert 0 < (task["timeout"] or 0) <= LONGEST_WORK_SECONDS, f"{dag_id}.{task_id}"


def declare_all(project: SmallProject) -> None:
    project.declare("orders", STREAM)
    project.declare("daily", INCREMENTAL)
    project.declare("broken", "descripton: a typo")
    project.declare("worse", "description: [")
