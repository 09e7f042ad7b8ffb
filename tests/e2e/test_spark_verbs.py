"""Operations that need Spark but no driver, requested in Airflow or in the scheduler, which has no Spark."""

from __future__ import annotations

import subprocess

import pytest

from tests.support.cluster import Document, until
from tests.support.other_project import declared, with_declaration, with_run
from tests.support.platform import BRONZE, TABLES, WINDOWS, Platform
from tidemill.airflow_names import (
    GAME_DAY_DAG_ID,
    SHADOW_RUN_DAG_ID,
    TABLE_MAINTENANCE_DAG_ID,
    checkpoint_dag_id,
)

PARTS = f"tidemill/pipeline={WINDOWS},tidemill/mode=verb"

# Seconds for the pod of a part to run.
PART_TIMEOUT_SECONDS = 300

# Seconds for a game day next to live streams, on a machine that is also busy with other work.
GAME_DAY_TIMEOUT_SECONDS = 1_800

# Kills the process of an operation in the pod in which it was typed.
KILL = """
import os, pathlib, signal, sys
for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
    words = path.read_bytes().split(b"\\0")
    if sys.argv[1].encode() in words and b"checkpoint" in words and int(path.parent.name) != os.getpid():
        os.kill(int(path.parent.name), signal.SIGKILL)
"""


def parts(platform: Platform) -> list[Document]:
    """Return jobs of the pipeline's parts, oldest first."""
    jobs = platform.streams.list("jobs", PARTS)
    return sorted(jobs, key=lambda job: job["metadata"]["creationTimestamp"])


def checkpoint(verb: str, *words: str) -> tuple[str, ...]:
    return ("checkpoint", verb, WINDOWS, *words, "--reason", "e2e", "--apply", "--json")


def windows(platform: Platform) -> int:
    return int(platform.agent.ask("count", table=TABLES[WINDOWS]))


@pytest.mark.core
def test_a_clustered_table_is_rewound_and_what_follows_is_computed_again(platform: Platform) -> None:
    platform.feed(500)
    platform.assert_exact()
    good, rows = platform.until_batch_ends(WINDOWS), windows(platform)
    platform.feed(500)
    platform.assert_exact()
    assert windows(platform) > rows
    platform.tidemill("stop", WINDOWS, "--reason", "e2e")
    generation = platform.agent.ask("generation", pipeline=WINDOWS)
    done = platform.tidemill(*checkpoint("rewind", "--to", str(good)))
    assert (done["applied"], done["plan"]["parent"]) == (True, generation)
    assert windows(platform) == rows
    (job,) = parts(platform)
    assert job["status"]["succeeded"] == 1
    assert platform.agent.ask("generation", pipeline=WINDOWS) > generation
    platform.tidemill("start", WINDOWS, "--reason", "e2e")
    platform.assert_exact()
    platform.until_healthy(WINDOWS)


def test_a_form_rewinds_a_clustered_table_and_what_follows_is_computed_again(platform: Platform) -> None:
    """The DAG stops the stream, has Spark restore the table, and starts the stream again."""
    dag_id = checkpoint_dag_id("rewind")
    platform.feed(500)
    platform.assert_exact()
    good, before = platform.until_batch_ends(WINDOWS), len(parts(platform))
    platform.feed(500)
    platform.assert_exact()
    generation = platform.agent.ask("generation", pipeline=WINDOWS)
    asked = {"pipeline": WINDOWS, "to": str(good), "reason": "e2e", "dry_run": False}
    run_id, state = platform.airflow.run(dag_id, asked)
    assert state == "success", platform.airflow.log_of(dag_id, run_id, "apply")
    assert platform.agent.ask("generation", pipeline=WINDOWS) > generation
    assert platform.airflow.result(dag_id, run_id, "start")["epoch"] == platform.epochs(WINDOWS)
    jobs = parts(platform)
    assert len(jobs) == before + 1
    assert jobs[-1]["status"]["succeeded"] == 1
    platform.assert_exact()
    platform.until_healthy(WINDOWS)


