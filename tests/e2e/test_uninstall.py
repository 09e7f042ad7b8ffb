"""Uninstall and install again. Last of all: between its two tests nothing is installed."""

from __future__ import annotations

import pytest

from tests.support.cluster import uid_of
from tests.support.platform import WINDOWS, Platform
from tests.support.release import NAME

CLAIM = f"{NAME}-data"


@pytest.mark.core
def test_an_uninstall_drains_every_stream_and_keeps_the_data(platform: Platform) -> None:
    platform.feed(500)
    platform.assert_exact()
    places = (platform.cluster, platform.streams)
    claims = [uid_of(place.get("pvc", CLAIM)) for place in places]
    platform.release.uninstall()
    left = [place.get("pvc", CLAIM) or {} for place in places]
    assert [uid_of(claim) for claim in left] == claims
    assert [claim["status"]["phase"] for claim in left] == ["Bound", "Bound"]
    assert [place.list("statefulsets") for place in places] == [[], []]
    receipt = platform.newest_receipt(WINDOWS)
    assert receipt is not None
    assert (receipt["result"], receipt["batch_id"]) == ("clean", platform.committed(WINDOWS))


def test_the_next_install_goes_on_from_the_checkpoint(platform: Platform) -> None:
    if platform.release.is_installed():
        platform.release.uninstall()
    batch, generation = platform.committed(WINDOWS), platform.agent.ask("generation", pipeline=WINDOWS)
    platform.release.install()
    platform.until_broker()
    platform.feed(500)
    platform.until_batch(WINDOWS, after=batch)
    platform.until_healthy(WINDOWS)
    assert platform.agent.ask("generation", pipeline=WINDOWS) == generation
    platform.assert_exact()
    platform.release.wait_until_ready()
