"""Verbs of an operator that need Spark, typed in the scheduler's pod, where there is none."""

from __future__ import annotations

import subprocess

import pytest

from tests.support.cluster import Document, until
from tests.support.other_project import declared, with_declaration, with_run
from tests.support.platform import TABLES, WINDOWS, Platform

PARTS = f"tidemill/pipeline={WINDOWS},tidemill/mode=verb"

# Seconds for the pod of a part to run.
PART_TIMEOUT_SECONDS = 300

# Ends the process of a verb in the pod where somebody typed it.
KILL = """
import os, pathlib, signal, sys
for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
    words = path.read_bytes().split(b"\\0")
    if sys.argv[1].encode() in words and b"checkpoint" in words and int(path.parent.name) != os.getpid():
        os.kill(int(path.parent.name), signal.SIGKILL)
"""


def parts(platform: Platform) -> list[Document]:
    """Jobs of the pipeline's parts, oldest first."""
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
    good, rows = platform.committed(WINDOWS), windows(platform)
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
