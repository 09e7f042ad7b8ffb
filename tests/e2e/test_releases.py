"""Upgrade and rollback: streams continue, or if their definition changed, are drained, gated and replaced."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.support.changed_project import REPOSITORY, changed_project, images_of
from tests.support.cluster import uid_of, until
from tests.support.platform import BRONZE, WINDOWS, Platform
from tidemill.names import kubernetes_name

# Seconds for the next look of the reconciliation, a drain, and the new driver's pod.
REPLACED_SECONDS = 600


def uids(platform: Platform) -> list[str | None]:
    return [uid_of(platform.driver(pipeline)) for pipeline in (BRONZE, WINDOWS)]


def replaced(platform: Platform, uid: str | None) -> None:
    """Wait until the stream's pod is another one, and has committed a batch."""
    until(
        lambda: uid_of(platform.driver(WINDOWS)) not in (uid, None),
        "the driver is replaced",
        REPLACED_SECONDS,
    )
    platform.until_healthy(WINDOWS)
    platform.until_batch(WINDOWS)


def trigger(platform: Platform) -> str:
    """Return the trigger of the declaration that the stream runs with."""
    declaration = yaml.safe_load(platform.streams.config(kubernetes_name(WINDOWS))["pipeline.yaml"])
    return str(declaration["run"]["trigger"])


def test_an_upgrade_and_a_rollback_leave_the_streams_alone(platform: Platform) -> None:
    before = uids(platform)
    receipts = len(platform.agent.ask("receipts", pipeline=WINDOWS))
    with platform.events_flow():
        platform.release.upgrade(airflow__env__E2E="changed")
        platform.release.wait_until_ready()
        platform.until_reconciled()
        platform.release.rollback()
        platform.release.wait_until_ready()
        platform.until_reconciled()
        platform.until_batch(WINDOWS)
    assert uids(platform) == before
    assert len(platform.agent.ask("receipts", pipeline=WINDOWS)) == receipts
    platform.assert_exact()


# The new pod never runs, which is known after two minutes; then each step takes a look of the reconciliation.
@pytest.mark.timeout(2_400)
def test_an_image_that_no_node_has_is_given_up_for_the_one_before(platform: Platform) -> None:
    """A stream without a transform, because nothing has to be planned with the new image first."""
    pod, good = platform.until_healthy(BRONZE), platform.release.image("spark")
    platform.until_reconciled()
    missing = {"images__spark__tag": "nobody-made-this", "environment__file__progress_within": "2 minutes"}
    with platform.events_flow():
        platform.release.upgrade(**missing)
        until(lambda: image_of(platform) not in (good, None), "the new image is tried", REPLACED_SECONDS)
        until(lambda: image_of(platform) == good, "the stream went back", 2 * REPLACED_SECONDS)
        back = platform.until_healthy(BRONZE)
        assert uid_of(back) != uid_of(pod)
        platform.until_batch(BRONZE)
        assert "it runs the version before" in platform.until_reconciled()
        # After the rollback, the declared version is the running one again, so nothing restarts.
        platform.release.rollback()
        platform.until_reconciled()
        assert uid_of(platform.driver(BRONZE)) == uid_of(back)
    platform.release.wait_until_ready()
    platform.assert_exact()


def image_of(platform: Platform) -> str | None:
    """Return the image of the stream's pod, whether it runs or not."""
    driver = platform.driver(BRONZE)
    return None if driver is None else str(driver["spec"]["containers"][0]["image"])


# Two images are built and loaded, and a stream is replaced twice.
@pytest.mark.timeout(2_400)
def test_a_changed_pipeline_is_drained_gated_and_replaced_and_a_refused_one_goes_on(
    platform: Platform, tmp_path: Path
) -> None:
    declared = yaml.safe_load((REPOSITORY / f"conf/pipelines/{BRONZE}.yaml").read_text())
    changes = {
        WINDOWS: {"run": {"mode": "stream", "trigger": "4 seconds", "size": "small"}},
        # A table that would lack all that came before.
        BRONZE: {"sinks": [*declared["sinks"], {"delta": {"table": "bronze/iot_events_copy"}}]},
    }
    tag = images_of(changed_project(tmp_path / "project", changes), "changed")
    bronze, windows = uids(platform)
    receipts = len(platform.agent.ask("receipts", pipeline=WINDOWS))
    with platform.events_flow():
        platform.release.upgrade(images__spark__tag=tag, images__airflow__tag=tag)
        replaced(platform, windows)
        assert trigger(platform) == "4 seconds"
        pod = platform.until_healthy(WINDOWS)
        assert pod["spec"]["containers"][0]["image"].endswith(tag)
        assert "TIDE-CKPT-028" in platform.until_reconciled()
        assert uid_of(platform.driver(BRONZE)) == bronze
        platform.release.rollback()
        replaced(platform, uid_of(pod))
        assert trigger(platform) == "5 seconds"
    left = platform.agent.ask("receipts", pipeline=WINDOWS)[receipts:]
    assert [receipt["result"] for receipt in left] == ["clean", "clean"]
    assert uid_of(platform.driver(BRONZE)) == bronze
    platform.release.wait_until_ready()
    platform.assert_exact()