def test_a_version_is_run_in_the_shadow_of_its_stream(platform: Platform) -> None:
    with platform.events_flow():
        platform.until_batch(WINDOWS)
        run_id, state = platform.airflow.run(SHADOW_RUN_DAG_ID, {"pipeline": WINDOWS, "batches": 3})
    assert state == "success", platform.airflow.log_of(SHADOW_RUN_DAG_ID, run_id, "run")
    found = platform.airflow.result(SHADOW_RUN_DAG_ID, run_id, "run")
    told = {table["name"]: (table["missing"], table["surplus"]) for table in found["differences"]}
    assert told[TABLES[WINDOWS]] == (0, 0)
    assert list(found["left_out"]) == ["sinks[2] (kafka)"]
    platform.assert_exact()


# Five starts of drivers and a backfill, after those of the run by schedule that un-pausing brings about.
@pytest.mark.timeout(2_400)
def test_a_game_day_is_played_in_a_pod_of_the_drivers_image(platform: Platform) -> None:
    with platform.events_flow():
        platform.until_batch(BRONZE)
        run_id = platform.airflow.begin(GAME_DAY_DAG_ID, {"pipeline": BRONZE})
        state = platform.airflow.end(GAME_DAY_DAG_ID, run_id, GAME_DAY_TIMEOUT_SECONDS)
    log = platform.airflow.log_of(GAME_DAY_DAG_ID, run_id, "play")
    assert state == "success", log
    day = platform.airflow.result(GAME_DAY_DAG_ID, run_id, "play")
    outcomes = {result["drill"]: result["outcome"] for result in day["results"]}
    assert outcomes == dict.fromkeys(("start", "kill", "drain", "rewind", "restore", "backfill"), "recovered")
    # Each step of it is in the task's log.
    assert "restore: recovered after" in log
    # The live stream has heard nothing of it, and what it wrote is its own.
    platform.assert_exact()
    platform.until_healthy(BRONZE)


def test_a_table_is_maintained_beside_its_stream(platform: Platform) -> None:
    dag_id = TABLE_MAINTENANCE_DAG_ID
    with platform.events_flow():
        before = platform.committed(BRONZE)
        run_id, state = platform.airflow.run(dag_id)
        platform.until_batch(BRONZE, after=before)
    assert state == "success", platform.airflow.log_of(dag_id, run_id, "report")
    done = platform.airflow.result(dag_id, run_id, "report")["done"]
    assert {line.partition(":")[0] for line in done} >= {TABLES[BRONZE], TABLES[WINDOWS]}
    platform.assert_exact()


def test_a_restore_that_was_killed_while_spark_works_is_completed_by_the_same_command(
    platform: Platform,
) -> None:
    platform.feed(500)
    platform.assert_exact()
    backup = platform.tidemill("checkpoint", "backup", WINDOWS, "--apply", "--json")["backup"]
    rows = windows(platform)
    platform.feed(500)
    platform.assert_exact()
    platform.tidemill("stop", WINDOWS, "--reason", "e2e")
    before = len(parts(platform))
    command = ["kubectl", "--namespace", platform.cluster.namespace]
    words = platform.in_scheduler("tidemill", *checkpoint("restore", backup))
    with subprocess.Popen([*command, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL):
        until(
            lambda: [pod for pod in platform.streams.pods(PARTS) if pod["status"]["phase"] == "Running"],
            "the part runs",
            PART_TIMEOUT_SECONDS,
        )
        platform.cluster(*platform.in_scheduler("python", "-c", KILL, "restore"))
    assert platform.tidemill(*checkpoint("restore", backup))["applied"]
    # The one that was at work was found again.
    assert len(parts(platform)) == before + 1
    assert windows(platform) == rows
    platform.tidemill("start", WINDOWS, "--reason", "e2e")
    platform.assert_exact()
    platform.until_healthy(WINDOWS)


def test_state_is_repartitioned_and_back(platform: Platform) -> None:
    declaration = with_run(declared(platform, WINDOWS), shuffle_partitions=3)
    project = with_declaration(platform, WINDOWS, declaration)
    platform.feed(500)
    platform.assert_exact()
    platform.tidemill("stop", WINDOWS, "--reason", "e2e")
    there = platform.tidemill(*project, *checkpoint("repartition", "3"))
    assert there["plan"]["partitions_before"] == 2
    between = platform.agent.ask("generation", pipeline=WINDOWS)
    back = platform.tidemill(*checkpoint("repartition", "2"))
    assert (back["plan"]["partitions_before"], back["plan"]["parent"]) == (3, between)
    platform.tidemill("start", WINDOWS, "--reason", "e2e")
    platform.feed(500)
    platform.assert_exact()
    platform.until_healthy(WINDOWS)
