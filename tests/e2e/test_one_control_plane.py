"""One control plane owns the storage root, and one that cannot make a driver does not give the stream up."""

from __future__ import annotations

import pytest

from tests.support.cluster import RefusedError, until
from tests.support.platform import BRONZE, WINDOWS, Platform
from tidemill.names import kubernetes_name
from tidemill.spec.pod import ENVIRONMENT_FOLDER, PROJECT_FOLDER

WORKLOAD = kubernetes_name(WINDOWS)

# Seconds for a stream to drain, with its StatefulSet.
GONE_SECONDS = 200

# Exit code of a driver that was fenced off, and seconds until its next batch finds that out.
FENCED = 75
FENCED_SECONDS = 150

# Number of reconciliations, a minute apart, of a stream that cannot be created in the cluster.
LOOKS = 3

# A project with local drivers, on the storage root of this release.
LAPTOP = """
import pathlib, shutil, sys, yaml
project, release, laptop = sys.argv[1:]
shutil.rmtree(laptop, ignore_errors=True)
shutil.copytree(project, laptop)
given = yaml.safe_load(pathlib.Path(release).read_text())
local = {"runtime": "local", "root": given["root"], "kafka": given["kafka"]}
pathlib.Path(laptop, "conf/environments/local.yaml").write_text(yaml.safe_dump(local))
"""
RELEASE_FILE = f"{ENVIRONMENT_FOLDER}/evaluation.yaml"
FOLDER = "/tmp/laptop"


def quota_status(platform: Platform) -> object:
    return (platform.streams.get("quota", "full") or {}).get("status")


def a_laptop(platform: Platform) -> tuple[str, ...]:
    """Return global options of a command line that is another control plane."""
    made = ("python", "-c", LAPTOP, PROJECT_FOLDER, RELEASE_FILE, FOLDER)
    platform.cluster(*platform.in_scheduler(*made))
    return ("--project", FOLDER, "--env", "local")


@pytest.mark.core
def test_a_command_line_that_would_run_drivers_itself_is_refused_on_the_same_root(platform: Platform) -> None:
    driver = platform.until_healthy(WINDOWS)
    laptop = a_laptop(platform)
    for words in (("stop", WINDOWS), ("checkpoint", "hold", WINDOWS)):
        with pytest.raises(RefusedError, match="TIDE-CTRL-010"):
            platform.tidemill(*laptop, *words, "--reason", "e2e")
    # It may look.
    assert platform.tidemill(*laptop, "ledger", WINDOWS, "--json")
    assert platform.agent.ask("holds", pipeline=WINDOWS) == []
    assert platform.until_healthy(WINDOWS)["metadata"]["uid"] == driver["metadata"]["uid"]


def test_a_stream_that_nobody_may_make_is_red_and_starts_by_itself_once_it_may_be_made(
    platform: Platform,
) -> None:
    platform.until_healthy(WINDOWS)
    quota = {"metadata": {"name": "full"}, "spec": {"hard": {"count/statefulsets.apps": "0"}}}
    platform.streams.apply({"apiVersion": "v1", "kind": "ResourceQuota", **quota})
    try:
        until(lambda: quota_status(platform), "the quota counts", GONE_SECONDS)
        platform.streams.delete("statefulset", WORKLOAD)
        until(lambda: platform.driver(WINDOWS) is None, "the stream is gone", GONE_SECONDS)
        for _ in range(LOOKS):
            assert "TIDE-K8S-011" in platform.until_reconciled()
        assert platform.agent.ask("holds", pipeline=WINDOWS) == []
    finally:
        platform.streams.delete("quota", "full")
    platform.until_healthy(WINDOWS)
    platform.feed(500)
    platform.assert_exact()


def exit_codes(platform: Platform) -> set[int]:
    """Return the exit codes of the driver's containers so far."""
    statuses = (platform.driver(WINDOWS) or {"status": {}})["status"].get("containerStatuses", [])
    ends = [
        status.get(state, {}).get("terminated") for status in statuses for state in ("state", "lastState")
    ]
    return {end["exitCode"] for end in ends if end}


def test_a_root_that_somebody_has_taken_over_fences_off_every_driver_here_until_it_is_taken_back(
    platform: Platform,
) -> None:
    platform.until_healthy(WINDOWS)
    takeover = ("control", "takeover", "--reason", "e2e", "--apply")
    with platform.events_flow():
        platform.tidemill(*a_laptop(platform), *takeover)
        until(lambda: FENCED in exit_codes(platform), "the driver is fenced off", FENCED_SECONDS)
        assert "TIDE-CTRL-010" in platform.until_reconciled()
        platform.tidemill(*takeover)
        for pipeline in (BRONZE, WINDOWS):
            platform.tidemill("start", pipeline, "--reason", "e2e")
    for pipeline in (BRONZE, WINDOWS):
        platform.until_healthy(pipeline)
    platform.assert_exact()
